/** CSI Identity: the plugin's name and version, its capabilities, and whether it works. */

import { type CapabilitySettings, pluginServices, VOLUME_EXPANSION } from '../../base/csi/capabilities.js';
import { probe } from '../../base/csi/probe.js';
import type { Service } from '../../base/csi/service.js';

export interface IdentityOptions extends CapabilitySettings {
  driverName: string;
  vendorVersion: string;
  /**
   * Called for every Probe, at any time, so it must be cheap. Throws a CsiError FAILED_PRECONDITION that
   * says what is broken.
   */
  health(): Promise<'starting' | 'ready'>;
}

export function createIdentityService(options: IdentityOptions): Service<'Identity'> {
  return {
    name: 'Identity',
    unary: {
      GetPluginInfo: async () => ({
        name: options.driverName,
        vendor_version: options.vendorVersion,
      }),
      GetPluginCapabilities: async () => ({
        capabilities: [
          ...pluginServices(options).map((type) => ({ service: { type } })),
          ...VOLUME_EXPANSION.map((type) => ({ volume_expansion: { type } })),
        ],
      }),
      Probe: (_request, context) => probe(async () => (await options.health()) === 'ready', context),
    },
    streams: {},
  };
}
