/** The node's side of blockdelta.node.v1 (proto/node.proto), for routers. */
import { requireString } from '../../base/csi/fields.js';
import { findVolumeMethod, NODE_SERVICE, nodeProto } from '../../base/csi/node-proto.js';
import { requestTypeOf } from '../../base/csi/proto.js';
import type { CallContext } from '../../base/csi/service.js';
import type { ServedRpc } from '../../server/calls/served-rpc.js';

/** Resolves to the id of the volume with that name; null if there is none. */
export type FindVolume = (name: string, signal: AbortSignal) => Promise<string | null>;

export function nodeRpcs(findVolume: FindVolume): ServedRpc[] {
  const name = 'FindVolume';
  return [
    {
      service: NODE_SERVICE,
      name,
      definition: findVolumeMethod(),
      requestType: requestTypeOf(nodeProto().root, NODE_SERVICE, name),
      handler: (find) => async (request: { readonly name: string }, context: CallContext) => {
        const wanted = requireString(request.name, 'name');
        // This call waits until the plugin has started: nobody knows the volumes before.
        await find('Controller', 'CreateVolume', context.signal);
        return { volume_id: (await findVolume(wanted, context.signal)) ?? '' };
      },
    },
  ];
}
