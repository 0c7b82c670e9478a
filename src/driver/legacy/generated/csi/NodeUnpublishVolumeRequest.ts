// Original file: proto/csi-v0.1.proto

import type { Version as _csi_Version, Version__Output as _csi_Version__Output } from './Version.js';

export interface NodeUnpublishVolumeRequest {
  'version'?: (_csi_Version | null);
  'volume_id'?: (string);
  'target_path'?: (string);
  'user_credentials'?: ({[key: string]: string});
}

export interface NodeUnpublishVolumeRequest__Output {
  'version': (_csi_Version__Output | null);
  'volume_id': (string);
  'target_path': (string);
  'user_credentials': ({[key: string]: string});
}
