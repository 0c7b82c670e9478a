/** What the handlers of the controller need, with managers on pools in memory. */
import type { ControllerDependencies } from '../../../src/driver/controller/controller-dependencies.js';
import { VolumeManager } from '../../../src/driver/volumes/volume-manager.js';
import type { Managers } from '../volumes/manager-fixture.js';

export function controllerOf(
  { deps, snapshots }: Managers,
  more: Partial<ControllerDependencies> = {},
): ControllerDependencies {
  return {
    ...deps,
    config: {
      nodeId: 'test-node',
      topologyKey: 'blockdelta.csi/node',
      csiLevel: '1.12',
      controllerPublish: false,
      maxVolumesPerNode: 0,
      transfers: { ports: [], host: '0.0.0.0', bytesPerSecond: null },
    },
    volumes: new VolumeManager(deps),
    snapshots,
    settings: { apply: async () => undefined },
    ...more,
  };
}
