/**
 * Backups of the catalogue: one at each start and one a day, in a directory beside it.
 *
 *   <state directory>/backups/catalogue-<UTC time>.sqlite
 *
 * Each is a complete database that can replace the catalogue (docs/backends.md, "Restoring the
 * catalogue"). A failed backup is logged and has no other effect.
 */
import { chmod, mkdir, readdir, rename, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../../base/logger.js';
import { Periodic } from '../../base/periodic.js';
import { flush } from '../../base/system/checked-files.js';
import { ownDirectory } from '../../base/system/own-files.js';
import type { AsyncCatalogue } from './catalogue-client.js';

const DAY_MS = 24 * 3_600_000;
/** Retention: the newest backup of each of the last seven days that have one, and the newest three. */
const DAYS_RETAINED = 7;
const NEWEST_RETAINED = 3;
/** A backup needs this many times the catalogue's size of free space, so that it never fills the directory. */
const SPACE_FACTOR = 3n;
const NAME = /^catalogue-(\d{8})T\d{9}Z\.sqlite$/;
/** An unfinished copy that a kill has left, and its SQLite journal. */
const UNFINISHED = /^catalogue-\d{8}T\d{9}Z\.sqlite\.tmp(?:-journal)?$/;

export interface BackupDependencies {
  catalogue: AsyncCatalogue;
  file: string;
  directory: string;
  logger: Logger;
}

export class CatalogueBackups {
  readonly #rounds = new Periodic(0, async () => {
    await this.#run();
    return DAY_MS;
  });

  constructor(private readonly deps: BackupDependencies) {}

  /** Makes a backup now and one a day from now on. Waits for none. */
  start(): void {
    this.#rounds.start();
  }

  /** Waits for the backup that is being made. None follows, not even after start(). */
  async stop(): Promise<void> {
    await this.#rounds.stop();
  }

  async #run(): Promise<void> {
    const { logger, directory } = this.deps;
    try {
      await this.#make();
      logger.info({ directory }, 'backed up the catalogue');
    } catch (thrown) {
      logger.warn({ err: thrown, directory }, 'could not back up the catalogue');
    }
  }

  async #make(): Promise<void> {
    const { catalogue, directory } = this.deps;
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await ownDirectory(directory);
    await this.#assertSpace();
    const name = `catalogue-${new Date().toISOString().replace(/[-:.]/g, '')}.sqlite`;
    const temporary = join(directory, `${name}.tmp`);
    for (const unfinished of (await readdir(directory)).filter((entry) => UNFINISHED.test(entry))) {
      await rm(join(directory, unfinished), { force: true });
    }
    try {
      await catalogue.backUp(temporary);
      await chmod(temporary, 0o600);
      await flush(temporary);
      await rename(temporary, join(directory, name));
      await flush(directory);
    } catch (thrown) {
      await rm(temporary, { force: true });
      throw thrown;
    }
    for (const old of outdated(await readdir(directory))) await rm(join(directory, old));
  }

  async #assertSpace(): Promise<void> {
    const { file, directory } = this.deps;
    const { size } = await stat(file, { bigint: true });
    const { bavail, bsize } = await statfs(directory, { bigint: true });
    if (bavail * bsize >= size * SPACE_FACTOR) return;
    throw new Error(`${directory} has ${bavail * bsize} bytes free; a backup needs ${size * SPACE_FACTOR}`);
  }
}

/** The names of backups that the retention no longer covers. Other names are never returned. */
export function outdated(names: readonly string[]): string[] {
  const newestFirst = names
    .filter((name) => NAME.test(name))
    .sort()
    .reverse();
  const newestOfDay = new Map<string, string>();
  for (const name of newestFirst) {
    const day = NAME.exec(name)?.[1] ?? '';
    if (!newestOfDay.has(day)) newestOfDay.set(day, name);
  }
  const retained = new Set([
    ...newestFirst.slice(0, NEWEST_RETAINED),
    ...[...newestOfDay.values()].slice(0, DAYS_RETAINED),
  ]);
  return newestFirst.filter((name) => !retained.has(name));
}
