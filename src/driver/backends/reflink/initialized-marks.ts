/**
 * Marks the initialized volumes of a reflink pool, those that may hold data of their users, with one
 * empty file each.
 *
 * The marks are in the pool, beside the data they protect, because a restored catalogue can be older than its pool. Every
 * operation opens the pool first: without its disk, no volume would seem to be marked.
 */
import type { NativeRunner } from '../../native/pool.js';
import type { InitializedVolumes, PoolObject } from '../backend.js';
import { namesIn } from '../directory-files.js';
import type { PoolDirectory } from './pool-directory.js';
import { isObjectName, type PoolLayout } from './pool-layout.js';

export class InitializedMarks implements InitializedVolumes {
  constructor(
    private readonly native: NativeRunner,
    private readonly directory: PoolDirectory,
  ) {}

  async set(volumeIds: readonly string[]): Promise<void> {
    await this.directory.use(async ({ layout }) => {
      for (const volumeId of volumeIds) {
        await this.native.run('writeText', { path: layout.initializedMark(volumeId), text: '' });
      }
      // Even if the files existed: an earlier call may have been killed before its flush.
      await this.native.run('flush', { path: layout.initialized });
    });
  }

  has(volumeId: string): Promise<boolean> {
    return this.directory.use(async ({ layout }) => {
      const path = layout.initializedMark(volumeId);
      return (await this.native.run('entryOf', { path })).entry !== null;
    });
  }

  async remove(volumeId: string): Promise<void> {
    await this.directory.use(({ layout }) => this.#remove(layout, volumeId));
  }

  sweep(held?: readonly PoolObject[]): Promise<ReadonlySet<string>> {
    return this.directory.use(async ({ layout }) => {
      const marked = new Set((await namesIn(this.native, layout.initialized)).filter(isObjectName));
      const volumes = new Set(held?.map(({ id }) => id) ?? (await namesIn(this.native, layout.volumes)));
      for (const volumeId of [...marked].filter((each) => !volumes.has(each))) {
        await this.#remove(layout, volumeId);
        marked.delete(volumeId);
      }
      return marked;
    });
  }

  async #remove(layout: PoolLayout, volumeId: string): Promise<void> {
    await this.native.run('removeFile', { path: layout.initializedMark(volumeId) });
  }
}
