/**
 * The capabilities that the plugin advertises, by the CSI version that its clients are assumed to know.
 *
 * Every RPC is served at every level. The level decides only what is advertised, because clients built for an older version
 * reject values that they do not know, and newer clients do not use removed capabilities. CSI 1.12 added GET_SNAPSHOT; 1.13
 * replaced VOLUME_CONDITION by health RPCs.
 */
import type { _csi_v1_ControllerServiceCapability_RPC_Type__Output as ControllerRpcType } from './generated/csi/v1/ControllerServiceCapability.js';
import type { _csi_v1_NodeServiceCapability_RPC_Type__Output as NodeRpcType } from './generated/csi/v1/NodeServiceCapability.js';
import type { _csi_v1_PluginCapability_Service_Type__Output as PluginServiceType } from './generated/csi/v1/PluginCapability.js';

export const CSI_LEVELS = ['1.10', '1.11', '1.12', '1.13'] as const;
/** The version of the specification that clients are assumed to know. */
export type CsiLevel = (typeof CSI_LEVELS)[number];

export interface CapabilitySettings {
  readonly csiLevel: CsiLevel;
  readonly controllerPublish: boolean;
}

export function isAtLeast(level: CsiLevel, minimum: CsiLevel): boolean {
  return CSI_LEVELS.indexOf(level) >= CSI_LEVELS.indexOf(minimum);
}

/** Whether responses contain VolumeCondition, which CSI 1.13 replaced by health RPCs. */
export function hasVolumeCondition({ csiLevel }: Pick<CapabilitySettings, 'csiLevel'>): boolean {
  return !isAtLeast(csiLevel, '1.13');
}

/** PluginCapability.Service types. They are the same on every node, because CSI wants the union over all instances. */
export function pluginServices({ csiLevel }: CapabilitySettings): PluginServiceType[] {
  return [
    'CONTROLLER_SERVICE',
    'VOLUME_ACCESSIBILITY_CONSTRAINTS',
    'GROUP_CONTROLLER_SERVICE',
    'SNAPSHOT_METADATA_SERVICE',
    ...when(isAtLeast(csiLevel, '1.13'), 'SNAPSHOT_ACCESSIBILITY_CONSTRAINTS'),
  ];
}

/** PluginCapability.VolumeExpansion types: the controller expands volumes while they are published. */
export const VOLUME_EXPANSION = ['ONLINE'] as const;

export function controllerCapabilities(settings: CapabilitySettings): ControllerRpcType[] {
  const { csiLevel, controllerPublish } = settings;
  return [
    'CREATE_DELETE_VOLUME',
    'LIST_VOLUMES',
    'GET_CAPACITY',
    'CREATE_DELETE_SNAPSHOT',
    'LIST_SNAPSHOTS',
    'CLONE_VOLUME',
    'EXPAND_VOLUME',
    'GET_VOLUME',
    'SINGLE_NODE_MULTI_WRITER',
    'MODIFY_VOLUME',
    ...when(isAtLeast(csiLevel, '1.12'), 'GET_SNAPSHOT'),
    ...when(hasVolumeCondition(settings), 'VOLUME_CONDITION'),
    ...when(!hasVolumeCondition(settings), 'GET_VOLUME_HEALTH', 'LIST_VOLUME_HEALTH'),
    ...when(controllerPublish, 'PUBLISH_UNPUBLISH_VOLUME', 'PUBLISH_READONLY', 'LIST_VOLUMES_PUBLISHED_NODES'),
  ];
}

export function nodeCapabilities(settings: CapabilitySettings): NodeRpcType[] {
  return [
    'STAGE_UNSTAGE_VOLUME',
    'GET_VOLUME_STATS',
    'EXPAND_VOLUME',
    'SINGLE_NODE_MULTI_WRITER',
    ...when(hasVolumeCondition(settings), 'VOLUME_CONDITION'),
    ...when(!hasVolumeCondition(settings), 'GET_VOLUME_HEALTH', 'GET_STORAGE_HEALTH'),
  ];
}

export const GROUP_CAPABILITIES = ['CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT'] as const;

/** The `capabilities` of a Get*Capabilities response whose entries are `rpc`. */
export function rpcCapabilities<Type extends string>(types: readonly Type[]): { rpc: { type: Type } }[] {
  return types.map((type) => ({ rpc: { type } }));
}

function when<Type extends string>(isAdvertised: boolean, ...types: Type[]): Type[] {
  return isAdvertised ? types : [];
}
