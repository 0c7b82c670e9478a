/**
 * The replicas of a reflink pool: frozen copies of snapshots of other nodes. A pull writes an unfinished one through its loop
 * device; then it is sealed and immutable as a snapshot is. Knows no nodes, no lists and no transfers.
 */
import { CsiError, errorCode } from '../../../base/errors.js';
import type { FileState } from '../../native/addon.js';
import type { NativeRunner } from '../../native/pool.js';
import type { PoolReplicas, Replica, ReplicaDevice } from '../backend.js';
import { filesIn } from '../directory-files.js';
import { releaseLoop } from '../loop-release.js';
import { holdLoop } from './held-loop.js';
import type { PoolDirectory } from './pool-directory.js';
import { isReplicaName, isUnfinishedName, type PoolLayout, snapshotOf, temporary } from './pool-layout.js';

/** How many ranges one call punches. */
const PUNCHED_AT_ONCE = 4096;

export class ReplicaFiles implements PoolReplicas {
  constructor(
    private readonly native: NativeRunner,
    private readonly pool: string,
    private readonly directory: PoolDirectory,
  ) {}

  async begin(snapshotId: string, sizeBytes: bigint, baseId: string | null): Promise<void> {
    await this.directory.use(async ({ layout }) => {
      if ((await this.#state(layout, (each) => each.replica(snapshotId))) !== null) throw this.#isComplete(snapshotId);
      const finalPath = layout.unfinishedReplica(snapshotId);
      const found = await this.#state(layout, (each) => each.unfinishedReplica(snapshotId));
      if (found?.sizeBytes === sizeBytes) return;
      if (found !== null) throw this.#hasSize(snapshotId, found, sizeBytes);
      const names = { temporaryPath: temporary(finalPath), finalPath };
      if (baseId === null) await this.native.run('createSparseFile', { ...names, sizeBytes });
      else await this.#clone(baseId, { sourcePath: layout.replica(baseId), ...names, sizeBytes });
    });
  }

  async open(snapshotId: string): Promise<ReplicaDevice> {
    const device = await this.directory.use(({ layout }) => {
      const backingPath = layout.unfinishedReplica(snapshotId);
      return holdLoop(this.native, { backingPath, readOnly: false, label: snapshotId });
    });
    const { path } = device;
    return {
      path,
      punch: async (ranges) => {
        for (let at = 0; at < ranges.length; at += PUNCHED_AT_ONCE) {
          const words = ranges.slice(at, at + PUNCHED_AT_ONCE).flatMap(({ offset, size }) => [offset, size]);
          await this.native.run('punchDevice', { path, ranges: BigUint64Array.from(words) }, [snapshotId]);
        }
      },
      flush: async () => void (await this.native.run('flush', { path }, [snapshotId])),
      close: () => device.close(),
    };
  }

  async complete(snapshotId: string): Promise<void> {
    await this.directory.use(async ({ layout }) => {
      const temporaryPath = layout.unfinishedReplica(snapshotId);
      await releaseLoop(this.native, temporaryPath);
      const names = { temporaryPath, finalPath: layout.replica(snapshotId) };
      await this.native.run('freezeFile', names, [snapshotId]);
    });
  }

  async delete(snapshotId: string): Promise<void> {
    await this.directory.use(async ({ layout }) => {
      const unfinished = layout.unfinishedReplica(snapshotId);
      await releaseLoop(this.native, unfinished);
      for (const path of [temporary(unfinished), unfinished, layout.replica(snapshotId)]) {
        await this.native.run('removeFile', { path });
      }
    });
  }

  async check(snapshotId: string, sizeBytes: bigint): Promise<void> {
    const state = await this.directory.use(({ layout }) => this.#state(layout, (each) => each.replica(snapshotId)));
    const isWhole = state?.regular && state.immutable && state.matchesSeal && state.sizeBytes === sizeBytes;
    if (!isWhole) throw this.#changed(snapshotId, undefined);
  }

  async list(): Promise<Replica[]> {
    return this.directory.use(async ({ layout }) => {
      const files = await filesIn(this.native, layout.snapshots);
      return files
        .filter(({ name }) => isReplicaName(name) || isUnfinishedName(name))
        .map(({ name, sizeBytes }) => ({
          snapshotId: snapshotOf(name),
          sizeBytes,
          isComplete: isReplicaName(name),
        }));
    });
  }

  /** The error to throw when a copy of a complete replica has failed. */
  explain(snapshotId: string, thrown: unknown): unknown {
    const isLost = ['ENOENT', 'SCAN_MUTABLE'].includes(errorCode(thrown) ?? '');
    return isLost ? this.#changed(snapshotId, thrown) : thrown;
  }

  async #clone(
    baseId: string,
    request: { sourcePath: string; temporaryPath: string; finalPath: string; sizeBytes: bigint },
  ): Promise<void> {
    try {
      await this.native.run('cloneFile', request, [baseId]);
    } catch (thrown) {
      throw this.explain(baseId, thrown);
    }
  }

  /** Null if there is no file. FAILED_PRECONDITION if the path leads out of the pool's file system. */
  async #state(opened: PoolLayout, pathIn: (layout: PoolLayout) => string): Promise<FileState | null> {
    const { state } = await this.native.run('fileState', { path: pathIn(opened) });
    if (state !== null) this.directory.assertOwn(pathIn(this.directory.layout), state);
    return state;
  }

  #isComplete(snapshotId: string): CsiError {
    return CsiError.internal(`the replica of ${snapshotId} in pool '${this.pool}' is complete and was begun again`);
  }

  #hasSize(snapshotId: string, { sizeBytes: found }: FileState, sizeBytes: bigint): CsiError {
    return CsiError.internal(
      `the unfinished replica of ${snapshotId} in pool '${this.pool}' has ${found} bytes where ${sizeBytes} were expected`,
    );
  }

  #changed(snapshotId: string, cause: unknown): CsiError {
    return CsiError.failedPrecondition(
      `the replica of snapshot ${snapshotId} in pool '${this.pool}' is gone or was changed by another program, so it is no ` +
        'longer the snapshot: remove it, and it is pulled again',
      { cause },
    );
  }
}
