/**
 * Backups of the catalogue: one at each start and one a day, in a directory beside it, a few of them kept.
 *
 *   <state directory>/backups/catalogue-<UTC time>.sqlite
 *
 * Each is a whole database that can take the catalogue's place (docs/backends.md, "Restoring the
 * catalogue"). A backup that fails is told and keeps nothing from working.
 */
import { chmod, mkdir, open, readdir, rename, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../base/logger.js';
import type { AsyncCatalogue } from './catalogue-client.js';

const DAY_MS = 24 * 3_600_000;
/** The newest of so many days are kept, and so many of the newest of all. */
const DAYS_KEPT = 7;
const NEWEST_KEPT = 3;
/** Of the catalogue's size: what has to be free for a backup, so that it never fills the directory. */
const ROOM_FACTOR = 3n;
const NAME = /^catalogue-(\d{8})T\d{9}Z\.sqlite$/;
/** Of a copy that was killed: it, and what SQLite had beside it. */
const LEFT = /^catalogue-\d{8}T\d{9}Z\.sqlite\.tmp(?:-journal)?$/;

export interface BackupDependencies {
  catalogue: AsyncCatalogue;
  /** Of the catalogue. */
  file: string;
  directory: string;
  logger: Logger;
}

export class CatalogueBackups {
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(private readonly deps: BackupDependencies) {}

  /** Makes one now and one a day from now on. Resolves when the first is there, or has failed. */
  async start(): Promise<void> {
    this.#timer = setInterval(() => void this.#run(), DAY_MS);
    this.#timer.unref();
    await this.#run();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
  }

  #run(): Promise<void> {
    this.#running = this.#running.then(async () => {
      try {
        await this.#make();
      } catch (thrown) {
        const { logger, directory } = this.deps;
        logger.warn({ err: thrown, directory }, 'the catalogue could not be backed up');
      }
    });
    return this.#running;
  }

  async #make(): Promise<void> {
    const { catalogue, directory } = this.deps;
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await this.#assertRoom();
    const name = backupName(new Date());
    const temporary = join(directory, `${name}.tmp`);
    for (const left of (await readdir(directory)).filter((entry) => LEFT.test(entry))) {
      await rm(join(directory, left), { force: true });
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

  async #assertRoom(): Promise<void> {
    const { file, directory } = this.deps;
    const { size } = await stat(file, { bigint: true });
    const { bavail, bsize } = await statfs(directory, { bigint: true });
    if (bavail * bsize >= size * ROOM_FACTOR) return;
    throw new Error(
      `${directory} has ${bavail * bsize} bytes free, too few beside a copy of ${size}`,
    );
  }
}

function backupName(time: Date): string {
  return `catalogue-${time.toISOString().replace(/[-:.]/g, '')}.sqlite`;
}

/** Of the names in the directory, those of backups that are no longer wanted. Foreign names stay. */
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
  const kept = new Set([
    ...newestFirst.slice(0, NEWEST_KEPT),
    ...[...newestOfDay.values()].slice(0, DAYS_KEPT),
  ]);
  return newestFirst.filter((name) => !kept.has(name));
}

async function flush(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
