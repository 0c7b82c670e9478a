// Original file: proto/csi-v0.1.proto

import type { Version as _csi_Version, Version__Output as _csi_Version__Output } from './Version.js';
import type { VolumeCapability as _csi_VolumeCapability, VolumeCapability__Output as _csi_VolumeCapability__Output } from './VolumeCapability.js';

export interface ValidateVolumeCapabilitiesRequest {
  'version'?: (_csi_Version | null);
  'volume_id'?: (string);
  'volume_capabilities'?: (_csi_VolumeCapability)[];
  'volume_attributes'?: ({[key: string]: string});
}

export interface ValidateVolumeCapabilitiesRequest__Output {
  'version': (_csi_Version__Output | null);
  'volume_id': (string);
  'volume_capabilities': (_csi_VolumeCapability__Output)[];
  'volume_attributes': ({[key: string]: string});
}
