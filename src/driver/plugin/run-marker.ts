/**
 * Tells a start how the last run of the plugin on this state directory ended.
 *
 *   <state directory>/running   exists from a start until an orderly stop; holds the machine's boot id
 *
 * The file is durable before the pools are opened and removed after they are closed. A kill, a crash and a power failure
 * therefore leave the file behind, and the boot id distinguishes a power failure from the others. Use a marker only
 * while the catalogue is open, because the catalogue's lock keeps a second plugin away. If the directory has no space
 * for the file, only the report is lost.
 */
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { bestEffort, unreported } from '../../base/best-effort.js';
import { flush } from '../../base/system/checked-files.js';
import { readOwn, writeOwn } from '../../base/system/own-files.js';

/** `not recorded` means the first start. */
export type LastStop = 'clean' | 'killed or crashed' | 'the machine stopped' | 'not recorded';

/** The most bytes that are read. A boot id has 36. */
const MAX_BYTES = 4096;
const BOOT_ID = '/proc/sys/kernel/random/boot_id';

export class RunMarker {
  readonly #file: string;
  #bootId = '';
  /** The boot id of the run that left the file; null if none did, or if its unfinished work is complete. */
  #left: string | null = null;

  constructor(private readonly stateDirectory: string) {
    this.#file = join(stateDirectory, 'running');
  }

  /** Of the machine; empty before `begin`. */
  get bootId(): string {
    return this.#bootId;
  }

  /**
   * Returns how the last run ended, and records that this run has begun.
   *
   * @param isFirstStart whether there was no catalogue before
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

  /** Call this when the plugin has started: only then is the work complete that an unclean stop left. */
  async started(): Promise<void> {
    if (this.#left !== null && this.#left !== this.#bootId) {
      await bestEffort(() => this.#write(), unreported);
    }
    this.#left = null;
  }

  /** Call this when everything else is closed. A failed start keeps the file that it found for the next start. */
  async end(): Promise<void> {
    if (this.#left !== null) return;
    await rm(this.#file, { force: true });
    await flush(this.stateDirectory);
  }

  async #write(): Promise<void> {
    await writeOwn(this.#file, `${this.#bootId}\n`);
  }
}
