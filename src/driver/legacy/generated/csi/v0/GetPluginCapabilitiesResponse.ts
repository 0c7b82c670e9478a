// Original file: proto/csi-v0.3.proto

import type { PluginCapability as _csi_v0_PluginCapability, PluginCapability__Output as _csi_v0_PluginCapability__Output } from './PluginCapability.js';

export interface GetPluginCapabilitiesResponse {
  'capabilities'?: (_csi_v0_PluginCapability)[];
}

export interface GetPluginCapabilitiesResponse__Output {
  'capabilities': (_csi_v0_PluginCapability__Output)[];
}
