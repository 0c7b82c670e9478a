/**
 * Which volumes of a reflink pool somebody else may have written to: one empty file for each.
 *
 * They lie in the pool, beside the data they protect, since a catalogue can be older than its pool.
 * Whatever is asked of a mark asks the pool first: in one whose disk is away no volume is marked.
 */
import { readdir, writeFile } from 'node:fs/promises';
import type { NativeRunner } from '../../native/pool.js';
import type { PoolDirectory } from './pool-directory.js';
import { isObjectName } from './pool-layout.js';
import { statOrNull } from './pool-space.js';

export class UsedMarks {
  constructor(
    private readonly native: NativeRunner,
    private readonly directory: PoolDirectory,
  ) {}

  async set(volumeId: string): Promise<void> {
    await this.directory.check();
    const { layout } = this.directory;
    await writeFile(layout.usedMark(volumeId), '', { mode: 0o600 });
    // Also if the file was there already: an earlier call may have been killed before this.
    await this.native.run('flush', { path: layout.used });
  }

  async has(volumeId: string): Promise<boolean> {
    await this.directory.check();
    return (await statOrNull(this.directory.layout.usedMark(volumeId))) !== null;
  }

  async remove(volumeId: string): Promise<void> {
    await this.native.run('removeFile', { path: this.directory.layout.usedMark(volumeId) });
  }

  /** A deletion that was killed may have left marks of volumes that are gone. */
  async sweep(): Promise<void> {
    const { layout } = this.directory;
    for (const name of (await readdir(layout.used)).filter(isObjectName)) {
      if ((await statOrNull(layout.volume(name))) === null) await this.remove(name);
    }
  }
}
