/**
 * Tells a start how the last run of the plugin on this state directory ended.
 *
 *   <state directory>/running   exists from a start until an orderly stop; holds the machine's boot id
 *
 * The file is durable before the pools are opened and removed after they are closed, so a kill, a crash and a
 * power failure leave it behind, and the boot id tells the last of them from the others. Call it only while
 * the catalogue is open, whose lock keeps a second plugin away. A directory without space for the file only
 * costs the report.
 */
import { constants } from 'node:fs';
import { open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { bestEffort, unreported } from '../../base/best-effort.js';
import { openOwn, readOwn } from '../../base/own-files.js';

/** not recorded: the first start. */
export type LastStop = 'clean' | 'killed or crashed' | 'the machine stopped' | 'not recorded';

/** A boot id has 36. */
const MAX_BYTES = 4096;
const { O_CREAT, O_WRONLY } = constants;
const BOOT_ID = '/proc/sys/kernel/random/boot_id';

export class RunMarker {
  readonly #file: string;
  #bootId = '';
  /** The boot id of the run that left the file; null: none did, or its work is settled. */
  #left: string | null = null;

  constructor(private readonly stateDirectory: string) {
    this.#file = join(stateDirectory, 'running');
  }

  /**
   * Returns how the last run ended, and records that this one runs.
   *
   * @param isFirstStart there was no catalogue before
   */
  async begin(isFirstStart: boolean): Promise<LastStop> {
    this.#bootId = (await readFile(BOOT_ID, 'utf8')).trim();
    this.#left = await readOwn(this.#file, MAX_BYTES);
    if (this.#left === null) {
      await bestEffort(() => this.#write(), unreported);
      return isFirstStart ? 'not recorded' : 'clean';
    }
    return this.#left === this.#bootId ? 'killed or crashed' : 'the machine stopped';
  }

  /** Call when the plugin has started: only then is what an unclean stop left settled. */
  async started(): Promise<void> {
    if (this.#left !== null && this.#left !== this.#bootId) {
      await bestEffort(() => this.#write(), unreported);
    }
    this.#left = null;
  }

  /** Call when everything else is closed. A start that failed keeps what it found for the next one. */
  async end(): Promise<void> {
    if (this.#left !== null) return;
    await rm(this.#file, { force: true });
    await this.#flushDirectory();
  }

  async #write(): Promise<void> {
    const marker = await openOwn(this.#file, O_WRONLY | O_CREAT);
    try {
      await marker.truncate();
      await marker.writeFile(`${this.#bootId}\n`);
      await marker.sync();
    } finally {
      await marker.close();
    }
    await this.#flushDirectory();
  }

  async #flushDirectory(): Promise<void> {
    const directory = await open(this.stateDirectory, 'r');
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  }
}
