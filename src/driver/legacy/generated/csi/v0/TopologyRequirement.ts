// Original file: proto/csi-v0.3.proto

import type { Topology as _csi_v0_Topology, Topology__Output as _csi_v0_Topology__Output } from './Topology.js';

export interface TopologyRequirement {
  'requisite'?: (_csi_v0_Topology)[];
  'preferred'?: (_csi_v0_Topology)[];
}

export interface TopologyRequirement__Output {
  'requisite': (_csi_v0_Topology__Output)[];
  'preferred': (_csi_v0_Topology__Output)[];
}
