/**
 * ControllerModifyVolume: validates all parameters, applies them to the device and the pods that use the
 * volume, and records them. On a failure the previous parameters are applied again, so that the call has
 * no effect. A key that is absent keeps its value.
 */

import { bestEffort, logLeftover } from '../../base/best-effort.js';
import { parseSecrets, requireString } from '../../base/csi/fields.js';
import { CsiError, StatusCode } from '../../base/errors.js';
import type { VolumeRecord } from '../catalogue/records.js';
import { volumeKey } from '../volumes/operation-locks.js';
import { readyVolume } from '../volumes/ready-volume.js';
import type { ControllerDependencies, Handler } from './controller-dependencies.js';
import { parseMutableParameters } from './requests.js';

/**
 * CSI calls mutable_parameters REQUIRED, but an empty map is absent on the wire, and callers whose class
 * has no parameters send one (csi-sanity does, and expects OK). An empty map means no change, but an
 * unknown volume is still NOT_FOUND.
 */
export const modifyVolume: Handler<'ControllerModifyVolume'> = async (deps, request, context) => {
  const volumeId = requireString(request.volume_id, 'volume_id');
  await deps.locks.run(
    [volumeKey(volumeId)],
    async () => {
      const volume = await readyVolume(deps.catalogue, volumeId);
      parseSecrets(request.secrets, 'secrets');
      const changes = parseMutableParameters(request.mutable_parameters);
      if (Object.keys(changes).length === 0) return;
      await change(deps, volume, changes);
    },
    context.signal,
  );
  return {};
};

async function change(
  deps: ControllerDependencies,
  volume: VolumeRecord,
  changes: VolumeRecord['mutableParameters'],
): Promise<void> {
  const mutableParameters = { ...volume.mutableParameters, ...changes };
  // A pool that fails must not be reported as a wrong parameter.
  await deps.registry.owning(volume.pool).check();
  try {
    await apply(deps, { ...volume, mutableParameters }, Object.keys(changes));
    await deps.catalogue.setMutableParameters(volume.volumeId, mutableParameters);
  } catch (thrown) {
    const onFailure = logLeftover(deps.logger, {
      stays: `settings of the failed change on the device or the pods of volume ${volume.volumeId}`,
      removedBy: 'the next ControllerModifyVolume, or the next staging',
    });
    await bestEffort(() => deps.settings.apply(volume, []), onFailure);
    throw thrown;
  }
}

/** A changed setting that this node, or the volume in its present use, does not support is an invalid value. */
async function apply(deps: ControllerDependencies, volume: VolumeRecord, changed: readonly string[]): Promise<void> {
  try {
    await deps.settings.apply(volume, changed);
  } catch (thrown) {
    if (!(thrown instanceof CsiError) || thrown.code !== StatusCode.FAILED_PRECONDITION) throw thrown;
    throw CsiError.invalidArgument(`mutable_parameters: ${thrown.message}`, { cause: thrown });
  }
}
