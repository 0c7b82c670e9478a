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
import type { KeptCopies } from './kept-copies.js';
import type { Successions } from './successions.js';

export interface RouterSide {
  readonly successions: Pick<Successions, 'supersede' | 'cordon'>;
  readonly keptCopies: Pick<KeptCopies, 'list' | 'compare' | 'delete'>;
}

type Handlers = {
  [R in RouterRpc]: (side: RouterSide, request: RouterRpcs[R][0], context: CallContext) => Promise<RouterRpcs[R][1]>;
};

const HANDLERS: Handlers = {
  Supersede: async ({ successions }, request, context) => {
    await successions.supersede(request, context);
    return {};
  },
  Cordon: async ({ successions }, request, context) => {
    await successions.cordon(request, context);
    return {};
  },
  ListCopies: ({ keptCopies }, request, context) => keptCopies.list(request, context),
  CompareCopy: ({ keptCopies }, request, context) => keptCopies.compare(request, context),
  DeleteCopies: ({ keptCopies }, request, context) => keptCopies.delete(request, context),
};

export const routerRpcs = (side: RouterSide): ServedRpc[] =>
  (Object.keys(HANDLERS) as RouterRpc[]).map((name) => ({
    service: ROUTER_SERVICE,
    name,
    definition: routerMethod(name),
    requestType: requestTypeOf(routerProto().root, ROUTER_SERVICE, name),
    handler: (find) => async (request: never, context: CallContext) => {
      // This call waits until the nodes are listed.
      await find('Controller', 'CreateVolume', context);
      return HANDLERS[name](side, request, context);
    },
  }));
