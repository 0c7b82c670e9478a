/** Keeps calls that change what the catalogue records from being served by one that has lost rows. */
import type { AnyService, AnyUnaryHandler, RpcName } from '../csi/service.js';
import { refuseChange, type UnknownObject } from '../volumes/unknown-objects.js';

/**
 * What begins, ends or changes an object. What releases or reads known ones, or stages them, goes on:
 * pods keep running and can be torn down, backups can be made.
 */
const CHANGES: readonly RpcName[] = [
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
export function guarded(service: AnyService, unknown: readonly UnknownObject[]): AnyService {
  if (unknown.length === 0) return service;
  const refused: Record<string, AnyUnaryHandler> = {};
  for (const rpc of CHANGES) {
    if (rpc in service.unary) refused[rpc] = () => Promise.reject(refuseChange(rpc, unknown));
  }
  return { ...service, unary: { ...service.unary, ...refused } } as AnyService;
}
