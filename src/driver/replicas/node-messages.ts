/**
 * Messages of blockdelta.node.v1 about snapshots, transfers and pulls, parsed and made. Every refusal is INVALID_ARGUMENT and
 * names the proto field. A description that lacks a field is refused, because a volume that wrongly counts as pristine would be
 * formatted.
 */
import { parseBytes, requireString } from '../../base/csi/fields.js';
import { isSnapshotId, isVolumeId } from '../../base/csi/handles.js';
import type {
  BaseMessage,
  CopyMessage,
  NodeRpcs,
  PieceMessage,
  PromiseMessage,
  PullStateMessage,
  RoomMessage,
  SnapshotMessage,
  SuccessionMessage,
} from '../../base/csi/node-proto.js';
import type { CordonMessage } from '../../base/csi/router-proto.js';
import { ACCESS_MODES, type VolumeCapability } from '../../base/csi/volume-capability.js';
import { CsiError } from '../../base/errors.js';
import type { DescribedSnapshot, ListedCopy, ReplicaRecord, SuccessionRecord } from '../catalogue/records.js';
import { isFileSystem } from '../host/file-systems.js';
import { BLOCK_BYTES, type SnapshotPart } from './digest.js';
import type { KnownCopy } from './known-copy.js';
import type { Base, Transfer, TransferRequest } from './open-transfers.js';
import type { Piece, PullOrder, PullState } from './pulls.js';
import type { Room } from './room.js';

const invalid = (field: string, what: string): CsiError => CsiError.invalidArgument(`${field} ${what}`);

/** Handles become names of files. */
function snapshotIdIn(value: string, field: string): string {
  const id = requireString(value, field);
  if (!isSnapshotId(id)) throw invalid(field, 'is not the handle of a snapshot');
  return id;
}

function volumeIdIn(value: string, field: string): string {
  const id = requireString(value, field);
  if (!isVolumeId(id)) throw invalid(field, 'is not the handle of a volume');
  return id;
}

function positive(value: string, field: string): bigint {
  const number = parseBytes(value, field);
  if (number === 0n) throw invalid(field, 'is required');
  return number;
}

export const findRequest = ({ snapshot_id, snapshot }: NodeRpcs['FindSnapshot'][0]) => ({
  snapshotId: snapshotIdIn(snapshot_id, 'snapshot_id'),
  snapshot: snapshot === null ? null : parseSnapshot(snapshot, 'snapshot'),
});

export function parseSnapshot(message: SnapshotMessage | null, field: string): DescribedSnapshot {
  if (message === null) throw invalid(field, 'is required');
  const { content, uses, file_system: fileSystem } = message;
  if (content !== 'PRISTINE' && content !== 'INITIALIZED') throw invalid(`${field}.content`, 'is required');
  if (uses.length === 0) throw invalid(`${field}.uses`, 'is required');
  if (fileSystem !== '' && !isFileSystem(fileSystem)) throw invalid(`${field}.file_system`, 'is not known here');
  const volumeId = volumeIdIn(message.volume_id, `${field}.volume_id`);
  return {
    snapshotId: snapshotIdIn(message.snapshot_id, `${field}.snapshot_id`),
    volumeId,
    sizeBytes: positive(message.size_bytes, `${field}.size_bytes`),
    sequence: positive(message.sequence, `${field}.sequence`),
    creationTimeNs: positive(message.creation_time_ns, `${field}.creation_time_ns`),
    pristine: content === 'PRISTINE',
    fileSystem: fileSystem === '' ? null : fileSystem,
    capabilities: uses.map((use, index) => parseUse(use, `${field}.uses[${index}]`)),
    catalogueUuid: requireString(message.catalogue_uuid, `${field}.catalogue_uuid`),
    poolUuid: requireString(message.pool_uuid, `${field}.pool_uuid`),
  };
}

function parseUse({ access_mode, block, fs_type }: SnapshotMessage['uses'][number], field: string): VolumeCapability {
  const accessMode = ACCESS_MODES.find((mode) => mode === access_mode);
  if (accessMode === undefined) throw invalid(`${field}.access_mode`, 'is not known here');
  if (block) return { accessType: 'block', accessMode };
  if (fs_type !== '' && !isFileSystem(fs_type)) throw invalid(`${field}.fs_type`, 'is not known here');
  return { accessType: 'mount', accessMode, fsType: fs_type, mountFlags: [], volumeMountGroup: '' };
}

export const snapshotMessage = (snapshot: DescribedSnapshot): SnapshotMessage => ({
  snapshot_id: snapshot.snapshotId,
  volume_id: snapshot.volumeId,
  size_bytes: String(snapshot.sizeBytes),
  sequence: String(snapshot.sequence),
  creation_time_ns: String(snapshot.creationTimeNs),
  content: snapshot.pristine ? 'PRISTINE' : 'INITIALIZED',
  file_system: snapshot.fileSystem ?? '',
  uses: snapshot.capabilities.map((each) => ({
    access_mode: each.accessMode,
    block: each.accessType === 'block',
    fs_type: each.accessType === 'mount' ? each.fsType : '',
  })),
  catalogue_uuid: snapshot.catalogueUuid,
  pool_uuid: snapshot.poolUuid,
});

/** A base that nobody bounds: a volume has at most some hundred snapshots. */
const MOST_BASES = 10_000;

export function parseTransferRequest(request: NodeRpcs['OpenTransfer'][0]): TransferRequest {
  if (request.bases.length > MOST_BASES) throw invalid('bases', `has more than ${MOST_BASES} entries`);
  return {
    snapshotId: snapshotIdIn(request.snapshot_id, 'snapshot_id'),
    reader: requireString(request.reader, 'reader'),
    bases: request.bases.map(({ snapshot_id, size_bytes }, index) => ({
      snapshotId: snapshotIdIn(snapshot_id, `bases[${index}].snapshot_id`),
      sizeBytes: parseBytes(size_bytes, `bases[${index}].size_bytes`),
    })),
    offset: parseBytes(request.offset, 'offset'),
  };
}

export const parseCloseRequest = ({ snapshot_id, reader }: NodeRpcs['CloseTransfer'][0]) => ({
  snapshotId: snapshotIdIn(snapshot_id, 'snapshot_id'),
  reader: requireString(reader, 'reader'),
});

export function parsePromise({ snapshot_id, promise_id }: PromiseMessage) {
  const promiseId = requireString(promise_id, 'promise_id');
  // It becomes a part of a file's name.
  if (!/^[0-9a-f]{32}$/.test(promiseId)) throw invalid('promise_id', 'is not 32 hexadecimal digits');
  return { snapshotId: snapshotIdIn(snapshot_id, 'snapshot_id'), promiseId };
}

const MOST_PART_BYTES = 1n << 30n;

/** Characters; it becomes a part of messages. */
const MOST_FAILURE = 1000;

export function parseReport({ outcome, failure, ...promise }: NodeRpcs['ReportCopy'][0]) {
  const copy = parsePromise(promise);
  if (outcome === 'FAILED') {
    if (failure === '') throw invalid('failure', 'is required');
    return { copy, outcome: { kind: 'failed', failure: failure.slice(0, MOST_FAILURE) } } as const;
  }
  if (outcome === 'KEPT') return { copy, outcome: { kind: 'kept' } } as const;
  if (outcome === 'ENDED') return { copy, outcome: { kind: 'ended' } } as const;
  throw invalid('outcome', 'is required');
}

export function parsePart({ snapshot_id, offset, length_bytes }: NodeRpcs['DigestSnapshot'][0]): SnapshotPart {
  const part = {
    snapshotId: snapshotIdIn(snapshot_id, 'snapshot_id'),
    offset: parseBytes(offset, 'offset'),
    lengthBytes: positive(length_bytes, 'length_bytes'),
  };
  if (part.offset % BLOCK_BYTES !== 0n) throw invalid('offset', 'is no multiple of 1 MiB');
  if (part.lengthBytes > MOST_PART_BYTES) throw invalid('length_bytes', 'is more than 1 GiB');
  return part;
}

export const snapshotIdOf = ({ snapshot_id }: NodeRpcs['DeleteReplica'][0]) => snapshotIdIn(snapshot_id, 'snapshot_id');

export function parseSuccession({ old_volume_id, new_volume_id, told }: SuccessionMessage): SuccessionRecord {
  return {
    oldVolumeId: volumeIdIn(old_volume_id, 'old_volume_id'),
    newVolumeId: volumeIdIn(new_volume_id, 'new_volume_id'),
    isTold: told,
  };
}

export const successionMessage = ({ oldVolumeId, newVolumeId, isTold }: SuccessionRecord): SuccessionMessage => ({
  old_volume_id: oldVolumeId,
  new_volume_id: newVolumeId,
  told: isTold,
});

export const parseCordon = ({ volume_id, undo }: CordonMessage): { volumeId: string; isUndone: boolean } => ({
  volumeId: volumeIdIn(volume_id, 'volume_id'),
  isUndone: undo,
});

export const roomMessage = ({ serves, pool, holds, roomBytes, newestSequence }: Room): RoomMessage => ({
  serves,
  pool,
  holds,
  room_bytes: String(roomBytes),
  newest_sequence: String(newestSequence),
});

export const knownCopyMessage = ({ own, catalogueUuid, kept }: KnownCopy): NodeRpcs['FindCopy'][1] => ({
  own: own.toUpperCase(),
  catalogue_uuid: catalogueUuid,
  kept: kept === null ? null : snapshotMessage(kept),
});

export const copyMessage = (copy: ListedCopy): CopyMessage => ({
  snapshot_id: copy.snapshotId,
  promise_id: copy.promiseId,
  node_id: copy.nodeId,
  state: copy.state.toUpperCase(),
  pool: copy.pool,
  volume_id: copy.volumeId,
});

export const baseMessages = (bases: readonly Base[]): BaseMessage[] =>
  bases.map(({ snapshotId, sizeBytes }) => ({ snapshot_id: snapshotId, size_bytes: String(sizeBytes) }));

export const pieceMessage = ({ piece, offset, baseId, port, ticket, leaseMs, stallMs }: Transfer): PieceMessage => ({
  base_snapshot_id: baseId ?? '',
  offset: String(offset),
  next_offset: String(piece.nextOffset ?? 0n),
  data_bytes: String(piece.dataBytes),
  remaining_bytes: String(piece.remainingBytes),
  request_size: piece.requestSize,
  port,
  key: ticket.key,
  export_name: ticket.exportName,
  lease_ms: leaseMs,
  stall_ms: stallMs,
  written_bytes: String(piece.writtenBytes),
});

const MOST_REQUEST = 1 << 20;

function parsePiece(message: PieceMessage | null, host: string, sizeBytes: bigint): Piece {
  const field = 'piece';
  if (message === null) throw invalid(field, 'is required');
  const { request_size: requestSize, port, key, export_name: exportName, stall_ms: stallMs } = message;
  const isPower = requestSize > 0 && (requestSize & (requestSize - 1)) === 0;
  if (!isPower || requestSize > MOST_REQUEST) throw invalid(`${field}.request_size`, 'is no power of two up to 1 MiB');
  if (port < 1 || port > 65_535) throw invalid(`${field}.port`, 'is not a port');
  if (!/^[0-9a-f]{64}$/.test(key)) throw invalid(`${field}.key`, 'is not 64 hexadecimal digits');
  if (!/^[0-9a-f-]{36}$/.test(exportName)) throw invalid(`${field}.export_name`, 'is not a uuid');
  if (stallMs <= 0) throw invalid(`${field}.stall_ms`, 'is required');
  const offset = parseBytes(message.offset, `${field}.offset`);
  const next = parseBytes(message.next_offset, `${field}.next_offset`);
  if (next !== 0n && (next <= offset || next > sizeBytes))
    throw invalid(`${field}.next_offset`, 'is not behind the piece');
  const base = message.base_snapshot_id;
  return {
    host,
    port,
    ticket: { key, exportName },
    baseId: base === '' ? null : snapshotIdIn(base, `${field}.base_snapshot_id`),
    offset,
    nextOffset: next === 0n ? null : next,
    dataBytes: parseBytes(message.data_bytes, `${field}.data_bytes`),
    remainingBytes: parseBytes(message.remaining_bytes, `${field}.remaining_bytes`),
    requestSize,
    writtenBytes: parseBytes(message.written_bytes, `${field}.written_bytes`),
    stallMs,
  };
}

const MOST_WAIT_MS = 60_000;

export function parsePull(request: NodeRpcs['PullSnapshot'][0]): { order: PullOrder; waitMs: number } {
  const snapshot = parseSnapshot(request.snapshot, 'snapshot');
  const host = requireString(request.host, 'host');
  const piece = parsePiece(request.piece, host, snapshot.sizeBytes);
  const cloneName = request.clone_name === '' ? null : request.clone_name;
  const order = { snapshot, pool: request.pool, cloneName, isAsked: request.asked, piece };
  return { order, waitMs: Math.max(0, Math.min(request.wait_ms, MOST_WAIT_MS)) };
}

export const pullStateMessage = (state: PullState): PullStateMessage => ({
  status: state.status.toUpperCase(),
  base_snapshot_id: state.baseId ?? '',
  offset: String(state.offset),
  done_bytes: String(state.doneBytes),
  total_bytes: String(state.totalBytes),
  bytes_per_second: String(state.bytesPerSecond),
  failure: state.failure ?? '',
});

export const pullMessage = (record: ReplicaRecord, state: PullState): NodeRpcs['ListPulls'][1]['pulls'][number] => ({
  snapshot: snapshotMessage(record),
  state: pullStateMessage(state),
  pool: record.pool,
  clone_name: record.cloneName ?? '',
});
