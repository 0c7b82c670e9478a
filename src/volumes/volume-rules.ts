/**
 * Pure rules about volumes: what we can serve, which size to give, when two requests mean the same.
 *
 * No I/O and no state. Sizes are bytes.
 */

import type { PoolCapacity } from '../backends/backend.js';
import { CsiError } from '../base/errors.js';
import type { VolumeRecord } from '../catalogue/records.js';
import type { StringMap } from '../domain/string-map.js';
import type { CapacityRange, VolumeCapability } from '../domain/volume-capability.js';
import {
  DEFAULT_FILE_SYSTEM,
  FILE_SYSTEMS,
  type FileSystem,
  isFileSystem,
  MINIMUM_BYTES,
  MKFS_MINIMUM_BYTES,
} from '../host/file-systems.js';

const MIB = 1n << 20n;

/** Given when the request names no size. */
export const DEFAULT_VOLUME_BYTES = 1024n * MIB;

const ACCESS_MODES: readonly string[] = [
  'SINGLE_NODE_WRITER',
  'SINGLE_NODE_READER_ONLY',
  'SINGLE_NODE_SINGLE_WRITER',
  'SINGLE_NODE_MULTI_WRITER',
];

/** Why we cannot serve a capability, in few words; null if we can. */
export function unsupportedReason(capability: VolumeCapability): string | null {
  if (!ACCESS_MODES.includes(capability.accessMode)) {
    return `access mode ${capability.accessMode} is not served: a volume is reachable from its own node alone`;
  }
  if (capability.accessType === 'block') return null;
  if (capability.fsType !== '' && !isFileSystem(capability.fsType)) {
    return `fs_type '${capability.fsType.slice(0, 40)}' is not served: ${FILE_SYSTEMS.join(', ')}`;
  }
  if (capability.volumeMountGroup !== '') {
    return 'volume_mount_group is not served: VOLUME_MOUNT_GROUP is not advertised';
  }
  return null;
}

export interface SizeQuestion {
  range: CapacityRange | null;
  capabilities: readonly VolumeCapability[];
  pool: PoolCapacity;
  /** The size of the snapshot to restore or the volume to clone; null for an empty volume. */
  sourceBytes: bigint | null;
  /** Of the volume the content comes from: its file system is what a larger copy has to grow. */
  sourceCapabilities?: readonly VolumeCapability[];
}

/** The size a new volume gets. Throws OUT_OF_RANGE if no size fits. */
export function chooseSize(question: SizeQuestion): bigint {
  const { range, pool, sourceBytes } = question;
  const required = range?.requiredBytes ?? 0n;
  const limit = range?.limitBytes ?? 0n;
  const floor = leastSize(question, required);
  const requested =
    required === 0n && sourceBytes === null ? largest([floor, DEFAULT_VOLUME_BYTES]) : floor;
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

/** A copy of its source's size needs no growth, and may be as small as any that there is. */
function leastSize(
  { capabilities, pool, sourceBytes, sourceCapabilities = [] }: SizeQuestion,
  required: bigint,
): bigint {
  if (sourceBytes === null) return largest([required, smallestSize(capabilities, pool)]);
  const least = largest([
    required,
    sourceBytes,
    smallestSize(capabilities, pool, MKFS_MINIMUM_BYTES),
  ]);
  if (least === sourceBytes) return least;
  const isMounted = capabilities.some(({ accessType }) => accessType === 'mount');
  const grown = [...capabilities, ...(isMounted ? sourceCapabilities : [])];
  return largest([least, smallestSize(grown, pool)]);
}

/**
 * What an expansion makes of a volume's size: at least what is required, and at least what a new volume of
 * these capabilities gets, since the kernel grows some file systems to no less. Throws OUT_OF_RANGE.
 */
export function expandedSize(
  { sizeBytes: currentBytes, capabilities }: Pick<VolumeRecord, 'sizeBytes' | 'capabilities'>,
  { requiredBytes, limitBytes }: CapacityRange,
  pool: PoolCapacity,
): bigint {
  const wanted = largest([requiredBytes, smallestSize(capabilities, pool)]);
  const size =
    requiredBytes <= currentBytes ? currentBytes : roundUp(wanted, pool.granularityBytes);
  assertUnderLimit(size, limitBytes);
  if (size > currentBytes && size > pool.totalBytes) throw beyondPool(size, pool);
  return size;
}

/** Throws OUT_OF_RANGE; 0 as limit: no limit. */
export function assertUnderLimit(sizeBytes: bigint, limitBytes: bigint): void {
  if (limitBytes === 0n || sizeBytes <= limitBytes) return;
  throw CsiError.outOfRange(
    `capacity_range.limit_bytes is ${limitBytes}: the volume has or would get ${sizeBytes} bytes, ` +
      'and volumes only grow',
  );
}

/** The largest volume that can be made now, or grown to by what the pool has left. */
export function largestSize(pool: PoolCapacity): bigint {
  const whole = (pool.totalBytes / pool.granularityBytes) * pool.granularityBytes;
  return pool.availableBytes < whole ? pool.availableBytes : whole;
}

function beyondPool(size: bigint, pool: PoolCapacity): CsiError {
  return CsiError.outOfRange(
    `capacity_range asks for ${size} bytes: the whole pool has ${pool.totalBytes}`,
  );
}

/** The least size that all of the capabilities can be served with. */
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

/** The largest allowed size that is not above the requested one; 0 as limit: no limit. */
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
  /** Of the two sources one is set at most. */
  sourceSnapshotId: string | null;
  sourceVolumeId: string | null;
  /** Why this node is not where the volume has to be reachable from; null if it is. */
  topologyProblem: string | null;
}

/** Which field of a repeated CreateVolume asks for another volume than the one there is; null: none. */
export function incompatibleField(volume: VolumeRecord, request: VolumeRequest): string | null {
  const { range } = request;
  if (range !== null) {
    if (volume.sizeBytes < range.requiredBytes) return 'capacity_range';
    if (range.limitBytes !== 0n && volume.sizeBytes > range.limitBytes) return 'capacity_range';
  }
  if (volume.sourceSnapshotId !== request.sourceSnapshotId) return 'volume_content_source';
  if (volume.sourceVolumeId !== request.sourceVolumeId) return 'volume_content_source';
  if (canonical(volume.parameters) !== canonical(request.parameters)) return 'parameters';
  // As it was created: what ControllerModifyVolume did since is not CreateVolume's to repeat.
  if (canonical(volume.createdMutableParameters) !== canonical(request.mutableParameters)) {
    return 'mutable_parameters';
  }
  if (request.topologyProblem !== null) return 'accessibility_requirements';
  if (asSet(volume.capabilities) !== asSet(request.capabilities)) return 'volume_capabilities';
  return null;
}

const canonical = (map: StringMap): string =>
  JSON.stringify(Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1)));

const asSet = (capabilities: readonly VolumeCapability[]): string =>
  JSON.stringify(
    capabilities
      .map((capability) =>
        JSON.stringify(Object.entries(capability).sort(([a], [b]) => (a < b ? -1 : 1))),
      )
      .sort(),
  );
