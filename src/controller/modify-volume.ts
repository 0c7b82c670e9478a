/**
 * ControllerModifyVolume: everything is validated, then applied to the device and the pods that use
 * the volume, then recorded. What fails on the way is taken back, so that nothing of the call has been
 * applied. A key that is absent stays as it is.
 */

import { bestEffort } from '../base/best-effort.js';
import { CsiError, StatusCode } from '../base/errors.js';
import type { VolumeRecord } from '../catalogue/records.js';
import { parseSecrets, requireFields, requireString } from '../csi/fields.js';
import type { RequestOf, ResponseOf } from '../csi/service.js';
import { volumeKey } from '../volumes/operation-locks.js';
import type { ControllerDependencies } from './dependencies.js';
import { parseMutableParameters } from './requests.js';

/**
 * CSI calls mutable_parameters REQUIRED, but on the wire an empty map is an absent one, and a caller
 * whose class has no parameters sends it (csi-sanity does, and wants OK). It asks for no change, which
 * is given; an unknown volume is NOT_FOUND all the same.
 */
export async function modifyVolume(
  deps: ControllerDependencies,
  request: RequestOf<'ControllerModifyVolume'>,
): Promise<ResponseOf<'ControllerModifyVolume'>> {
  requireFields(request, 'volume_id');
  const volumeId = requireString(request.volume_id, 'volume_id');
  await deps.locks.run([volumeKey(volumeId)], async () => {
    const volume = await deps.volumes.find(volumeId);
    parseSecrets(request.secrets, 'secrets');
    const changes = parseMutableParameters(request.mutable_parameters);
    if (Object.keys(changes).length === 0) return;
    await change(deps, volume, { ...volume.mutableParameters, ...changes });
  });
  return {};
}

async function change(
  deps: ControllerDependencies,
  volume: VolumeRecord,
  mutableParameters: VolumeRecord['mutableParameters'],
): Promise<void> {
  // So that what fails now is not a matter of the pool.
  await deps.registry.owning(volume.pool).check();
  try {
    await apply(deps, { ...volume, mutableParameters });
    await deps.catalogue.setMutableParameters(volume.volumeId, mutableParameters);
  } catch (thrown) {
    await bestEffort(() => deps.settings.apply(volume));
    throw thrown;
  }
}

/** What cannot be set on this node, or on this volume as it is used now, is a wrong value here. */
async function apply(deps: ControllerDependencies, volume: VolumeRecord): Promise<void> {
  try {
    await deps.settings.apply(volume);
  } catch (thrown) {
    if (!(thrown instanceof CsiError) || thrown.code !== StatusCode.FAILED_PRECONDITION)
      throw thrown;
    throw CsiError.invalidArgument(`mutable_parameters: ${thrown.message}`, { cause: thrown });
  }
}
