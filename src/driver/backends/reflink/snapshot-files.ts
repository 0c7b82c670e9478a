/**
 * The snapshots of a reflink pool: clones of volume files, immutable from when they are taken until they
 * are removed. Knows volumes only as sources.
 */
import { CsiError, errorCode } from '../../../base/errors.js';
import type { FileState, NewSnapshotFile, ScanSource } from '../../native/addon.js';
import type { NativeRunner } from '../../native/pool.js';
import type { SnapshotFile } from '../../native/snapshot-file.js';
import type { OpenSnapshot, SnapshotMember, TakenSnapshots } from '../backend.js';
import { freezeRequest } from '../freezing.js';
import { holdLoop } from './held-loop.js';
import type { CopySource } from './last-copies.js';
import type { OpenDirectories } from './open-directories.js';
import type { PoolDirectory } from './pool-directory.js';
import { temporary } from './pool-layout.js';
import { isMissing, type VolumeFiles } from './volume-files.js';

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

  async create(members: readonly SnapshotMember[], deadline = Number.POSITIVE_INFINITY): Promise<TakenSnapshots> {
    const freezing = freezeRequest(this.volumes.freezing, deadline);
    const sources: CopySource[] = [];
    try {
      return await this.directory.use(async (opened) => {
        const requests: NewSnapshotFile[] = [];
        for (const { volumeId, snapshotId } of members) {
          const source = await this.volumes.snapshotSource(opened, volumeId);
          sources.push({ ...source, volumeId });
          const finalPath = opened.layout.snapshot(snapshotId);
          requests.push({ ...source, temporaryPath: temporary(finalPath), finalPath });
        }
        const [first] = members;
        const copyPath = first === undefined ? null : opened.layout.copyFor(first.snapshotId);
        await this.volumes.assertCopyable(opened, sources, freezing);
        const request = { members: requests, copyPath, ...freezing };
        const volumes = members.map(({ volumeId }) => volumeId);
        const { takenAtNs, frozenNs } = await this.native.run('takeSnapshots', request, volumes);
        await this.volumes.lastCopies.succeeded(sources, frozenNs, freezing);
        const sizesBytes: bigint[] = [];
        for (const { snapshotId } of members) {
          sizesBytes.push((await this.#state(opened, snapshotId)).sizeBytes);
        }
        return { creationTimeNs: takenAtNs, sizesBytes };
      });
    } catch (thrown) {
      throw await this.volumes.explainFailure(thrown, sources, freezing);
    }
  }

  /** Removes the snapshot's file, and the temporary one that a kill may have left. */
  async delete(snapshotId: string): Promise<void> {
    await this.directory.use(async ({ layout }) => {
      const path = layout.snapshot(snapshotId);
      await this.native.run('removeFile', { path: temporary(path) });
      await this.native.run('removeFile', { path });
    });
  }

  /** The files for a scan: paths through the mount point, and identities that workers check after opening the files. */
  async files(targetId: string, baseId: string | null): Promise<Extract<ScanSource, { kind: 'files' }>> {
    return this.directory.use(async (opened) => ({
      kind: 'files',
      target: await this.#file(opened, targetId),
      base: baseId === null ? null : await this.#file(opened, baseId),
    }));
  }

  /** @param sizeBytes size of the snapshot when it was taken, if known */
  async check(snapshotId: string, sizeBytes?: bigint): Promise<void> {
    const state = await this.directory.use((opened) => this.#state(opened, snapshotId));
    const isResized = state.regular && state.sizeBytes !== (sizeBytes ?? state.sizeBytes);
    const change = isResized ? `has ${state.sizeBytes} bytes where ${sizeBytes} were taken` : changeOf(state);
    if (change !== null) throw this.#changed(snapshotId, change, undefined);
  }

  async open(snapshotId: string): Promise<OpenSnapshot> {
    await this.check(snapshotId);
    return this.directory.use(({ layout }) =>
      holdLoop(this.native, { backingPath: layout.snapshot(snapshotId), readOnly: true, label: snapshotId }),
    );
  }

  /** How the snapshot's file has changed since it was taken, as a phrase that follows its name; null if it has not. */
  change(snapshotId: string): Promise<string | null> {
    return this.directory.use(async ({ layout }) => {
      const { state } = await this.native.run('fileState', { path: layout.snapshot(snapshotId) });
      if (state === null) return 'is gone';
      this.directory.assertOwn(this.path(snapshotId), state);
      return changeOf(state);
    });
  }

  /** The error to throw when reading the snapshot's file has failed. */
  explain(snapshotId: string, thrown: unknown): unknown {
    if (isMissing(thrown, this.path(snapshotId))) return this.#lost(snapshotId, thrown);
    if (errorCode(thrown) !== 'SCAN_MUTABLE') return thrown;
    return this.#changed(snapshotId, 'may have been changed since it was taken', thrown);
  }

  async #file(opened: OpenDirectories, snapshotId: string): Promise<SnapshotFile> {
    const { device, inode, sizeBytes } = await this.#state(opened, snapshotId);
    return { path: this.path(snapshotId), device, inode, sizeBytes };
  }

  #changed(snapshotId: string, found: string, cause: unknown): CsiError {
    return CsiError.failedPrecondition(
      `the file ${this.path(snapshotId)} of snapshot ${snapshotId} in pool '${this.pool}' ${found}: ` +
        'another program changed it, so it is no longer the snapshot; use another snapshot or a backup',
      { cause },
    );
  }

  async #state({ layout }: OpenDirectories, snapshotId: string): Promise<FileState> {
    const { state } = await this.native.run('fileState', { path: layout.snapshot(snapshotId) });
    if (state === null) throw this.#lost(snapshotId, undefined);
    this.directory.assertOwn(this.path(snapshotId), state);
    return state;
  }

  #lost(snapshotId: string, cause: unknown): CsiError {
    return CsiError.failedPrecondition(
      `snapshot ${snapshotId} has lost its file ${this.path(snapshotId)} in pool ` +
        `'${this.pool}'; make a full backup of another snapshot`,
      { cause },
    );
  }
}

function changeOf({ regular, matchesSeal, immutable }: FileState): string | null {
  if (!regular) return 'is not a regular file';
  if (!matchesSeal) return 'was written to after it was taken';
  return immutable ? null : 'is no longer immutable';
}
