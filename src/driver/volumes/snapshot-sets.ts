/**
 * Takes, rolls back and deletes snapshots: a single one, or all members of a group snapshot at one point in time. A single
 * snapshot is a set of one member without a group. Idempotent by name, safe to kill at any point.
 *
 * As with volumes, the rows come first in state `creating`, then the backend takes all snapshots, then all rows become `ready`.
 * For a deletion, the rows become `deleting`, the backend deletes the snapshots, and the rows are removed. Each step changes
 * the rows of a set in one transaction. All sources lie in one pool, because only a pool can provide one point in time. The
 * sources stay locked until the snapshots are taken, so the rows' sequence is the order in which the snapshots were taken.
 */

import { randomBytes } from 'node:crypto';
import { bestEffort, logLeftover } from '../../base/best-effort.js';
import { newGroupSnapshotId, newSnapshotId } from '../../base/csi/handles.js';
import type { StringMap } from '../../base/csi/string-map.js';
import { CsiError, StatusCode } from '../../base/errors.js';
import type { Backend, SnapshotMember, TakenSnapshots } from '../backends/backend.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type {
  CopyRecord,
  GroupSnapshotRecord,
  NewRetainedBase,
  NewSnapshot,
  SnapshotRecord,
  SnapshotState,
  VolumeRecord,
} from '../catalogue/records.js';
import type { ManagerDependencies } from './manager-dependencies.js';
import { type LockRequest, type Release, snapshotKey, volumeKey } from './operation-locks.js';
import { isPristine } from './pristine.js';
import { volumeDeleting } from './ready-volume.js';

export interface SnapshotSet {
  /** Null for a single snapshot. */
  group: GroupSnapshotRecord | null;
  /** At least one, in the order in which the sources were requested. */
  members: readonly SnapshotRecord[];
}

export interface SnapshotSetRequest<S extends SnapshotSet> {
  name: string;
  parameters: StringMap;
  deadline: number | undefined;
  isGroup: boolean;
  /** The node that is to keep a copy; null if none is. */
  copyNodeId: string | null;
  /** Volume ids without repetition, each with the field of the request that names it. */
  sources: readonly { volumeId: string; field: string }[];
  /** The set of that name; null if there is none. */
  find(): Promise<S | null>;
  /** Throws ALREADY_EXISTS if the set of that name was requested with other values. */
  assertSame(known: S): void;
}

export const stateOf = ({ group, members }: SnapshotSet): SnapshotState | undefined =>
  group?.state ?? members[0]?.state;

/** Names the set in messages. */
export function labelOf({ group, members }: SnapshotSet): string {
  if (group !== null) return `group snapshot ${group.groupSnapshotId}`;
  return `snapshot ${members[0]?.snapshotId}`;
}

/** The pool of all the volumes. FAILED_PRECONDITION if there are several pools. */
export function onlyPool(volumes: readonly Pick<VolumeRecord, 'volumeId' | 'pool'>[]): string {
  const [first, ...others] = volumes;
  if (first === undefined) throw CsiError.internal('a set of no snapshots has no pool');
  const other = others.find(({ pool }) => pool !== first.pool);
  if (other === undefined) return first.pool;
  throw CsiError.failedPrecondition(
    `volume ${first.volumeId} is in pool '${first.pool}' and volume ${other.volumeId} in pool ` +
      `'${other.pool}': only volumes of one pool can be snapshotted at one point in time; make a group for each pool`,
  );
}

/** Returns the set of that name, and takes it if there is none. The caller holds the locks of the name and the sources. */
export async function createSnapshots<S extends SnapshotSet>(
  deps: ManagerDependencies,
  request: SnapshotSetRequest<S>,
): Promise<S> {
  const known = await request.find();
  if (known === null) return await take(deps, request);
  if (stateOf(known) === 'creating') {
    const held = request.sources.map(({ volumeId }) => volumeId);
    await deps.locks.run(otherVolumes(known.members, held), () => settleNewSnapshots(deps, known));
    return createSnapshots(deps, request);
  }
  request.assertSame(known);
  if (stateOf(known) === 'ready') {
    const backend = deps.registry.owning(onlyPool(known.members));
    for (const { snapshotId, sizeBytes } of known.members) {
      await backend.snapshots.check(snapshotId, sizeBytes);
    }
    return known;
  }
  throw CsiError.aborted(`${labelOf(known)} named '${request.name}' is being deleted; try again when it is gone`);
}

/** A failure leaves neither storage nor rows behind. */
async function take<S extends SnapshotSet>(deps: ManagerDependencies, request: SnapshotSetRequest<S>): Promise<S> {
  const { catalogue, registry } = deps;
  if (request.parameters['copies'] !== undefined && request.copyNodeId === null) {
    throw CsiError.aborted(`snapshot '${request.name}' has just been deleted or given up; try again`);
  }
  const volumes: VolumeRecord[] = [];
  for (const { volumeId, field } of request.sources) {
    volumes.push(await findSourceVolume(catalogue, volumeId, field));
  }
  const backend = registry.owning(onlyPool(volumes));
  const set = await insertRows(deps, backend, volumes, request);
  try {
    const taken = await backend.snapshots.create(membersOf(set.members), request.deadline);
    assertComplete(set.members, taken);
    await commitRows(catalogue, set, taken);
  } catch (thrown) {
    const undo = async (): Promise<void> => {
      for (const { snapshotId } of set.members) await backend.snapshots.delete(snapshotId);
      await removeRows(catalogue, set, []);
    };
    const onFailure = logLeftover(deps.logger, {
      stays: `${labelOf(set)} in pool '${backend.pool}', half created`,
      removedBy: 'the next call with its name, or the next start',
    });
    await bestEffort(undo, onFailure);
    throw thrown;
  }
  const found = await request.find();
  // A deletion by id does not lock the name.
  if (found === null || stateOf(found) !== 'ready') {
    throw CsiError.aborted(`${labelOf(set)} was deleted while it was being created; try again`);
  }
  for (const { snapshotId } of set.members) deps.changeLists?.schedule(snapshotId);
  return found;
}

/** NOT_FOUND unless the volume exists, FAILED_PRECONDITION while it is being deleted. */
async function findSourceVolume(catalogue: AsyncCatalogue, volumeId: string, field: string): Promise<VolumeRecord> {
  const volume = await catalogue.volumeById(volumeId);
  if (volume?.state === 'deleting') throw volumeDeleting(volumeId);
  if (volume?.state !== 'ready') {
    throw CsiError.notFound(`${field}: volume ${volumeId} does not exist on this node`);
  }
  return volume;
}

/** FAILED_PRECONDITION if the pool does not hold a volume completely. */
async function insertRows(
  { catalogue, nodeKey }: ManagerDependencies,
  backend: Backend,
  volumes: readonly VolumeRecord[],
  { name, parameters, isGroup, copyNodeId }: Omit<SnapshotSetRequest<SnapshotSet>, 'find' | 'assertSame'>,
): Promise<SnapshotSet> {
  const groupSnapshotId = isGroup ? newGroupSnapshotId(nodeKey) : null;
  // The commit replaces this time when the snapshots are taken, unless a kill comes in between.
  const creationTimeNs = BigInt(Date.now()) * 1_000_000n;
  const pending = await Promise.all(
    volumes.map(async (volume): Promise<NewSnapshot> => {
      await backend.volumes.check(volume.volumeId, volume.sizeBytes);
      return {
        snapshotId: newSnapshotId(nodeKey),
        name: isGroup ? null : name,
        groupSnapshotId,
        volumeId: volume.volumeId,
        pool: volume.pool,
        sizeBytes: volume.sizeBytes,
        state: 'creating',
        creationTimeNs,
        parameters: isGroup ? {} : parameters,
        pristine: await isPristine(backend, volume),
        awaitsCopy: copyNodeId !== null,
      };
    }),
  );
  if (groupSnapshotId === null) {
    const copyOf = ({ snapshotId }: NewSnapshot) => (copyNodeId === null ? null : newCopy(snapshotId, copyNodeId));
    const members = await Promise.all(pending.map((each) => catalogue.insertSnapshot(each, copyOf(each))));
    return { group: null, members };
  }
  const group = {
    groupSnapshotId,
    name,
    parameters,
    state: 'creating' as const,
    creationTimeNs,
  };
  return { group, members: await catalogue.insertGroup(group, pending) };
}

/** A copy that another node is to make. @param instead the promise that it replaces */
export const newCopy = (snapshotId: string, nodeId: string, instead = ''): CopyRecord => ({
  promiseId: newPromise(instead),
  snapshotId,
  nodeId,
  state: 'pending',
});

const STAMP_DIGITS = 12;

/** 32 hexadecimal digits that are never used again: the time in ms, later than that of the promise before, and random ones. */
function newPromise(before: string): string {
  const earliest = Number.parseInt(before.slice(0, STAMP_DIGITS), 16) + 1 || 0;
  const stamp = Math.max(Date.now(), earliest).toString(16).padStart(STAMP_DIGITS, '0');
  return `${stamp}${randomBytes(10).toString('hex')}`;
}

async function commitRows(
  catalogue: AsyncCatalogue,
  { group, members }: SnapshotSet,
  taken: TakenSnapshots,
): Promise<void> {
  const sizes = members.map(({ snapshotId }, index) => ({
    snapshotId,
    sizeBytes: sizeAt(taken, index),
  }));
  if (group !== null) {
    await catalogue.commitGroup(group.groupSnapshotId, taken.creationTimeNs, sizes);
    return;
  }
  for (const { snapshotId, sizeBytes } of sizes) {
    await catalogue.commitSnapshot(snapshotId, taken.creationTimeNs, sizeBytes);
  }
}

/** @param bases the retained bases of members: none, one or several */
async function removeRows(
  catalogue: AsyncCatalogue,
  { group, members }: SnapshotSet,
  bases: readonly NewRetainedBase[],
): Promise<void> {
  if (group !== null) {
    await catalogue.removeGroup(group.groupSnapshotId, bases);
    return;
  }
  for (const { snapshotId } of members) {
    const base = bases.find((each) => each.snapshotId === snapshotId);
    await catalogue.removeSnapshot(snapshotId, base ?? null);
  }
}

/**
 * Deletes the set and retains its members as bases. Locks the members, together with `locksToo`. FAILED_PRECONDITION if a
 * member is still being read at the end of the wait for the locks: then nothing is deleted.
 *
 * @param signal of the call, which then waits for the locks
 */
export async function deleteSnapshots(
  deps: ManagerDependencies,
  set: SnapshotSet,
  locksToo: readonly LockRequest[],
  signal?: AbortSignal,
): Promise<void> {
  const { catalogue, registry, retainedBases } = deps;
  const backend = registry.owning(onlyPool(set.members));
  const release = await lockToDelete(deps, set, locksToo, signal);
  try {
    const members = await existingMembers(catalogue, set);
    if (members.length === 0) return;
    // The check precedes the change of the rows, because a set in state `deleting` cannot be kept.
    await backend.check();
    await markDeleting(catalogue, { ...set, members });
    await finishDeletion(deps, { ...set, members });
  } finally {
    release();
  }
  await retainedBases.prune(
    backend,
    set.members.map(({ volumeId }) => volumeId),
  );
}

async function lockToDelete(
  { locks }: ManagerDependencies,
  { members }: SnapshotSet,
  locksToo: readonly LockRequest[],
  signal?: AbortSignal,
): Promise<Release> {
  const keys = [...locksToo, ...members.map(({ snapshotId }) => snapshotKey(snapshotId))];
  try {
    return await locks.acquireFor(keys, signal);
  } catch (thrown) {
    const read = members.find(({ snapshotId }) => locks.isShared(snapshotKey(snapshotId)));
    if (read === undefined || signal?.aborted === true) throw thrown;
    throw CsiError.failedPrecondition(
      `snapshot ${read.snapshotId} is being read (a metadata stream or a restore); try again when that has ended`,
    );
  }
}

/** Reads the members again under their locks: another call may have deleted them, or completed them. */
async function existingMembers(catalogue: AsyncCatalogue, { members }: SnapshotSet): Promise<SnapshotRecord[]> {
  const found = await Promise.all(members.map(({ snapshotId }) => catalogue.snapshotById(snapshotId)));
  return found.filter((member) => member !== null);
}

async function markDeleting(catalogue: AsyncCatalogue, { group, members }: SnapshotSet): Promise<void> {
  if (group !== null) {
    await catalogue.setGroupState(group.groupSnapshotId, 'deleting');
    return;
  }
  for (const { snapshotId } of members) await catalogue.setSnapshotState(snapshotId, 'deleting');
}

type SettleDependencies = Pick<ManagerDependencies, 'catalogue' | 'registry' | 'retainedBases'>;

/** Completes the deletion of a set in state `deleting`. */
export async function finishDeletion(
  { catalogue, registry, retainedBases }: SettleDependencies,
  set: SnapshotSet,
): Promise<void> {
  const backend = registry.owning(onlyPool(set.members));
  const bases = await retainedBases.removeSnapshots(backend, set.members);
  await removeRows(catalogue, set, bases);
}

/**
 * Completes a set in state `creating`, which a killed process or a failed call has left, if the pool holds all of its
 * snapshots, and removes the set otherwise. A complete set may have been acknowledged, because the catalogue may be a copy that
 * was taken during the creation. Thaws the source volumes, so no other operation may use them meanwhile.
 *
 * @returns whether the set is ready now
 */
export async function settleNewSnapshots(
  { catalogue, registry }: SettleDependencies,
  set: SnapshotSet,
): Promise<boolean> {
  const backend = registry.owning(onlyPool(set.members));
  // Thaws all volumes first, because a frozen file system blocks its users.
  for (const { volumeId } of set.members) await backend.volumes.thaw(volumeId);
  const sizesBytes = await completeSizes(backend, set.members);
  if (sizesBytes !== null) {
    const creationTimeNs = set.members[0]?.creationTimeNs ?? 0n;
    await commitRows(catalogue, set, { creationTimeNs, sizesBytes });
    return true;
  }
  for (const { snapshotId } of set.members) await backend.snapshots.delete(snapshotId);
  await removeRows(catalogue, set, []);
  return false;
}

/** The sizes of the snapshots, in the order of `members`; null unless the pool holds all the snapshots as they were taken. */
async function completeSizes(backend: Backend, members: readonly SnapshotRecord[]): Promise<bigint[] | null> {
  const contents = await backend.list();
  const held = new Map(contents.snapshots.map(({ id, sizeBytes }) => [id, sizeBytes]));
  const sizes: bigint[] = [];
  for (const { snapshotId, sizeBytes } of members) {
    const found = held.get(snapshotId);
    if (found === undefined || found < sizeBytes) return null;
    try {
      await backend.snapshots.check(snapshotId, found);
    } catch (thrown) {
      if (CsiError.from(thrown).code !== StatusCode.FAILED_PRECONDITION) throw thrown;
      return null;
    }
    sizes.push(found);
  }
  return sizes;
}

/** A volume may have grown since its size was recorded. A smaller snapshot lacks some of the content. */
function assertComplete(snapshots: readonly SnapshotRecord[], taken: TakenSnapshots): void {
  for (const [index, { volumeId, sizeBytes }] of snapshots.entries()) {
    const found = sizeAt(taken, index);
    if (found >= sizeBytes) continue;
    throw CsiError.failedPrecondition(
      `the snapshot of volume ${volumeId} would have ${found} bytes, but the volume should have ` +
        `${sizeBytes}: something other than the plugin has truncated it; restore it from a snapshot or a backup`,
    );
  }
}

function sizeAt({ sizesBytes }: TakenSnapshots, index: number): bigint {
  const sizeBytes = sizesBytes[index];
  if (sizeBytes === undefined) {
    throw CsiError.internal(`the backend reported no size for snapshot ${index} of the set`);
  }
  return sizeBytes;
}

const membersOf = (snapshots: readonly SnapshotRecord[]): SnapshotMember[] =>
  snapshots.map(({ volumeId, snapshotId }) => ({ volumeId, snapshotId }));

/** Locks of the snapshots' volumes, except those that the caller holds already. */
function otherVolumes(snapshots: readonly SnapshotRecord[], heldIds: readonly string[]): LockRequest[] {
  const ids = new Set(snapshots.map(({ volumeId }) => volumeId));
  return [...ids].filter((volumeId) => !heldIds.includes(volumeId)).map(volumeKey);
}
