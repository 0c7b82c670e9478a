/**
 * ControllerExpandVolume: grows a volume's storage, and its device if the volume is attached. NodeExpandVolume
 * grows the file system.
 */

import {
  parseCapacityRange,
  parseSecrets,
  parseVolumeCapability,
  requireFields,
  requireString,
} from '../../base/csi/fields.js';
import type { RequestOf } from '../../base/csi/service.js';
import type { VolumeCapability } from '../../base/csi/volume-capability.js';
import { readyVolume } from '../volumes/ready-volume.js';
import type { Handler } from './controller-dependencies.js';
import { assertServed } from './requests.js';

export const expandVolume: Handler<'ControllerExpandVolume'> = async (deps, request, context) => {
  requireFields(request, 'volume_id', 'capacity_range');
  const volumeId = requireString(request.volume_id, 'volume_id');
  const { capabilities } = await readyVolume(deps.catalogue, volumeId);
  parseSecrets(request.secrets, 'secrets');
  const range = parseCapacityRange(request.capacity_range, 'capacity_range');
  const given = parseCapability(request.volume_capability);
  const volume = await deps.volumes.expand(volumeId, range ?? { requiredBytes: 0n, limitBytes: 0n }, context.signal);
  const uses = given === null ? capabilities : [given];
  return {
    capacity_bytes: String(volume.sizeBytes),
    node_expansion_required: uses.some(({ accessType }) => accessType === 'mount'),
  };
};

function parseCapability(value: RequestOf<'ControllerExpandVolume'>['volume_capability']): VolumeCapability | null {
  if (value === null) return null;
  const capability = parseVolumeCapability(value, 'volume_capability');
  assertServed(capability, 'volume_capability');
  return capability;
}
