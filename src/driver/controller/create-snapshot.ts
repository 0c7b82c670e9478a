/** CreateSnapshot and DeleteSnapshot. The snapshot manager takes the locks. */

import { parseSecrets, requireString } from '../../base/csi/fields.js';
import type { CallContext, RequestOf, ResponseOf } from '../../base/csi/service.js';
import { CsiError } from '../../base/errors.js';
import { readyVolume } from '../volumes/ready-volume.js';
import type { ControllerDependencies, Handler } from './controller-dependencies.js';
import { snapshotMessage } from './record-messages.js';
import { type CreateSnapshotParams, parseCreateSnapshot, topologyProblem } from './requests.js';

export const createSnapshot: Handler<'CreateSnapshot'> = async (deps, request, context) =>
  snapshotOf(deps, parseCreateSnapshot(request), null, context);

/**
 * CreateSnapshot with a copy on another node, as a router asks for it. Null if there is no snapshot of that name and no node is
 * given. UNAVAILABLE, with the reason, if the copy could not be made at the last attempt; it is tried again.
 */
export async function createCopiedSnapshot(
  deps: SnapshotDependencies & { copyFailure(snapshotId: string): string | null },
  request: RequestOf<'CreateSnapshot'>,
  copyNodeId: string | null,
  context: CallContext,
): Promise<ResponseOf<'CreateSnapshot'> | null> {
  const spec = parseCreateSnapshot(request, 'copies');
  const { copies } = spec.parameters;
  if (copies !== '1') throw CsiError.invalidArgument(`parameters['copies'] is '${copies}' and must be 1`);
  if (copyNodeId === null && (await deps.catalogue.snapshotByName(spec.name)) === null) return null;
  const response = await snapshotOf(deps, spec, copyNodeId, context);
  const { snapshot_id: snapshotId = '', ready_to_use: isReady = false } = response.snapshot ?? {};
  const failure = isReady ? null : deps.copyFailure(snapshotId);
  if (failure === null) return response;
  throw CsiError.unavailable(`snapshot ${snapshotId} is taken, and has no copy on another node yet: ${failure}`);
}

type SnapshotDependencies = Pick<ControllerDependencies, 'catalogue' | 'config' | 'snapshots'>;

async function snapshotOf(
  deps: SnapshotDependencies,
  { requirement, ...spec }: CreateSnapshotParams,
  copyNodeId: string | null,
  context: CallContext,
): Promise<ResponseOf<'CreateSnapshot'>> {
  const problem = topologyProblem(requirement, deps.config);
  if (problem !== null) {
    // NOT_FOUND comes before RESOURCE_EXHAUSTED.
    await readyVolume(deps.catalogue, spec.sourceVolumeId);
    throw CsiError.resourceExhausted(problem);
  }
  const snapshot = await deps.snapshots.create({ ...spec, copyNodeId, deadline: context.deadline }, context.signal);
  const { snapshotId, pool, sizeBytes } = snapshot;
  context.note({ snapshot_id: snapshotId, pool, sizeBytes });
  return { snapshot: snapshotMessage(snapshot, deps.config) };
}

export const deleteSnapshot: Handler<'DeleteSnapshot'> = async (deps, request, context) => {
  const snapshotId = requireString(request.snapshot_id, 'snapshot_id');
  parseSecrets(request.secrets, 'secrets');
  await deps.snapshots.delete(snapshotId, context.signal);
  return {};
};
