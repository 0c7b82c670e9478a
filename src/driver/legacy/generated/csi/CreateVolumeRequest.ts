// Original file: proto/csi-v0.1.proto

import type { Version as _csi_Version, Version__Output as _csi_Version__Output } from './Version.js';
import type { CapacityRange as _csi_CapacityRange, CapacityRange__Output as _csi_CapacityRange__Output } from './CapacityRange.js';
import type { VolumeCapability as _csi_VolumeCapability, VolumeCapability__Output as _csi_VolumeCapability__Output } from './VolumeCapability.js';

export interface CreateVolumeRequest {
  'version'?: (_csi_Version | null);
  'name'?: (string);
  'capacity_range'?: (_csi_CapacityRange | null);
  'volume_capabilities'?: (_csi_VolumeCapability)[];
  'parameters'?: ({[key: string]: string});
  'user_credentials'?: ({[key: string]: string});
}

export interface CreateVolumeRequest__Output {
  'version': (_csi_Version__Output | null);
  'name': (string);
  'capacity_range': (_csi_CapacityRange__Output | null);
  'volume_capabilities': (_csi_VolumeCapability__Output)[];
  'parameters': ({[key: string]: string});
  'user_credentials': ({[key: string]: string});
}
