// Original file: proto/csi-v0.3.proto

import type { VolumeCapability as _csi_v0_VolumeCapability, VolumeCapability__Output as _csi_v0_VolumeCapability__Output } from './VolumeCapability.js';

export interface ControllerPublishVolumeRequest {
  'volume_id'?: (string);
  'node_id'?: (string);
  'volume_capability'?: (_csi_v0_VolumeCapability | null);
  'readonly'?: (boolean);
  'controller_publish_secrets'?: ({[key: string]: string});
  'volume_attributes'?: ({[key: string]: string});
}

export interface ControllerPublishVolumeRequest__Output {
  'volume_id': (string);
  'node_id': (string);
  'volume_capability': (_csi_v0_VolumeCapability__Output | null);
  'readonly': (boolean);
  'controller_publish_secrets': ({[key: string]: string});
  'volume_attributes': ({[key: string]: string});
}
