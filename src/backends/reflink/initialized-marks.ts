/**
 * Which volumes of a reflink pool somebody else may have written to: one empty file for each.
 *
 * They lie in the pool, beside the data they protect, since a catalogue can be older than its pool.
 * Whatever is asked of a mark holds the pool first: in one whose disk is away no volume is marked.
 */
import { readdir, writeFile } from 'node:fs/promises';
import type { NativeRunner } from '../../native/pool.js';
import type { HeldDirectories } from './held-directories.js';
import type { PoolDirectory } from './pool-directory.js';
import { isObjectName, type PoolLayout } from './pool-layout.js';
import { statOrNull } from './pool-space.js';

export class InitializedMarks {
  constructor(
    private readonly native: NativeRunner,
    private readonly directory: PoolDirectory,
  ) {}

  async set(volumeId: string): Promise<void> {
    await this.directory.use(async ({ layout }) => {
      await writeFile(layout.initializedMark(volumeId), '', { mode: 0o600 });
      // Also if the file was there already: an earlier call may have been killed before this.
      await this.native.run('flush', { path: layout.used });
    });
  }

  has(volumeId: string): Promise<boolean> {
    return this.directory.use(
      async ({ layout }) => (await statOrNull(layout.initializedMark(volumeId))) !== null,
    );
  }

  all(): Promise<ReadonlySet<string>> {
    return this.directory.use(
      async ({ layout }) => new Set((await readdir(layout.used)).filter(isObjectName)),
    );
  }

  async remove(volumeId: string): Promise<void> {
    await this.directory.use(({ layout }) => this.#remove(layout, volumeId));
  }

  /** A deletion that was killed may have left marks of volumes that are gone. */
  async sweep({ layout }: HeldDirectories): Promise<void> {
    const marked = (await readdir(layout.used)).filter(isObjectName);
    const held = new Set(await readdir(layout.volumes));
    for (const name of marked.filter((volumeId) => !held.has(volumeId))) {
      await this.#remove(layout, name);
    }
  }

  async #remove(layout: PoolLayout, volumeId: string): Promise<void> {
    await this.native.run('removeFile', { path: layout.initializedMark(volumeId) });
  }
}
