/** Keeps calls that change what the catalogue records from being served by one that has lost rows. */
import type { Service } from '../csi/service.js';
import { refuseChange, type UnknownObject } from '../volumes/unknown-objects.js';

/**
 * What begins, ends or changes an object. What releases or reads known ones, or stages them, goes on:
 * pods keep running and can be torn down, backups can be made.
 */
const CHANGES: readonly string[] = [
  'CreateVolume',
  'DeleteVolume',
  'ControllerExpandVolume',
  'ControllerModifyVolume',
  'CreateSnapshot',
  'DeleteSnapshot',
  'CreateVolumeGroupSnapshot',
  'DeleteVolumeGroupSnapshot',
];

/** @param unknown what the catalogue lacks; none: the service as it is */
export function guarded(service: Service, unknown: readonly UnknownObject[]): Service {
  if (unknown.length === 0) return service;
  const handlers = Object.entries(service.unary).map(([rpc, handler]) => {
    if (!CHANGES.includes(rpc)) return [rpc, handler];
    return [rpc, () => Promise.reject(refuseChange(rpc, unknown))];
  });
  return { ...service, unary: Object.fromEntries(handlers) };
}
