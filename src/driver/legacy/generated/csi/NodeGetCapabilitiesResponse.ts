// Original file: proto/csi-v0.1.proto

import type { NodeServiceCapability as _csi_NodeServiceCapability, NodeServiceCapability__Output as _csi_NodeServiceCapability__Output } from './NodeServiceCapability.js';

export interface NodeGetCapabilitiesResponse {
  'capabilities'?: (_csi_NodeServiceCapability)[];
}

export interface NodeGetCapabilitiesResponse__Output {
  'capabilities': (_csi_NodeServiceCapability__Output)[];
}
