// Original file: proto/csi-v0.3.proto

import type { VolumeCapability as _csi_v0_VolumeCapability, VolumeCapability__Output as _csi_v0_VolumeCapability__Output } from './VolumeCapability.js';
import type { Topology as _csi_v0_Topology, Topology__Output as _csi_v0_Topology__Output } from './Topology.js';

export interface GetCapacityRequest {
  'volume_capabilities'?: (_csi_v0_VolumeCapability)[];
  'parameters'?: ({[key: string]: string});
  'accessible_topology'?: (_csi_v0_Topology | null);
}

export interface GetCapacityRequest__Output {
  'volume_capabilities': (_csi_v0_VolumeCapability__Output)[];
  'parameters': ({[key: string]: string});
  'accessible_topology': (_csi_v0_Topology__Output | null);
}
