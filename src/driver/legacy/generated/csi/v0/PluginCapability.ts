// Original file: proto/csi-v0.3.proto


export interface _csi_v0_PluginCapability_Service {
  'type'?: (_csi_v0_PluginCapability_Service_Type);
}

export interface _csi_v0_PluginCapability_Service__Output {
  'type': (_csi_v0_PluginCapability_Service_Type__Output);
}

// Original file: proto/csi-v0.3.proto

export const _csi_v0_PluginCapability_Service_Type = {
  UNKNOWN: 'UNKNOWN',
  CONTROLLER_SERVICE: 'CONTROLLER_SERVICE',
  ACCESSIBILITY_CONSTRAINTS: 'ACCESSIBILITY_CONSTRAINTS',
} as const;

export type _csi_v0_PluginCapability_Service_Type =
  | 'UNKNOWN'
  | 0
  | 'CONTROLLER_SERVICE'
  | 1
  | 'ACCESSIBILITY_CONSTRAINTS'
  | 2

export type _csi_v0_PluginCapability_Service_Type__Output = typeof _csi_v0_PluginCapability_Service_Type[keyof typeof _csi_v0_PluginCapability_Service_Type]

export interface PluginCapability {
  'service'?: (_csi_v0_PluginCapability_Service | null);
  'type'?: "service";
}

export interface PluginCapability__Output {
  'service'?: (_csi_v0_PluginCapability_Service__Output | null);
  'type'?: "service";
}
