/**
 * CSI Controller: the table of its RPCs. Each handler parses its request, calls a manager or the
 * catalogue, and converts records to messages. The health RPCs are in health/controller-health.ts.
 *
 * Create locks the name and the source; delete locks the id and the name; expand, modify, publish and unpublish
 * lock the id. Lists, validation and capacity take no lock: they report the state at that moment.
 */

import { controllerCapabilities, rpcCapabilities } from '../../base/csi/capabilities.js';
import { boundTo, type Service } from '../../base/csi/service.js';
import type { ControllerDependencies } from './controller-dependencies.js';
import { expandVolume } from './controller-expand-volume.js';
import { unpublishVolume, volumePublisher } from './controller-publish-volume.js';
import { createSnapshot, deleteSnapshot } from './create-snapshot.js';
import { createVolume, deleteVolume, validateVolumeCapabilities } from './create-volume.js';
import { getCapacity, getSnapshot, getVolume, listSnapshots, listVolumes } from './lists.js';
import { modifyVolume } from './modify-volume.js';

export function createControllerService(deps: ControllerDependencies): Service<'Controller'> {
  return {
    name: 'Controller',
    unary: boundTo<ControllerDependencies, 'Controller'>(deps, {
      CreateVolume: createVolume,
      DeleteVolume: deleteVolume,
      ValidateVolumeCapabilities: validateVolumeCapabilities,
      ControllerExpandVolume: expandVolume,
      ControllerModifyVolume: modifyVolume,
      ControllerGetVolume: getVolume,
      ListVolumes: listVolumes,
      GetCapacity: getCapacity,
      ControllerGetCapabilities: async ({ config }) => ({
        capabilities: rpcCapabilities(controllerCapabilities(config)),
      }),
      CreateSnapshot: createSnapshot,
      DeleteSnapshot: deleteSnapshot,
      GetSnapshot: getSnapshot,
      ListSnapshots: listSnapshots,
      ...(deps.config.controllerPublish
        ? {
            ControllerPublishVolume: volumePublisher(),
            ControllerUnpublishVolume: unpublishVolume,
          }
        : {}),
    }),
    streams: {},
  };
}
