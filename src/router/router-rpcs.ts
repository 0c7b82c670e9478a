/** The router's side of blockdelta.router.v1 (proto/router.proto), for operators on its socket. */
import { requestTypeOf } from '../base/csi/proto.js';
import {
  ROUTER_SERVICE,
  type RouterRpc,
  type RouterRpcs,
  routerMethod,
  routerProto,
} from '../base/csi/router-proto.js';
import type { CallContext } from '../base/csi/service.js';
import type { ServedRpc } from '../server/calls/served-rpc.js';
import type { Successions } from './successions.js';

type Served = Pick<Successions, 'supersede' | 'cordon'>;

const HANDLERS: {
  [R in RouterRpc]: (served: Served, request: RouterRpcs[R], context: CallContext) => Promise<void>;
} = {
  Supersede: (successions, request, context) => successions.supersede(request, context),
  Cordon: (successions, request, context) => successions.cordon(request, context),
};

export const routerRpcs = (successions: Served): ServedRpc[] =>
  (Object.keys(HANDLERS) as RouterRpc[]).map((name) => ({
    service: ROUTER_SERVICE,
    name,
    definition: routerMethod(name),
    requestType: requestTypeOf(routerProto().root, ROUTER_SERVICE, name),
    handler: (find) => async (request: never, context: CallContext) => {
      // This call waits until the nodes are listed.
      await find('Controller', 'CreateVolume', context.signal);
      await HANDLERS[name](successions, request, context);
      return {};
    },
  }));
