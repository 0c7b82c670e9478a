/**
 * Pure rules about volumes: which capabilities are supported, which size a volume gets, and when two
 * requests mean the same volume. Sizes are bytes.
 */

import type { StringMap } from '../../base/csi/string-map.js';
import type { CapacityRange, VolumeCapability } from '../../base/csi/volume-capability.js';
import { CsiError } from '../../base/errors.js';
import type { PoolCapacity } from '../backends/backend.js';
import type { VolumeRecord } from '../catalogue/records.js';
import {
  DEFAULT_FILE_SYSTEM,
  FILE_SYSTEMS,
  type FileSystem,
  isFileSystem,
  MINIMUM_BYTES,
  MKFS_MINIMUM_BYTES,
} from '../host/file-systems.js';

const MIB = 1n << 20n;

/** The size of a volume whose request names no size. */
export const DEFAULT_VOLUME_BYTES = 1024n * MIB;

const ACCESS_MODES: readonly string[] = [
  'SINGLE_NODE_WRITER',
  'SINGLE_NODE_READER_ONLY',
  'SINGLE_NODE_SINGLE_WRITER',
  'SINGLE_NODE_MULTI_WRITER',
  'MULTI_NODE_READER_ONLY',
];

/** Why a capability is not supported, in a few words; null if it is. */
export function unsupportedReason(capability: VolumeCapability): string | null {
  if (!ACCESS_MODES.includes(capability.accessMode)) {
    return `access mode ${capability.accessMode} is not supported: only the volume's own node can reach it`;
  }
  if (capability.accessType === 'block') return null;
  if (capability.fsType !== '' && !isFileSystem(capability.fsType)) {
    return `fs_type '${capability.fsType.slice(0, 40)}' is not supported: use ${FILE_SYSTEMS.join(', ')}`;
  }
  if (capability.volumeMountGroup !== '') {
    return 'volume_mount_group is not supported: VOLUME_MOUNT_GROUP is not advertised';
  }
  return null;
}

const isForReaders = ({ accessMode }: VolumeCapability): boolean => accessMode === 'MULTI_NODE_READER_ONLY';

/** Whether the volume was made to be read by anybody on its node: MULTI_NODE_READER_ONLY is its only access mode. */
export const isReadOnlyVolume = ({ capabilities }: Pick<VolumeRecord, 'capabilities'>): boolean =>
  capabilities.some(isForReaders);

/** Why no volume can be made with these capabilities; null if one can. */
export function uncreatableReason({
  capabilities,
  sourceSnapshotId,
}: Pick<VolumeRecord, 'capabilities' | 'sourceSnapshotId'>): string | null {
  if (!capabilities.some(isForReaders)) return null;
  if (capabilities.every(isForReaders) && sourceSnapshotId !== null) return null;
  return 'access mode MULTI_NODE_READER_ONLY is for a volume from a snapshot, and excludes all other modes';
}

/** Why this volume is not used with the capability, which is supported for others; null if it is. */
export function unusableReason(volume: VolumeRecord, capability: VolumeCapability): string | null {
  if (isReadOnlyVolume(volume) === isForReaders(capability)) return null;
  return isReadOnlyVolume(volume)
    ? 'it was made with access mode MULTI_NODE_READER_ONLY, and is used with no other one'
    : 'access mode MULTI_NODE_READER_ONLY is for volumes that were made with it, from a snapshot';
}

export interface SizeRequest {
  range: CapacityRange | null;
  capabilities: readonly VolumeCapability[];
  pool: PoolCapacity;
  /** The size of the snapshot to restore or the volume to clone; null for an empty volume. */
  sourceBytes: bigint | null;
  /** The capabilities of the volume that the content comes from: a larger copy grows the file system of that volume. */
  sourceCapabilities?: readonly VolumeCapability[];
}

/** The size a new volume gets. Throws OUT_OF_RANGE if no size fits. */
export function chooseSize(request: SizeRequest): bigint {
  const { range, pool, sourceBytes } = request;
  const required = range?.requiredBytes ?? 0n;
  const limit = range?.limitBytes ?? 0n;
  const floor = leastSize(request, required);
  const requested = required === 0n && sourceBytes === null ? largest([floor, DEFAULT_VOLUME_BYTES]) : floor;
  const size = fitUnder(limit, roundUp(requested, pool.granularityBytes), pool.granularityBytes);
  if (size < floor) {
    throw CsiError.outOfRange(
      `capacity_range.limit_bytes is ${limit}: the smallest volume that fits the request has ` +
        `${roundUp(floor, pool.granularityBytes)} bytes`,
    );
  }
  if (size > pool.totalBytes) throw beyondPool(size, pool);
  return size;
}

/** The smallest size allowed. A copy of its source's size does not grow, so the minimum for growth does not apply to it. */
function leastSize(
  { capabilities, pool, sourceBytes, sourceCapabilities = [] }: SizeRequest,
  required: bigint,
): bigint {
  if (sourceBytes === null) return largest([required, smallestSize(capabilities, pool)]);
  const least = largest([required, sourceBytes, smallestSize(capabilities, pool, MKFS_MINIMUM_BYTES)]);
  if (least === sourceBytes) return least;
  const isMounted = capabilities.some(({ accessType }) => accessType === 'mount');
  const grown = [...capabilities, ...(isMounted ? sourceCapabilities : [])];
  return largest([least, smallestSize(grown, pool)]);
}

/**
 * The size after an expansion: the current size if that suffices, otherwise at least the required size, and at least the size
 * of a new volume with these capabilities, because the kernel refuses to grow some file systems to less. Throws OUT_OF_RANGE.
 */
export function expandedSize(
  { sizeBytes: currentBytes, capabilities }: Pick<VolumeRecord, 'sizeBytes' | 'capabilities'>,
  { requiredBytes, limitBytes }: CapacityRange,
  pool: PoolCapacity,
): bigint {
  const wanted = largest([requiredBytes, smallestSize(capabilities, pool)]);
  const size = requiredBytes <= currentBytes ? currentBytes : roundUp(wanted, pool.granularityBytes);
  assertUnderLimit(size, limitBytes);
  if (size > currentBytes && size > pool.totalBytes) throw beyondPool(size, pool);
  return size;
}

/** Throws OUT_OF_RANGE if the size exceeds the limit. A limit of 0 means no limit. */
export function assertUnderLimit(sizeBytes: bigint, limitBytes: bigint): void {
  if (limitBytes === 0n || sizeBytes <= limitBytes) return;
  throw CsiError.outOfRange(
    `capacity_range.limit_bytes is ${limitBytes}: the volume has or would get ${sizeBytes} bytes, ` +
      'and volumes only grow',
  );
}

/** The largest volume that the pool has space for now. */
export function largestSize(pool: PoolCapacity): bigint {
  const whole = (pool.totalBytes / pool.granularityBytes) * pool.granularityBytes;
  return pool.availableBytes < whole ? pool.availableBytes : whole;
}

function beyondPool(size: bigint, pool: PoolCapacity): CsiError {
  return CsiError.outOfRange(`capacity_range requires ${size} bytes: the whole pool has ${pool.totalBytes}`);
}

/** The smallest size that suits all of the capabilities. */
export function smallestSize(
  capabilities: readonly VolumeCapability[],
  pool: PoolCapacity,
  minimumBytes: Readonly<Record<FileSystem, bigint>> = MINIMUM_BYTES,
): bigint {
  const minima = capabilities.map((capability) => {
    if (capability.accessType === 'block') return 0n;
    return minimumBytes[isFileSystem(capability.fsType) ? capability.fsType : DEFAULT_FILE_SYSTEM];
  });
  return largest([pool.minimumVolumeBytes, ...minima]);
}

const largest = (values: readonly bigint[]): bigint => values.reduce((a, b) => (a > b ? a : b), 0n);

export function roundUp(value: bigint, granularity: bigint): bigint {
  return ((value + granularity - 1n) / granularity) * granularity;
}

/** The largest size that exceeds neither the limit nor the requested size. A limit of 0 means no limit. */
function fitUnder(limit: bigint, requested: bigint, granularity: bigint): bigint {
  if (limit === 0n || requested <= limit) return requested;
  return (limit / granularity) * granularity;
}

export interface VolumeRequest {
  name: string;
  range: CapacityRange | null;
  capabilities: readonly VolumeCapability[];
  parameters: StringMap;
  mutableParameters: StringMap;
  /** At most one of the two sources is set. */
  sourceSnapshotId: string | null;
  sourceVolumeId: string | null;
  /** Why this node does not meet the accessibility requirements; null if it does. */
  topologyProblem: string | null;
  /** When the caller stops waiting, in ms since the epoch; left out if it never does. */
  deadline?: number;
}

/** The field of a repeated CreateVolume that contradicts the existing volume; null if there is none. */
export function incompatibleField(volume: VolumeRecord, request: VolumeRequest): string | null {
  const { range } = request;
  if (range !== null) {
    if (volume.sizeBytes < range.requiredBytes) return 'capacity_range';
    if (range.limitBytes !== 0n && volume.sizeBytes > range.limitBytes) return 'capacity_range';
  }
  if (volume.sourceSnapshotId !== request.sourceSnapshotId) return 'volume_content_source';
  if (volume.sourceVolumeId !== request.sourceVolumeId) return 'volume_content_source';
  if (canonical(volume.parameters) !== canonical(request.parameters)) return 'parameters';
  // Compares the values of the creation, because a repeated CreateVolume does not repeat a later ControllerModifyVolume.
  if (canonical(volume.createdMutableParameters) !== canonical(request.mutableParameters)) {
    return 'mutable_parameters';
  }
  if (request.topologyProblem !== null) return 'accessibility_requirements';
  if (asSet(volume.capabilities) !== asSet(request.capabilities)) return 'volume_capabilities';
  return null;
}

const canonical = (map: StringMap): string => JSON.stringify(Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1)));

const asSet = (capabilities: readonly VolumeCapability[]): string =>
  JSON.stringify(
    capabilities
      .map((capability) => JSON.stringify(Object.entries(capability).sort(([a], [b]) => (a < b ? -1 : 1))))
      .sort(),
  );
