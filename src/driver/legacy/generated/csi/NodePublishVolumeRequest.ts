// Original file: proto/csi-v0.1.proto

import type { Version as _csi_Version, Version__Output as _csi_Version__Output } from './Version.js';
import type { VolumeCapability as _csi_VolumeCapability, VolumeCapability__Output as _csi_VolumeCapability__Output } from './VolumeCapability.js';

export interface NodePublishVolumeRequest {
  'version'?: (_csi_Version | null);
  'volume_id'?: (string);
  'publish_volume_info'?: ({[key: string]: string});
  'target_path'?: (string);
  'volume_capability'?: (_csi_VolumeCapability | null);
  'readonly'?: (boolean);
  'user_credentials'?: ({[key: string]: string});
  'volume_attributes'?: ({[key: string]: string});
}

export interface NodePublishVolumeRequest__Output {
  'version': (_csi_Version__Output | null);
  'volume_id': (string);
  'publish_volume_info': ({[key: string]: string});
  'target_path': (string);
  'volume_capability': (_csi_VolumeCapability__Output | null);
  'readonly': (boolean);
  'user_credentials': ({[key: string]: string});
  'volume_attributes': ({[key: string]: string});
}
