// Original file: proto/csi-v0.1.proto

import type { Version as _csi_Version, Version__Output as _csi_Version__Output } from './Version.js';

export interface ControllerUnpublishVolumeRequest {
  'version'?: (_csi_Version | null);
  'volume_id'?: (string);
  'node_id'?: (string);
  'user_credentials'?: ({[key: string]: string});
}

export interface ControllerUnpublishVolumeRequest__Output {
  'version': (_csi_Version__Output | null);
  'volume_id': (string);
  'node_id': (string);
  'user_credentials': ({[key: string]: string});
}
