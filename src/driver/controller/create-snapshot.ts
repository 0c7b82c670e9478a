/** CreateSnapshot and DeleteSnapshot. The snapshot manager takes the locks. */

import { parseSecrets, requireString } from '../../base/csi/fields.js';
import { CsiError } from '../../base/errors.js';
import { readyVolume } from '../volumes/ready-volume.js';
import type { Handler } from './controller-dependencies.js';
import { snapshotMessage } from './record-messages.js';
import { parseCreateSnapshot, topologyProblem } from './requests.js';

export const createSnapshot: Handler<'CreateSnapshot'> = async (deps, request, context) => {
  const { requirement, ...spec } = parseCreateSnapshot(request);
  const problem = topologyProblem(requirement, deps.config);
  if (problem !== null) {
    // NOT_FOUND comes before RESOURCE_EXHAUSTED.
    await readyVolume(deps.catalogue, spec.sourceVolumeId);
    throw CsiError.resourceExhausted(problem);
  }
  const snapshot = await deps.snapshots.create({ ...spec, deadline: context.deadline }, context.signal);
  const { snapshotId, pool, sizeBytes } = snapshot;
  context.note({ snapshot_id: snapshotId, pool, sizeBytes });
  return { snapshot: snapshotMessage(snapshot, deps.config) };
};

export const deleteSnapshot: Handler<'DeleteSnapshot'> = async (deps, request, context) => {
  const snapshotId = requireString(request.snapshot_id, 'snapshot_id');
  parseSecrets(request.secrets, 'secrets');
  await deps.snapshots.delete(snapshotId, context.signal);
  return {};
};
