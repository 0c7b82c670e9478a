// Original file: proto/csi-v0.3.proto


export interface _csi_v0_NodeServiceCapability_RPC {
  'type'?: (_csi_v0_NodeServiceCapability_RPC_Type);
}

export interface _csi_v0_NodeServiceCapability_RPC__Output {
  'type': (_csi_v0_NodeServiceCapability_RPC_Type__Output);
}

// Original file: proto/csi-v0.3.proto

export const _csi_v0_NodeServiceCapability_RPC_Type = {
  UNKNOWN: 'UNKNOWN',
  STAGE_UNSTAGE_VOLUME: 'STAGE_UNSTAGE_VOLUME',
} as const;

export type _csi_v0_NodeServiceCapability_RPC_Type =
  | 'UNKNOWN'
  | 0
  | 'STAGE_UNSTAGE_VOLUME'
  | 1

export type _csi_v0_NodeServiceCapability_RPC_Type__Output = typeof _csi_v0_NodeServiceCapability_RPC_Type[keyof typeof _csi_v0_NodeServiceCapability_RPC_Type]

export interface NodeServiceCapability {
  'rpc'?: (_csi_v0_NodeServiceCapability_RPC | null);
  'type'?: "rpc";
}

export interface NodeServiceCapability__Output {
  'rpc'?: (_csi_v0_NodeServiceCapability_RPC__Output | null);
  'type'?: "rpc";
}
