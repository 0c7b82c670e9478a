// Original file: proto/csi-v0.3.proto

import type { VolumeCapability as _csi_v0_VolumeCapability, VolumeCapability__Output as _csi_v0_VolumeCapability__Output } from './VolumeCapability.js';

export interface NodeStageVolumeRequest {
  'volume_id'?: (string);
  'publish_info'?: ({[key: string]: string});
  'staging_target_path'?: (string);
  'volume_capability'?: (_csi_v0_VolumeCapability | null);
  'node_stage_secrets'?: ({[key: string]: string});
  'volume_attributes'?: ({[key: string]: string});
}

export interface NodeStageVolumeRequest__Output {
  'volume_id': (string);
  'publish_info': ({[key: string]: string});
  'staging_target_path': (string);
  'volume_capability': (_csi_v0_VolumeCapability__Output | null);
  'node_stage_secrets': ({[key: string]: string});
  'volume_attributes': ({[key: string]: string});
}
