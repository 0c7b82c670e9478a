/** The router's side of blockdelta.router.v1 (proto/router.proto), for operators on its socket. */
import { requestTypeOf } from '../base/csi/proto.js';
import { ROUTER_SERVICE, routerProto, type SupersedeMessage, supersedeMethod } from '../base/csi/router-proto.js';
import type { CallContext } from '../base/csi/service.js';
import type { ServedRpc } from '../server/calls/served-rpc.js';
import type { Successions } from './successions.js';

export const routerRpcs = (successions: Pick<Successions, 'supersede'>): ServedRpc[] => [
  {
    service: ROUTER_SERVICE,
    name: 'Supersede',
    definition: supersedeMethod(),
    requestType: requestTypeOf(routerProto().root, ROUTER_SERVICE, 'Supersede'),
    handler: (find) => async (request: SupersedeMessage, context: CallContext) => {
      // This call waits until the nodes are listed.
      await find('Controller', 'CreateVolume', context.signal);
      await successions.supersede(request, context);
      return {};
    },
  },
];
