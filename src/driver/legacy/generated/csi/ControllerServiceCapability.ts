// Original file: proto/csi-v0.1.proto


export interface _csi_ControllerServiceCapability_RPC {
  'type'?: (_csi_ControllerServiceCapability_RPC_Type);
}

export interface _csi_ControllerServiceCapability_RPC__Output {
  'type': (_csi_ControllerServiceCapability_RPC_Type__Output);
}

// Original file: proto/csi-v0.1.proto

export const _csi_ControllerServiceCapability_RPC_Type = {
  UNKNOWN: 'UNKNOWN',
  CREATE_DELETE_VOLUME: 'CREATE_DELETE_VOLUME',
  PUBLISH_UNPUBLISH_VOLUME: 'PUBLISH_UNPUBLISH_VOLUME',
  LIST_VOLUMES: 'LIST_VOLUMES',
  GET_CAPACITY: 'GET_CAPACITY',
} as const;

export type _csi_ControllerServiceCapability_RPC_Type =
  | 'UNKNOWN'
  | 0
  | 'CREATE_DELETE_VOLUME'
  | 1
  | 'PUBLISH_UNPUBLISH_VOLUME'
  | 2
  | 'LIST_VOLUMES'
  | 3
  | 'GET_CAPACITY'
  | 4

export type _csi_ControllerServiceCapability_RPC_Type__Output = typeof _csi_ControllerServiceCapability_RPC_Type[keyof typeof _csi_ControllerServiceCapability_RPC_Type]

export interface ControllerServiceCapability {
  'rpc'?: (_csi_ControllerServiceCapability_RPC | null);
  'type'?: "rpc";
}

export interface ControllerServiceCapability__Output {
  'rpc'?: (_csi_ControllerServiceCapability_RPC__Output | null);
  'type'?: "rpc";
}
