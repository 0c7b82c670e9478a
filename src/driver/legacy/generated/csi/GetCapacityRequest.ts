// Original file: proto/csi-v0.1.proto

import type { Version as _csi_Version, Version__Output as _csi_Version__Output } from './Version.js';
import type { VolumeCapability as _csi_VolumeCapability, VolumeCapability__Output as _csi_VolumeCapability__Output } from './VolumeCapability.js';

export interface GetCapacityRequest {
  'version'?: (_csi_Version | null);
  'volume_capabilities'?: (_csi_VolumeCapability)[];
  'parameters'?: ({[key: string]: string});
}

export interface GetCapacityRequest__Output {
  'version': (_csi_Version__Output | null);
  'volume_capabilities': (_csi_VolumeCapability__Output)[];
  'parameters': ({[key: string]: string});
}
