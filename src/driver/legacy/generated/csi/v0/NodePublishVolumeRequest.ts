// Original file: proto/csi-v0.3.proto

import type { VolumeCapability as _csi_v0_VolumeCapability, VolumeCapability__Output as _csi_v0_VolumeCapability__Output } from './VolumeCapability.js';

export interface NodePublishVolumeRequest {
  'volume_id'?: (string);
  'publish_info'?: ({[key: string]: string});
  'staging_target_path'?: (string);
  'target_path'?: (string);
  'volume_capability'?: (_csi_v0_VolumeCapability | null);
  'readonly'?: (boolean);
  'node_publish_secrets'?: ({[key: string]: string});
  'volume_attributes'?: ({[key: string]: string});
}

export interface NodePublishVolumeRequest__Output {
  'volume_id': (string);
  'publish_info': ({[key: string]: string});
  'staging_target_path': (string);
  'target_path': (string);
  'volume_capability': (_csi_v0_VolumeCapability__Output | null);
  'readonly': (boolean);
  'node_publish_secrets': ({[key: string]: string});
  'volume_attributes': ({[key: string]: string});
}
