/**
 * The snapshots of a reflink pool: frozen clones of volume files, immutable from their cut to their
 * removal. Knows volumes only as what is cut.
 */
import { CsiError } from '../../errors.js';
import type { SnapshotFile } from '../../native/addon.js';
import type { NativeRunner } from '../../native/pool.js';
import type { SnapshotCut, SnapshotMember } from '../backend.js';
import type { PoolDirectory } from './pool-directory.js';
import { temporary } from './pool-layout.js';
import type { VolumeFiles } from './volume-files.js';

export class SnapshotFiles {
  constructor(
    private readonly native: NativeRunner,
    private readonly pool: string,
    private readonly directory: PoolDirectory,
    private readonly volumes: VolumeFiles,
  ) {}

  path(snapshotId: string): string {
    return this.directory.layout.snapshot(snapshotId);
  }

  async create(members: readonly SnapshotMember[]): Promise<SnapshotCut> {
    const sources = await Promise.all(
      members.map(async ({ volumeId, snapshotId }) => {
        const finalPath = this.path(snapshotId);
        const source = await this.volumes.cutSource(volumeId);
        return { ...source, volumeId, temporaryPath: temporary(finalPath), finalPath };
      }),
    );
    const requests = sources.map(({ volumeId, ...request }) => request);
    try {
      const { cutTimeNs } = await this.native.run('cutSnapshots', { members: requests });
      const sizes = members.map(async ({ snapshotId }) => (await this.file(snapshotId)).sizeBytes);
      return { creationTimeNs: cutTimeNs, sizesBytes: await Promise.all(sizes) };
    } catch (thrown) {
      throw this.volumes.explainCut(thrown, sources);
    }
  }

  /** The snapshot's file, and what a cut that was killed may have left of it. */
  async delete(snapshotId: string): Promise<void> {
    await this.directory.check();
    const path = this.path(snapshotId);
    await this.native.run('removeFile', { path: temporary(path) });
    await this.native.run('removeFile', { path });
  }

  async abandon(members: readonly SnapshotMember[]): Promise<void> {
    // All of them first: a file system that stands still holds up its users.
    for (const { volumeId } of members) await this.volumes.thaw(volumeId);
    for (const { snapshotId } of members) await this.delete(snapshotId);
  }

  async file(snapshotId: string): Promise<SnapshotFile> {
    const path = this.path(snapshotId);
    const { state } = await this.native.run('fileState', { path });
    if (state === null) throw this.lost(snapshotId, undefined);
    return { path, device: state.device, inode: state.inode, sizeBytes: state.sizeBytes };
  }

  lost(snapshotId: string, cause: unknown): CsiError {
    return CsiError.failedPrecondition(
      `snapshot ${snapshotId} has lost its file ${this.path(snapshotId)} in pool ` +
        `'${this.pool}'; make a full backup of another one`,
      { cause },
    );
  }
}
