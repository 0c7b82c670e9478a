/**
 * CSI GroupController: snapshots of several volumes at one point in time.
 *
 * Each handler parses its request and calls the manager, which takes the locks. To every other service the
 * members are ordinary snapshots, except that they are deleted only with their group.
 */

import { GROUP_CAPABILITIES, rpcCapabilities } from '../../base/csi/capabilities.js';
import { parseSecrets, requireFields, requireName, requireString } from '../../base/csi/fields.js';
import {
  boundTo,
  type HandlerWith,
  type RequestOf,
  type ResponseOf,
  type RpcName,
  type Service,
} from '../../base/csi/service.js';
import { CsiError } from '../../base/errors.js';
import type { GroupManager, GroupSnapshot, GroupSnapshotRequest } from '../volumes/group-manager.js';
import { type SnapshotMessageConfig, snapshotMessage, timestampMessage } from './record-messages.js';
import { parseSnapshotParameters } from './requests.js';

export interface GroupControllerDependencies {
  config: SnapshotMessageConfig;
  groups: GroupManager;
}

type Handler<R extends RpcName> = HandlerWith<GroupControllerDependencies, R>;

export function createGroupControllerService(deps: GroupControllerDependencies): Service<'GroupController'> {
  return {
    name: 'GroupController',
    unary: boundTo<GroupControllerDependencies, 'GroupController'>(deps, {
      GroupControllerGetCapabilities: async () => ({
        capabilities: rpcCapabilities(GROUP_CAPABILITIES),
      }),
      CreateVolumeGroupSnapshot: createGroup,
      DeleteVolumeGroupSnapshot: deleteGroup,
      GetVolumeGroupSnapshot: getGroup,
    }),
    streams: {},
  };
}

const createGroup: Handler<'CreateVolumeGroupSnapshot'> = async (deps, request, context) => {
  const { signal, deadline } = context;
  const created = await deps.groups.create({ ...parseCreate(request), deadline }, signal);
  const { group, members } = created;
  context.note({
    group_snapshot_id: group.groupSnapshotId,
    pool: members[0]?.pool ?? '',
    members: members.length,
    sizeBytes: members.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0n),
  });
  return groupResponse(deps, created);
};

const deleteGroup: Handler<'DeleteVolumeGroupSnapshot'> = async (deps, request, context) => {
  const { groupSnapshotId, snapshotIds } = parseReference(request);
  await deps.groups.delete(groupSnapshotId, snapshotIds, context.signal);
  return {};
};

const getGroup: Handler<'GetVolumeGroupSnapshot'> = async (deps, request) => {
  const { groupSnapshotId, snapshotIds } = parseReference(request);
  return groupResponse(deps, await deps.groups.find(groupSnapshotId, snapshotIds));
};

function parseCreate(request: RequestOf<'CreateVolumeGroupSnapshot'>): GroupSnapshotRequest {
  requireFields(request, 'name', 'source_volume_ids');
  parseSecrets(request.secrets, 'secrets');
  const sourceVolumeIds = parseIds(request.source_volume_ids, 'source_volume_ids');
  refuseRepeated(sourceVolumeIds, 'source_volume_ids');
  // Kubernetes' own tests of drivers also set deletionPolicy among the parameters of their class.
  parseSnapshotParameters(request.parameters, 'deletionPolicy');
  return { name: requireName(request.name, 'name'), sourceVolumeIds, parameters: {} };
}

/** Missing snapshot ids are an error only after the group was found, since the group may be deleted already. */
function parseReference(request: RequestOf<'GetVolumeGroupSnapshot'>): {
  groupSnapshotId: string;
  snapshotIds: string[];
} {
  const groupSnapshotId = requireString(request.group_snapshot_id, 'group_snapshot_id');
  parseSecrets(request.secrets, 'secrets');
  return { groupSnapshotId, snapshotIds: parseIds(request.snapshot_ids, 'snapshot_ids') };
}

function parseIds(ids: readonly string[], field: string): string[] {
  return ids.map((id, index) => requireString(id, `${field}[${index}]`));
}

function refuseRepeated(ids: readonly string[], field: string): void {
  const seen = new Set<string>();
  for (const id of ids) {
    if (seen.has(id)) throw CsiError.invalidArgument(`${field} names ${id} more than once`);
    seen.add(id);
  }
}

function groupResponse(
  { config }: GroupControllerDependencies,
  { group, members }: GroupSnapshot,
): ResponseOf<'GetVolumeGroupSnapshot'> {
  return {
    group_snapshot: {
      group_snapshot_id: group.groupSnapshotId,
      snapshots: members.map((member) => snapshotMessage(member, config)),
      creation_time: timestampMessage(group.creationTimeNs),
      ready_to_use: true,
    },
  };
}
