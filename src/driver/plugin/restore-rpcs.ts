/** The plugin's side of blockdelta.restore.v1 (proto/restore.proto), for commands on its socket. */
import { requireString } from '../../base/csi/fields.js';
import { requestTypeOf } from '../../base/csi/proto.js';
import { RESTORE_SERVICE, type RestoreRpc, type RestoreRpcs, restoreProto } from '../../base/csi/restore-proto.js';
import type { CallContext } from '../../base/csi/service.js';
import { CsiError } from '../../base/errors.js';
import type { ServedRpc } from '../../server/calls/served-rpc.js';
import type { InPlaceRestores } from '../volumes/in-place-restores.js';

/** With the paths of a repository and a socket. */
const COMMAND_MAX_BYTES = 8192;

type Side = Pick<InPlaceRestores, 'begin' | 'end'>;

type Handlers = {
  [R in RestoreRpc]: (side: Side, request: RestoreRpcs[R][0], context: CallContext) => Promise<RestoreRpcs[R][1]>;
};

const HANDLERS: Handlers = {
  BeginRestore: async (side, { volume_id, command }, { signal }) => {
    const volumeId = requireString(volume_id, 'volume_id');
    const text = requireString(command, 'command', { maxBytes: COMMAND_MAX_BYTES });
    if (/\p{Cc}/u.test(text)) throw CsiError.invalidArgument('command has a control character');
    const { mark, isNew } = await side.begin(volumeId, text, signal);
    return { token: mark.token, snapshot_name: mark.snapshotName, is_new: isNew };
  },
  EndRestore: async (side, { volume_id, token }, { signal }) => {
    await side.end(requireString(volume_id, 'volume_id'), requireString(token, 'token'), signal);
    return {};
  },
};

/** @param side throws UNAVAILABLE until the plugin has started */
export const restoreRpcs = (side: () => Side): ServedRpc[] =>
  Object.entries(restoreProto().services.InPlaceRestore).map(([name, definition]) => ({
    service: RESTORE_SERVICE,
    name,
    definition,
    requestType: requestTypeOf(restoreProto().root, RESTORE_SERVICE, name),
    handler: (find) => async (request: never, context: CallContext) => {
      // This call waits until the plugin has started: nobody knows the volumes before.
      await find('Controller', 'CreateVolume', context);
      return HANDLERS[name as RestoreRpc](side(), request, context);
    },
  }));
