/**
 * Decides at which level a call is logged when it ends. The level depends on the status code, and for a success on the RPC.
 *
 * info means that this node's operator has nothing to do, warn that an operator should look, and error that the plugin has a
 * defect. Knows codes and names of RPCs, and nothing of logging.
 */

import type { RpcName } from '../../base/csi/service.js';
import { type CsiError, StatusCode, type StatusName } from '../../base/errors.js';

export type CallLevel = 'debug' | 'info' | 'warn' | 'error';

/** The level, and the reason that docs/logs.md gives for it. */
export const FAILURE_LEVELS: Readonly<Record<Exclude<StatusName, 'OK'>, { level: CallLevel; why: string }>> = {
  INVALID_ARGUMENT: { level: 'info', why: "the caller's mistake, and the caller was told" },
  NOT_FOUND: { level: 'info', why: "the caller's mistake, or what it asks for is gone" },
  ALREADY_EXISTS: { level: 'info', why: "the caller's mistake" },
  OUT_OF_RANGE: { level: 'info', why: "the caller's mistake" },
  UNIMPLEMENTED: { level: 'info', why: "the caller's mistake" },
  CANCELLED: { level: 'info', why: 'the caller gave up' },
  ABORTED: { level: 'info', why: 'another call for the same object runs; callers repeat the call by themselves' },
  DEADLINE_EXCEEDED: { level: 'warn', why: 'the caller could not wait so long: a disk may be slow or dead' },
  RESOURCE_EXHAUSTED: { level: 'warn', why: 'a pool, the host or the state directory is full, or a limit is reached' },
  FAILED_PRECONDITION: {
    level: 'warn',
    why: 'the node, a pool or a volume is in a state that only somebody else can change',
  },
  UNAVAILABLE: { level: 'warn', why: 'the plugin is starting, stopping or overloaded, or another node is away' },
  PERMISSION_DENIED: { level: 'warn', why: 'somebody without the rights reached the plugin' },
  UNAUTHENTICATED: { level: 'warn', why: 'somebody without the rights reached the plugin' },
  INTERNAL: { level: 'error', why: 'a defect of the plugin; the line has the cause and its stack' },
  UNKNOWN: { level: 'error', why: 'a defect of the plugin' },
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
  Object.entries(FAILURE_LEVELS).map(([name, { level }]) => [StatusCode[name as StatusName], level]),
);

/** @param error null if the call succeeded */
export function levelOfCall({ name }: { name: string }, error: CsiError | null): CallLevel {
  if (error !== null) return LEVEL_OF_CODE.get(error.code) ?? 'error';
  return ROUTINE_RPCS.has(name) ? 'debug' : 'info';
}
