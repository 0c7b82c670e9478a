/**
 * The replicas of a reflink pool: frozen copies of snapshots of other nodes. A pull writes an unfinished one through its loop
 * device; then it is sealed and immutable as a snapshot is. Knows no nodes, no lists and no transfers.
 */
import { join } from 'node:path';
import { errorCode } from '../../../base/errors.js';
import type { FileState } from '../../native/addon.js';
import type { NativeRunner } from '../../native/pool.js';
import type { OpenSnapshot, PoolReplicas, Replica, ReplicaDevice } from '../backend.js';
import { namesIn } from '../directory-files.js';
import { releaseLoop } from '../loop-release.js';
import { changedReplica, flushed, isBegun, notPromised, punch } from '../replica-rules.js';
import { holdLoop } from './held-loop.js';
import type { PoolDirectory } from './pool-directory.js';
import { isReplicaName, isUnfinishedName, type PoolLayout, promiseIn, snapshotOf, temporary } from './pool-layout.js';
import type { SpaceReservations } from './space-reservations.js';

export class ReplicaFiles implements PoolReplicas {
  constructor(
    private readonly native: NativeRunner,
    private readonly pool: string,
    private readonly directory: PoolDirectory,
    private readonly reservations: Pick<SpaceReservations, 'makeRoom'>,
  ) {}

  makeRoom(bytes: bigint): Promise<void> {
    return this.reservations.makeRoom(bytes);
  }

  async begin(snapshotId: string, sizeBytes: bigint, baseId: string | null): Promise<void> {
    await this.directory.use(async ({ layout }) => {
      const complete = await this.#state(layout, (each) => each.replica(snapshotId));
      const found = complete ?? (await this.#state(layout, (each) => each.unfinishedReplica(snapshotId)));
      const known = found === null ? null : { ...found, isComplete: complete !== null };
      if (isBegun(this.pool, snapshotId, known, sizeBytes)) return;
      const finalPath = layout.unfinishedReplica(snapshotId);
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
      punch: (ranges) => punch(this.native, { path, objectId: snapshotId, blockBytes: 0n }, ranges),
      flush: () => flushed(device, snapshotId, this.pool),
      close: () => device.close(),
    };
  }

  async openComplete(snapshotId: string): Promise<OpenSnapshot> {
    return this.directory.use(async ({ layout }) => {
      assertWhole(await this.#state(layout, (each) => each.replica(snapshotId)), snapshotId, this.pool);
      return holdLoop(this.native, { backingPath: layout.replica(snapshotId), readOnly: true, label: snapshotId });
    });
  }

  async complete(snapshotId: string): Promise<void> {
    await this.directory.use(async ({ layout }) => {
      const temporaryPath = layout.unfinishedReplica(snapshotId);
      await releaseLoop(this.native, temporaryPath);
      const names = { temporaryPath, finalPath: layout.replica(snapshotId) };
      await this.native.run('freezeFile', names, [snapshotId]);
    });
  }

  async promise(snapshotId: string, promiseId: string): Promise<void> {
    await this.directory.use(async ({ layout }) => {
      const complete = await this.#state(layout, (each) => each.replica(snapshotId));
      if (complete === null) throw notPromised(snapshotId, this.pool);
      const earlier = await this.#promises(layout, snapshotId);
      await this.native.run('writeText', { path: layout.promise(snapshotId, promiseId), text: '' });
      for (const each of earlier) if (each !== promiseId) await this.#forget(layout, snapshotId, each);
    });
  }

  async delete(snapshotId: string): Promise<void> {
    await this.directory.use(async ({ layout }) => {
      const unfinished = layout.unfinishedReplica(snapshotId);
      await releaseLoop(this.native, unfinished);
      // A mark must not outlive its replica: nothing would find it. A replica without a mark goes by its age.
      for (const each of await this.#promises(layout, snapshotId)) await this.#forget(layout, snapshotId, each);
      for (const path of [temporary(unfinished), unfinished, layout.replica(snapshotId)]) {
        await this.native.run('removeFile', { path });
      }
    });
  }

  async check(snapshotId: string, sizeBytes: bigint): Promise<void> {
    const state = await this.directory.use(({ layout }) => this.#state(layout, (each) => each.replica(snapshotId)));
    if (assertWhole(state, snapshotId, this.pool).sizeBytes !== sizeBytes) throw changedReplica(snapshotId, this.pool);
  }

  async list(): Promise<Replica[]> {
    return this.directory.use(async ({ layout }) => {
      const replicas: Replica[] = [];
      const names = await namesIn(this.native, layout.snapshots);
      const promises = promisesIn(names);
      // Looks at the files of replicas alone: a start waits for this, and the pool may hold tens of thousands of snapshots.
      for (const name of names) {
        const isComplete = isReplicaName(name);
        if (!isComplete && !isUnfinishedName(name)) continue;
        const { state } = await this.native.run('fileState', { path: join(layout.snapshots, name) });
        if (state === null) continue;
        const snapshotId = snapshotOf(name);
        const promiseId = isComplete ? (promises.get(snapshotId) ?? null) : null;
        replicas.push({ snapshotId, sizeBytes: state.sizeBytes, isComplete, promiseId });
      }
      return replicas;
    });
  }

  /** The error to throw when a copy of a complete replica has failed. */
  explain(snapshotId: string, thrown: unknown): unknown {
    const isLost = ['ENOENT', 'SCAN_MUTABLE'].includes(errorCode(thrown) ?? '');
    return isLost ? changedReplica(snapshotId, this.pool, thrown) : thrown;
  }

  async #promises(layout: PoolLayout, snapshotId: string): Promise<string[]> {
    const marks = (await namesIn(this.native, layout.snapshots)).map(promiseIn);
    return marks.flatMap((mark) => (mark?.snapshotId === snapshotId ? [mark.promiseId] : []));
  }

  async #forget(layout: PoolLayout, snapshotId: string, promiseId: string): Promise<void> {
    await this.native.run('removeFile', { path: layout.promise(snapshotId, promiseId) });
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
}

function assertWhole(state: FileState | null, snapshotId: string, pool: string): FileState {
  if (state?.regular && state.immutable && state.matchesSeal) return state;
  throw changedReplica(snapshotId, pool);
}

/** The promise of each snapshot, by names of files. */
function promisesIn(names: readonly string[]): Map<string, string> {
  const marks = names.map(promiseIn).filter((mark) => mark !== null);
  return new Map(marks.map(({ snapshotId, promiseId }) => [snapshotId, promiseId]));
}
