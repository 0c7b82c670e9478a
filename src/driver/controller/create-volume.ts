/** CreateVolume, DeleteVolume and ValidateVolumeCapabilities. The volume manager takes the locks. */
import {
  parseMap,
  parseSecrets,
  parseVolumeCapabilities,
  requirePresent,
  requireString,
} from '../../base/csi/fields.js';
import type { CallContext, RequestOf, ResponseOf } from '../../base/csi/service.js';
import { limitedText } from '../csi/messages.js';
import { isOrchestratorKey } from '../csi/orchestrator-keys.js';
import type { ControllerDependencies } from './dependencies.js';
import { volumeMessage } from './messages.js';
import { assertAllServed, parseCreateVolume, topologyProblem, unservedReason } from './requests.js';

export async function createVolume(
  deps: ControllerDependencies,
  request: RequestOf<'CreateVolume'>,
  context: CallContext,
): Promise<ResponseOf<'CreateVolume'>> {
  const { requirement, ...spec } = parseCreateVolume(request);
  assertAllServed(spec.capabilities, 'volume_capabilities');
  const problem = topologyProblem(requirement, deps.config);
  const { signal, deadline } = context;
  const wanted = { ...spec, topologyProblem: problem, deadline };
  const volume = await deps.volumes.create(wanted, signal);
  const { volumeId, pool, sizeBytes } = volume;
  context.note({ volume_id: volumeId, pool, sizeBytes });
  return { volume: volumeMessage(deps, volume) };
}

export async function deleteVolume(
  deps: ControllerDependencies,
  request: RequestOf<'DeleteVolume'>,
  context: CallContext,
): Promise<ResponseOf<'DeleteVolume'>> {
  const volumeId = requireString(request.volume_id, 'volume_id');
  parseSecrets(request.secrets, 'secrets');
  const released = await deps.volumes.delete(volumeId, context.signal);
  if (released.length > 0) context.note({ releasedStagings: released.join(', ') });
  return {};
}

export async function validateVolumeCapabilities(
  deps: ControllerDependencies,
  request: RequestOf<'ValidateVolumeCapabilities'>,
): Promise<ResponseOf<'ValidateVolumeCapabilities'>> {
  requirePresent(request.volume_id, 'volume_id');
  requirePresent(request.volume_capabilities, 'volume_capabilities');
  const volume = await deps.volumes.find(requireString(request.volume_id, 'volume_id'));
  parseSecrets(request.secrets, 'secrets');
  const capabilities = parseVolumeCapabilities(request.volume_capabilities, 'volume_capabilities');
  const context = parseMap(request.volume_context, 'volume_context');
  parseMap(request.parameters, 'parameters');
  parseMap(request.mutable_parameters, 'mutable_parameters');
  // The message does not name the key: a volume context may hold secrets, and callers log the message.
  if (!Object.keys(context).every(isOrchestratorKey)) {
    return notConfirmed(
      `volume_context has a key that volume ${volume.volumeId} was not created with`,
    );
  }
  const reason = unservedReason(capabilities);
  if (reason !== null) return notConfirmed(reason);
  return {
    confirmed: {
      volume_context: {},
      volume_capabilities: request.volume_capabilities,
      parameters: {},
    },
  };
}

function notConfirmed(reason: string): ResponseOf<'ValidateVolumeCapabilities'> {
  return { message: limitedText(reason) };
}
