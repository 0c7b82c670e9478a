// Original file: proto/csi-v0.1.proto

import type { Version as _csi_Version, Version__Output as _csi_Version__Output } from './Version.js';

export interface GetSupportedVersionsResponse {
  'supported_versions'?: (_csi_Version)[];
}

export interface GetSupportedVersionsResponse__Output {
  'supported_versions': (_csi_Version__Output)[];
}
