/** CreateSnapshot and DeleteSnapshot. Locks are the snapshot manager's. */

import { CsiError } from '../base/errors.js';
import { parseSecrets, requireString } from '../csi/fields.js';
import type { RequestOf, ResponseOf } from '../csi/service.js';
import type { ControllerDependencies } from './dependencies.js';
import { parseCreateSnapshot, topologyProblem } from './requests.js';
import { snapshotMessage } from './snapshot-message.js';

export async function createSnapshot(
  deps: ControllerDependencies,
  request: RequestOf<'CreateSnapshot'>,
): Promise<ResponseOf<'CreateSnapshot'>> {
  const { requirement, ...spec } = parseCreateSnapshot(request);
  const problem = topologyProblem(requirement, deps.config);
  if (problem !== null) {
    // Existence comes before what cannot be met.
    await deps.volumes.find(spec.sourceVolumeId);
    throw CsiError.resourceExhausted(problem);
  }
  return { snapshot: snapshotMessage(await deps.snapshots.create(spec), deps.config) };
}

export async function deleteSnapshot(
  deps: ControllerDependencies,
  request: RequestOf<'DeleteSnapshot'>,
): Promise<ResponseOf<'DeleteSnapshot'>> {
  const snapshotId = requireString(request.snapshot_id, 'snapshot_id');
  parseSecrets(request.secrets, 'secrets');
  await deps.snapshots.delete(snapshotId);
  return {};
}
