// Original file: proto/csi-v0.1.proto

import type { ControllerServiceCapability as _csi_ControllerServiceCapability, ControllerServiceCapability__Output as _csi_ControllerServiceCapability__Output } from './ControllerServiceCapability.js';

export interface ControllerGetCapabilitiesResponse {
  'capabilities'?: (_csi_ControllerServiceCapability)[];
}

export interface ControllerGetCapabilitiesResponse__Output {
  'capabilities': (_csi_ControllerServiceCapability__Output)[];
}
