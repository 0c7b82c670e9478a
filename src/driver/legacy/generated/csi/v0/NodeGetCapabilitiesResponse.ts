// Original file: proto/csi-v0.3.proto

import type { NodeServiceCapability as _csi_v0_NodeServiceCapability, NodeServiceCapability__Output as _csi_v0_NodeServiceCapability__Output } from './NodeServiceCapability.js';

export interface NodeGetCapabilitiesResponse {
  'capabilities'?: (_csi_v0_NodeServiceCapability)[];
}

export interface NodeGetCapabilitiesResponse__Output {
  'capabilities': (_csi_v0_NodeServiceCapability__Output)[];
}
