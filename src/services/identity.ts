/** CSI Identity: who the plugin is, what it can do, and whether it works. */
import type { Service } from '../csi/service.js';

export interface IdentityOptions {
  driverName: string;
  vendorVersion: string;
  /**
   * Called for every Probe, so it must be cheap and may be called at any time. Throws a CsiError
   * FAILED_PRECONDITION that says what is broken.
   */
  health(): Promise<'starting' | 'ready'>;
}

/** The same in every mode: CSI wants the sum over all instances of one version from each of them. */
const CAPABILITIES = ['CONTROLLER_SERVICE', 'SNAPSHOT_METADATA_SERVICE'] as const;

export function createIdentityService(options: IdentityOptions): Service {
  return {
    name: 'Identity',
    unary: {
      GetPluginInfo: async () => ({
        name: options.driverName,
        vendor_version: options.vendorVersion,
      }),
      GetPluginCapabilities: async () => ({
        capabilities: CAPABILITIES.map((type) => ({ service: { type } })),
      }),
      Probe: async () => ({ ready: { value: (await options.health()) === 'ready' } }),
    },
    streams: {},
  };
}
