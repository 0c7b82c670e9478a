/**
 * CSI SnapshotMetadata: which ranges of a snapshot hold data, and which differ between two snapshots.
 *
 * Either the complete list is sent, or the stream ends with an error that says why. The snapshots are
 * locked in shared mode while a stream is open, so that neither can be deleted, and a retained base cannot
 * be dropped. The locks are released when the client disconnects or stops reading.
 *
 * A deleted snapshot that is no longer retained as a base is NOT_FOUND in any case: for CSI it has not
 * existed since its deletion, and the code must not change when the record of the reason expires.
 */

import {
  parseInt32NonNegative,
  parseInt64,
  parseSecrets,
  requireFields,
  requireString,
} from '../../base/csi/fields.js';
import type { MessageWriter, RequestOf, Service, StreamContext } from '../../base/csi/service.js';
import { CsiError, SystemError } from '../../base/errors.js';
import type { Backend } from '../backends/backend.js';
import type { SnapshotScan } from '../backends/snapshot-scan.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { SnapshotRecord } from '../catalogue/records.js';
import type { ScanThreads } from '../native/scan-threads.js';
import type { ChangeListMaker } from '../volumes/change-list-maker.js';
import { type OperationLocks, shared, snapshotKey } from '../volumes/operation-locks.js';
import { snapshotDeleting } from '../volumes/ready-volume.js';
import { lockForDelta } from './delta-locks.js';
import type { ScanKind, ScanObserver } from './scan-observer.js';
import { soundChunks } from './sound-chunks.js';

export interface SnapshotMetadataDependencies {
  catalogue: AsyncCatalogue;
  locks: OperationLocks;
  scanThreads: ScanThreads;
  backendOf(pool: string): Backend;
  /** Makes a change list that a request has found missing or damaged. Absent if change lists are off. */
  changeLists?: Pick<ChangeListMaker, 'schedule' | 'refused'> | undefined;
  observer?: ScanObserver | undefined;
}

type MetadataRequest = RequestOf<'GetMetadataAllocated'> | RequestOf<'GetMetadataDelta'>;

/** The parameters that both RPCs share. */
interface MetadataParams {
  startingOffset: bigint;
  maxResults: number;
}

export function createSnapshotMetadataService(deps: SnapshotMetadataDependencies): Service<'SnapshotMetadata'> {
  return {
    name: 'SnapshotMetadata',
    unary: {},
    streams: {
      GetMetadataAllocated: (request, context, writer) => allocated(deps, request, context, writer),
      GetMetadataDelta: (request, context, writer) => delta(deps, request, context, writer),
    },
  };
}

async function allocated(
  deps: SnapshotMetadataDependencies,
  request: RequestOf<'GetMetadataAllocated'>,
  context: StreamContext,
  writer: MessageWriter,
): Promise<void> {
  const snapshotId = requireString(request.snapshot_id, 'snapshot_id');
  const release = await deps.locks.acquireFor([shared(snapshotKey(snapshotId))], context.signal);
  try {
    const target = await findSnapshot(deps, snapshotId);
    const params = parseParams(request, target);
    await stream(deps, { target, base: null, params }, context, writer);
  } finally {
    release();
  }
}

async function delta(
  deps: SnapshotMetadataDependencies,
  request: RequestOf<'GetMetadataDelta'>,
  context: StreamContext,
  writer: MessageWriter,
): Promise<void> {
  requireFields(request, 'base_snapshot_id', 'target_snapshot_id');
  const baseId = requireString(request.base_snapshot_id, 'base_snapshot_id');
  const targetId = requireString(request.target_snapshot_id, 'target_snapshot_id');
  const release = await lockForDelta(deps, { targetId, baseId }, context.signal);
  try {
    const base = await findBase(deps, baseId);
    const target = await findSnapshot(deps, targetId);
    assertOrdered(base, target);
    const params = parseParams(request, target);
    await stream(deps, { target, base, params }, context, writer);
  } finally {
    release();
  }
}

async function findSnapshot(deps: SnapshotMetadataDependencies, snapshotId: string): Promise<SnapshotRecord> {
  const snapshot = await deps.catalogue.snapshotById(snapshotId);
  if (snapshot !== null) return assertReady(snapshot);
  const retained = await deps.catalogue.retainedBaseById(snapshotId);
  const deleted =
    retained?.invalidated === null
      ? ': it was deleted, and is retained as the base of deltas only'
      : ': it was deleted';
  throw CsiError.notFound(`snapshot ${snapshotId} does not exist on this node${retained === null ? '' : deleted}`);
}

function assertReady(snapshot: SnapshotRecord): SnapshotRecord {
  const { snapshotId } = snapshot;
  if (snapshot.state === 'deleting') {
    const isMember = snapshot.groupSnapshotId !== null;
    throw snapshotDeleting(snapshotId, isMember ? 'DeleteVolumeGroupSnapshot' : 'DeleteSnapshot');
  }
  if (snapshot.state !== 'ready') {
    throw CsiError.failedPrecondition(
      `snapshot ${snapshotId} is not ready to use: its creation has not completed; call CreateSnapshot again`,
    );
  }
  return snapshot;
}

/** A base may be a deleted snapshot if its pool has retained what deltas need. */
async function findBase(deps: SnapshotMetadataDependencies, snapshotId: string): Promise<ScanBase> {
  const snapshot = await deps.catalogue.snapshotById(snapshotId);
  if (snapshot !== null) return assertReady(snapshot);
  const retained = await deps.catalogue.retainedBaseById(snapshotId);
  if (retained?.invalidated === null) return { ...retained, isRetained: true };
  throw CsiError.notFound(
    retained === null
      ? `snapshot ${snapshotId} does not exist on this node`
      : `snapshot ${snapshotId} was deleted, and it can no longer be the base of a delta because ` +
          `${retained.invalidated.reason}; make a full backup`,
  );
}

function assertOrdered(base: ScanBase, target: SnapshotRecord): void {
  if (base.snapshotId === target.snapshotId) {
    throw CsiError.invalidArgument(
      `base_snapshot_id and target_snapshot_id are both ${base.snapshotId}, the same snapshot: ` +
        'give an earlier snapshot of the volume as the base',
    );
  }
  if (base.volumeId !== target.volumeId) {
    throw CsiError.invalidArgument(
      `base_snapshot_id ${base.snapshotId} is of volume ${base.volumeId} and target_snapshot_id ` +
        `${target.snapshotId} of volume ${target.volumeId}; give two snapshots of one volume`,
    );
  }
  if (base.sequence >= target.sequence) {
    throw CsiError.invalidArgument(
      `base_snapshot_id ${base.snapshotId} was not taken before target_snapshot_id ${target.snapshotId}: ` +
        'give the older snapshot as the base',
    );
  }
}

function parseParams(request: MetadataRequest, target: SnapshotRecord): MetadataParams {
  const startingOffset = parseInt64(request.starting_offset, 'starting_offset');
  if (startingOffset < 0n || startingOffset > target.sizeBytes) {
    throw CsiError.outOfRange(
      `starting_offset is ${startingOffset}: snapshot ${target.snapshotId} takes 0 to ${target.sizeBytes}`,
    );
  }
  parseSecrets(request.secrets, 'secrets');
  return {
    startingOffset,
    maxResults: parseInt32NonNegative(request.max_results, 'max_results'),
  };
}

/**
 * A snapshot file that was truncated or extended is no longer the snapshot. That applies to the base too:
 * where it has lost data it reads as zeros, and zeros in the target would seem unchanged.
 */
function assertWhole({ target, base }: ScanJob, { targetBytes, baseBytes }: SnapshotScan): void {
  assertSize(target, targetBytes);
  if (base !== null && baseBytes !== null) assertSize(base, baseBytes);
}

function assertSize(snapshot: ScanBase, found: bigint): void {
  if (found === snapshot.sizeBytes) return;
  throw CsiError.failedPrecondition(
    `snapshot ${snapshot.snapshotId} should have ${snapshot.sizeBytes} bytes and its pool holds ${found}: ` +
      'another process has modified it; make a full backup of another snapshot',
  );
}

/** A snapshot, or a retained base. */
interface ScanBase extends Pick<SnapshotRecord, 'snapshotId' | 'volumeId' | 'sequence' | 'sizeBytes'> {
  isRetained?: boolean;
}

interface ScanJob {
  target: SnapshotRecord;
  base: ScanBase | null;
  params: MetadataParams;
}

const kindOf = (base: ScanBase | null): ScanKind => (base === null ? 'allocated' : 'delta');

async function stream(
  deps: SnapshotMetadataDependencies,
  job: ScanJob,
  context: StreamContext,
  writer: MessageWriter,
): Promise<void> {
  const { target, base, params } = job;
  const backend = deps.backendOf(target.pool);
  const first = await backend.changes.scan(target.snapshotId, base?.snapshotId ?? null);
  assertWhole(job, first);
  const scanned = { chunks: 0, extents: 0, rescans: 0, unprovedBytes: 0n };
  const { storedLists } = first;
  const sums = { entries: 0, entryBytes: 0n, ...scanned, storedLists };
  const kind = kindOf(base);
  deps.observer?.scanStarted(kind, sums, params.startingOffset > 0n);
  try {
    const turn = { group: target.pool, peer: context.peer, signal: context.signal };
    const refused = (failure: SystemError): void => deps.changeLists?.refused(target, kind, failure);
    for await (const { bytes, result } of soundChunks(deps.scanThreads, first, { ...params, turn }, refused)) {
      sums.chunks += 1;
      sums.entries += result.entries;
      sums.entryBytes += result.entryBytes;
      sums.extents += result.extents;
      sums.rescans += result.rescans;
      sums.unprovedBytes += result.unprovedBytes;
      await writer.send(bytes);
    }
  } catch (thrown) {
    if (thrown instanceof SystemError) {
      // A missing file is only a symptom if the whole pool is unavailable, or has dropped the base: report the cause.
      await backend.check();
      if (base?.isRetained === true) await backend.changes.scan(target.snapshotId, base.snapshotId);
    }
    throw thrown;
  } finally {
    deps.observer?.scanEnded(kind, sums);
    // The list waits for the end of the scan, because otherwise both would read the same maps at once.
    if (first.wantsList) deps.changeLists?.schedule(target.snapshotId, kind);
    context.note(sums);
  }
}
