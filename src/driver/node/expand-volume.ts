/**
 * NodeExpandVolume: grows the file system of a volume in use to the size that ControllerExpandVolume gave the volume. A raw
 * block volume has that size already.
 *
 * A file system that another program has frozen grows when it is thawed. The call still ends before its caller's deadline, and
 * the growth continues in the kernel, which completes or refuses it as a whole.
 *
 * The device is grown first if needed, because a killed controller may have grown only the storage. Every step may be repeated:
 * a device or file system that is large enough stays as it is. Requests arrive parsed.
 */

import type { CallContext, ResponseOf } from '../../base/csi/service.js';
import type { CapacityRange, VolumeCapability } from '../../base/csi/volume-capability.js';
import { CsiError, SystemError } from '../../base/errors.js';
import { sizeOfDeviceAt } from '../../base/system/device-attributes.js';
import type { Attachment } from '../backends/backend.js';
import type { VolumeRecord } from '../catalogue/records.js';
import { canGrowMounted } from '../host/file-system-growth.js';
import { findUse, type Occupant, usesOf, type VolumeView, viewVolume } from '../usage/volume-view.js';
import { growMounted } from './growth.js';
import type { NodeDependencies } from './node-dependencies.js';

export interface Expansion {
  volumePath: string;
  /** The range that the volume's size must meet; null if the request has none. */
  range: CapacityRange | null;
  /** The capability that the use at the path must match; null if the request has none. */
  capability: VolumeCapability | null;
}

export async function expandVolume(
  deps: NodeDependencies,
  volume: VolumeRecord,
  { volumePath, range, capability }: Expansion,
  context: CallContext,
): Promise<ResponseOf<'NodeExpandVolume'>> {
  const view = await viewVolume(deps, volume);
  const found = await findUse(view, volumePath);
  if (found.kind !== 'mount' && found.kind !== 'block') {
    throw CsiError.notFound(
      `volume ${volume.volumeId} is neither staged nor published at ${volumePath}; a volume that is not ` +
        'in use needs no expansion on the node: it is grown when it is staged',
    );
  }
  assertKind(volume, capability, found);
  assertInRange(volume, range);
  const devicePath = view.attachment?.devicePath ?? '';
  const sizeBytes = await deviceOfSize(deps, volume, devicePath);
  if (found.kind === 'mount') await growInUse(deps, view, { devicePath, sizeBytes }, context);
  return { capacity_bytes: sizeBytes.toString() };
}

function assertKind(
  volume: VolumeRecord,
  capability: VolumeCapability | null,
  found: Exclude<Occupant, { kind: 'nothing' }>,
): void {
  if (capability === null || capability.accessType === found.kind) return;
  throw CsiError.invalidArgument(
    `volume_capability asks for ${capability.accessType} access, and volume ${volume.volumeId} is in use with ${found.kind} access`,
  );
}

function assertInRange({ volumeId, sizeBytes }: VolumeRecord, range: CapacityRange | null): void {
  if (range === null) return;
  if (range.requiredBytes > sizeBytes) {
    throw CsiError.outOfRange(
      `capacity_range.required_bytes is ${range.requiredBytes} and volume ${volumeId} has ${sizeBytes}: call ControllerExpandVolume first`,
    );
  }
  if (range.limitBytes !== 0n && range.limitBytes < sizeBytes) {
    throw CsiError.outOfRange(
      `capacity_range.limit_bytes is ${range.limitBytes} and volume ${volumeId} has ${sizeBytes}: volumes do not shrink`,
    );
  }
}

/** Grows the device if needed, and returns its size. FAILED_PRECONDITION if it stays smaller than the volume. */
async function deviceOfSize(deps: NodeDependencies, volume: VolumeRecord, devicePath: string): Promise<bigint> {
  const { volumeId, pool, sizeBytes } = volume;
  await deps.backendOf(pool).volumes.expand(volumeId, sizeBytes);
  const found = await sizeOfDeviceAt(devicePath);
  if (found >= sizeBytes) return found;
  throw CsiError.failedPrecondition(
    `${devicePath} of volume ${volumeId} has ${found} bytes instead of ${sizeBytes} and did not grow; ` +
      'unpublish, unstage and stage the volume',
  );
}

/** Requires a writable mount: the kernel does not grow a file system through a read-only mount. */
async function growInUse(
  deps: NodeDependencies,
  view: VolumeView,
  { devicePath, sizeBytes: deviceBytes }: Pick<Attachment, 'devicePath' | 'sizeBytes'>,
  context: CallContext,
): Promise<void> {
  const { volumeId } = view.volume;
  const writable = usesOf(view).mounts.find((entry) => !entry.readOnly && !entry.superReadOnly);
  if (writable === undefined) {
    throw CsiError.failedPrecondition(
      `the file system of volume ${volumeId} is mounted read-only and cannot be grown; ` +
        'it is grown when the volume is staged for writing',
    );
  }
  try {
    const { fsType, mountPoint } = writable;
    const mounted = { volumeId, fsType, mountPoint, devicePath, deviceBytes };
    await growMounted(deps, mounted, context);
  } catch (thrown) {
    if (!(thrown instanceof SystemError && thrown.code === 'EPERM')) throw thrown;
    const isAble = await canGrowMounted('ext4');
    throw notPermitted(volumeId, writable.fsType, isAble, thrown);
  }
}

/**
 * The error for EPERM if a mounted file system is grown: this process lacks a capability, or, for an ext4 if the process has
 * the capability (`isAble`), the file system has recorded errors.
 */
export function notPermitted(volumeId: string, fsType: string, isAble: boolean, cause: SystemError): CsiError {
  const what = `the ${fsType} file system of volume ${volumeId} cannot be grown while mounted`;
  if (fsType === 'ext4' && isAble) {
    return CsiError.failedPrecondition(
      `${what}: it has recorded errors; unpublish, unstage and stage the volume: it is checked and grown then`,
      { cause },
    );
  }
  const capability = fsType === 'ext4' ? 'CAP_SYS_RESOURCE' : 'CAP_SYS_ADMIN';
  return CsiError.failedPrecondition(
    `${what}: the plugin lacks ${capability}; ` +
      'give it that, or unpublish and unstage the volume: it is grown when it is staged again',
    { cause },
  );
}
