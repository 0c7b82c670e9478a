// Original file: proto/csi-v0.3.proto

import type { VolumeCapability as _csi_v0_VolumeCapability, VolumeCapability__Output as _csi_v0_VolumeCapability__Output } from './VolumeCapability.js';
import type { Topology as _csi_v0_Topology, Topology__Output as _csi_v0_Topology__Output } from './Topology.js';

export interface ValidateVolumeCapabilitiesRequest {
  'volume_id'?: (string);
  'volume_capabilities'?: (_csi_v0_VolumeCapability)[];
  'volume_attributes'?: ({[key: string]: string});
  'accessible_topology'?: (_csi_v0_Topology)[];
}

export interface ValidateVolumeCapabilitiesRequest__Output {
  'volume_id': (string);
  'volume_capabilities': (_csi_v0_VolumeCapability__Output)[];
  'volume_attributes': ({[key: string]: string});
  'accessible_topology': (_csi_v0_Topology__Output)[];
}
