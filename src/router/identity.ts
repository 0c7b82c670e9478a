/** CSI Identity of the router: it answers for itself, whatever its nodes do, but for their capabilities. */
import type { AnyService } from '../base/csi/service.js';
import { pluginCapabilities, type RouterDependencies } from './services.js';

export function createRouterIdentity(deps: RouterDependencies): AnyService {
  return {
    name: 'Identity',
    unary: {
      GetPluginInfo: async () => ({ name: deps.driverName, vendor_version: deps.vendorVersion }),
      GetPluginCapabilities: pluginCapabilities(deps),
      Probe: async () => ({ ready: { value: deps.nodes.isReady } }),
    },
    streams: {},
  } as unknown as AnyService;
}
