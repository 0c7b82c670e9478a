/** The Identity service of the fake driver. */
import type { Rpcs } from './refusal.js';
import type { State } from './state.js';

export function identityRpcs(state: State): Rpcs {
  const services = [
    'CONTROLLER_SERVICE',
    'GROUP_CONTROLLER_SERVICE',
    'SNAPSHOT_METADATA_SERVICE',
  ].filter((type) => state.has(type));
  return {
    GetPluginInfo: () => ({ name: 'correct.fake.example', vendor_version: '1.0.0' }),
    GetPluginCapabilities: () => ({
      capabilities: [
        ...services.map((type) => ({ service: { type } })),
        ...(state.has('EXPAND_VOLUME') ? [{ volume_expansion: { type: 'ONLINE' } }] : []),
      ],
    }),
    Probe: () => ({ ready: { value: true } }),
  };
}
