// Original file: proto/csi-v0.1.proto

import type { Version as _csi_Version, Version__Output as _csi_Version__Output } from './Version.js';

export interface ListVolumesRequest {
  'version'?: (_csi_Version | null);
  'max_entries'?: (number);
  'starting_token'?: (string);
}

export interface ListVolumesRequest__Output {
  'version': (_csi_Version__Output | null);
  'max_entries': (number);
  'starting_token': (string);
}
