// Original file: proto/csi-v0.3.proto

import type { ControllerServiceCapability as _csi_v0_ControllerServiceCapability, ControllerServiceCapability__Output as _csi_v0_ControllerServiceCapability__Output } from './ControllerServiceCapability.js';

export interface ControllerGetCapabilitiesResponse {
  'capabilities'?: (_csi_v0_ControllerServiceCapability)[];
}

export interface ControllerGetCapabilitiesResponse__Output {
  'capabilities': (_csi_v0_ControllerServiceCapability__Output)[];
}
