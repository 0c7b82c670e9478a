// Original file: proto/csi-v0.1.proto

import type { Version as _csi_Version, Version__Output as _csi_Version__Output } from './Version.js';

export interface ControllerGetCapabilitiesRequest {
  'version'?: (_csi_Version | null);
}

export interface ControllerGetCapabilitiesRequest__Output {
  'version': (_csi_Version__Output | null);
}
