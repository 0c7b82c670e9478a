/** CreateVolume, DeleteVolume and ValidateVolumeCapabilities. The volume manager takes the locks. */
import {
  parseMap,
  parseSecrets,
  parseVolumeCapabilities,
  requireFields,
  requireString,
} from '../../base/csi/fields.js';
import type { ResponseOf } from '../../base/csi/service.js';
import { CsiError } from '../../base/errors.js';
import { limitedText } from '../csi/messages.js';
import { isOrchestratorKey } from '../csi/orchestrator-keys.js';
import { readyVolume } from '../volumes/ready-volume.js';
import { uncreatableReason, unusableReason } from '../volumes/volume-rules.js';
import type { Handler } from './controller-dependencies.js';
import { volumeMessage } from './record-messages.js';
import { assertAllServed, parseCreateVolume, topologyProblem, unservedReason } from './requests.js';

export const createVolume: Handler<'CreateVolume'> = async (deps, request, context) => {
  const { requirement, ...spec } = parseCreateVolume(request);
  assertAllServed(spec.capabilities, 'volume_capabilities');
  const reason = uncreatableReason(spec);
  if (reason !== null) throw CsiError.invalidArgument(`volume_capabilities: ${reason}`);
  const problem = topologyProblem(requirement, deps.config);
  const { signal, deadline } = context;
  const wanted = { ...spec, topologyProblem: problem, deadline };
  const volume = await deps.volumes.create(wanted, signal);
  const { volumeId, pool, sizeBytes } = volume;
  context.note({ volume_id: volumeId, pool, sizeBytes });
  return { volume: volumeMessage(deps, volume) };
};

export const deleteVolume: Handler<'DeleteVolume'> = async (deps, request, context) => {
  const volumeId = requireString(request.volume_id, 'volume_id');
  parseSecrets(request.secrets, 'secrets');
  const released = await deps.volumes.delete(volumeId, context.signal);
  if (released.length > 0) context.note({ releasedStagings: released.join(', ') });
  return {};
};

export const validateVolumeCapabilities: Handler<'ValidateVolumeCapabilities'> = async (deps, request) => {
  requireFields(request, 'volume_id', 'volume_capabilities');
  const volume = await readyVolume(deps.catalogue, requireString(request.volume_id, 'volume_id'));
  parseSecrets(request.secrets, 'secrets');
  const capabilities = parseVolumeCapabilities(request.volume_capabilities, 'volume_capabilities');
  const context = parseMap(request.volume_context, 'volume_context');
  parseMap(request.parameters, 'parameters');
  parseMap(request.mutable_parameters, 'mutable_parameters');
  // The message does not name the key: a volume context may hold secrets, and callers log the message.
  if (!Object.keys(context).every(isOrchestratorKey)) {
    return notConfirmed(`volume_context has a key that volume ${volume.volumeId} was not created with`);
  }
  const unusable = (): string | null =>
    capabilities.map((capability) => unusableReason(volume, capability)).find((found) => found !== null) ?? null;
  const reason = unservedReason(capabilities) ?? unusable();
  if (reason !== null) return notConfirmed(reason);
  return {
    confirmed: {
      volume_context: {},
      volume_capabilities: request.volume_capabilities,
      parameters: {},
    },
  };
};

function notConfirmed(reason: string): ResponseOf<'ValidateVolumeCapabilities'> {
  return { message: limitedText(reason) };
}
