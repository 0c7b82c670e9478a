/**
 * Pure rules about group snapshots: which volumes can be cut together, and whether a request means a
 * group there is. No I/O.
 */
import { isDeepStrictEqual } from 'node:util';
import { CsiError } from '../base/errors.js';
import type { GroupSnapshotRecord, SnapshotRecord, VolumeRecord } from '../catalogue/records.js';

export interface GroupSnapshotRequest {
  name: string;
  /** No id twice. */
  sourceVolumeIds: readonly string[];
  parameters: Readonly<Record<string, string>>;
}

/** The pool all of them lie in. Throws FAILED_PRECONDITION if there are several. */
export function onlyPool(volumes: readonly Pick<VolumeRecord, 'volumeId' | 'pool'>[]): string {
  const [first, ...others] = volumes;
  if (first === undefined) throw CsiError.internal('a group of no volumes has no pool');
  const other = others.find(({ pool }) => pool !== first.pool);
  if (other === undefined) return first.pool;
  throw CsiError.failedPrecondition(
    `volume ${first.volumeId} is in pool '${first.pool}' and volume ${other.volumeId} in pool ` +
      `'${other.pool}': only volumes of one pool can be cut at one point in time; make a group for each pool`,
  );
}

/** Throws ALREADY_EXISTS if the name belongs to a group that was asked for otherwise. */
export function assertSameRequest(
  group: GroupSnapshotRecord,
  members: readonly SnapshotRecord[],
  request: GroupSnapshotRequest,
): void {
  const sources = members.map(({ volumeId }) => volumeId);
  const field = !sameSet(sources, request.sourceVolumeIds)
    ? 'source_volume_ids'
    : isDeepStrictEqual(group.parameters, request.parameters)
      ? null
      : 'parameters';
  if (field === null) return;
  throw CsiError.alreadyExists(
    `name '${group.name}' is taken by group snapshot ${group.groupSnapshotId}, made with other ${field}`,
  );
}

/** Throws INVALID_ARGUMENT unless the ids are those of the members, in any order. */
export function assertMembers(
  { groupSnapshotId }: GroupSnapshotRecord,
  members: readonly SnapshotRecord[],
  snapshotIds: readonly string[],
): void {
  if (snapshotIds.length === 0) {
    throw CsiError.invalidArgument(
      `snapshot_ids is required: give the ${members.length} members of group snapshot ${groupSnapshotId}`,
    );
  }
  const known = members.map(({ snapshotId }) => snapshotId);
  if (sameSet(known, snapshotIds)) return;
  const strange = snapshotIds.find((id) => !known.includes(id));
  const missing = known.find((id) => !snapshotIds.includes(id));
  throw CsiError.invalidArgument(
    `snapshot_ids are not the members of group snapshot ${groupSnapshotId}: ` +
      (strange === undefined ? `${missing} is missing` : `${strange} is none of them`),
  );
}

function sameSet(a: readonly string[], b: readonly string[]): boolean {
  return isDeepStrictEqual(new Set(a), new Set(b));
}
