/**
 * CSI Controller: the table of its RPCs. Each handler parses its request, calls a manager or the
 * catalogue, and converts records to messages. The health RPCs are in health/controller-health.ts.
 *
 * Locks: create locks the name and the source, delete the id and the name; expand, modify, publish and
 * unpublish the id. Lists, validation and capacity take no lock: they report the state at that moment.
 */

import { controllerCapabilities, rpcCapabilities } from '../../base/csi/capabilities.js';
import type { Service } from '../../base/csi/service.js';
import { createVolume, deleteVolume, validateVolumeCapabilities } from './create-volume.js';
import type { ControllerDependencies } from './dependencies.js';
import { expandVolume } from './expand-volume.js';
import { getCapacity, getSnapshot, getVolume, listSnapshots, listVolumes } from './lists.js';
import { modifyVolume } from './modify-volume.js';
import { unpublishVolume, volumePublisher } from './publish-volume.js';
import { createSnapshot, deleteSnapshot } from './snapshots.js';

export function createControllerService(deps: ControllerDependencies): Service<'Controller'> {
  return {
    name: 'Controller',
    unary: {
      CreateVolume: (request, context) => createVolume(deps, request, context),
      DeleteVolume: (request, context) => deleteVolume(deps, request, context),
      ValidateVolumeCapabilities: (request) => validateVolumeCapabilities(deps, request),
      ControllerExpandVolume: (request, context) => expandVolume(deps, request, context),
      ControllerModifyVolume: (request, context) => modifyVolume(deps, request, context),
      ControllerGetVolume: (request) => getVolume(deps, request),
      ListVolumes: (request) => listVolumes(deps, request),
      GetCapacity: (request) => getCapacity(deps, request),
      ControllerGetCapabilities: async () => ({
        capabilities: rpcCapabilities(controllerCapabilities(deps.config)),
      }),
      CreateSnapshot: (request, context) => createSnapshot(deps, request, context),
      DeleteSnapshot: (request, context) => deleteSnapshot(deps, request, context),
      GetSnapshot: (request) => getSnapshot(deps, request),
      ListSnapshots: (request) => listSnapshots(deps, request),
      ...(deps.config.controllerPublish
        ? {
            ControllerPublishVolume: volumePublisher(deps),
            ControllerUnpublishVolume: (request, context) =>
              unpublishVolume(deps, request, context),
          }
        : {}),
    },
    streams: {},
  };
}
