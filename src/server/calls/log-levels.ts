/**
 * Decides at which level a call is logged when it ends. The level depends on the status code, and for a success on the RPC.
 *
 * info means that this node's operator has nothing to do, warn that an operator should look, and error that the plugin has a
 * defect. Knows codes and names of RPCs, and nothing of logging.
 */

import type { RpcName } from '../../base/csi/service.js';
import { type CsiError, StatusCode, type StatusName } from '../../base/errors.js';

export type CallLevel = 'debug' | 'info' | 'warn' | 'error';

/** Each level has a comment with its reason. docs/logs.md repeats these reasons. */
export const FAILURE_LEVELS: Readonly<Record<Exclude<StatusName, 'OK'>, CallLevel>> = {
  // The caller's request is wrong or out of date; the answer says so to the caller.
  INVALID_ARGUMENT: 'info',
  NOT_FOUND: 'info',
  ALREADY_EXISTS: 'info',
  OUT_OF_RANGE: 'info',
  UNIMPLEMENTED: 'info',
  // The caller gave up.
  CANCELLED: 'info',
  // Another call for the same object is running; callers repeat the call by themselves.
  ABORTED: 'info',
  // The caller could not wait so long: a disk may be slow or dead.
  DEADLINE_EXCEEDED: 'warn',
  // A pool, the host or the state directory is full, or a limit of the plugin is reached.
  RESOURCE_EXHAUSTED: 'warn',
  // The node, a pool or a volume is in a state that only somebody else can change.
  FAILED_PRECONDITION: 'warn',
  // The plugin is starting, stopping or overloaded, or another node is away.
  UNAVAILABLE: 'warn',
  // A client without the rights reached the plugin.
  PERMISSION_DENIED: 'warn',
  UNAUTHENTICATED: 'warn',
  // An unforeseen error is a defect of the plugin. The log line has the cause.
  INTERNAL: 'error',
  UNKNOWN: 'error',
};

/** RPCs of CSI v0.3 and v0.1 that v1 does not have. */
type OldRpcName = 'GetSupportedVersions' | 'ControllerProbe' | 'NodeProbe' | 'GetNodeID' | 'NodeGetId';

/**
 * RPCs that callers repeat all day without changing anything: probes, capabilities, statistics, health, lists
 * and capacity. Their successes are logged at debug.
 */
export const ROUTINE_RPCS: ReadonlySet<string> = new Set<RpcName | OldRpcName>([
  'GetPluginInfo',
  'GetPluginCapabilities',
  'Probe',
  'ControllerGetCapabilities',
  'ControllerGetVolume',
  'ControllerGetVolumeHealth',
  'ControllerListVolumeHealth',
  'GetCapacity',
  'GetSnapshot',
  'ListSnapshots',
  'ListVolumes',
  'GroupControllerGetCapabilities',
  'GetVolumeGroupSnapshot',
  'NodeGetCapabilities',
  'NodeGetInfo',
  'NodeGetStorageHealth',
  'NodeGetVolumeHealth',
  'NodeGetVolumeStats',
  'GetSupportedVersions',
  'ControllerProbe',
  'NodeProbe',
  'GetNodeID',
  'NodeGetId',
]);

const LEVEL_OF_CODE: ReadonlyMap<number, CallLevel> = new Map(
  Object.entries(FAILURE_LEVELS).map(([name, level]) => [StatusCode[name as StatusName], level]),
);

/** @param error null if the call succeeded */
export function levelOfCall({ name }: { name: string }, error: CsiError | null): CallLevel {
  if (error !== null) return LEVEL_OF_CODE.get(error.code) ?? 'error';
  return ROUTINE_RPCS.has(name) ? 'debug' : 'info';
}
