// Original file: proto/csi-v0.3.proto

import type { VolumeContentSource as _csi_v0_VolumeContentSource, VolumeContentSource__Output as _csi_v0_VolumeContentSource__Output } from './VolumeContentSource.js';
import type { Topology as _csi_v0_Topology, Topology__Output as _csi_v0_Topology__Output } from './Topology.js';
import type { Long } from '@grpc/proto-loader';

export interface Volume {
  'capacity_bytes'?: (number | string | Long);
  'id'?: (string);
  'attributes'?: ({[key: string]: string});
  'content_source'?: (_csi_v0_VolumeContentSource | null);
  'accessible_topology'?: (_csi_v0_Topology)[];
}

export interface Volume__Output {
  'capacity_bytes': (string);
  'id': (string);
  'attributes': ({[key: string]: string});
  'content_source': (_csi_v0_VolumeContentSource__Output | null);
  'accessible_topology': (_csi_v0_Topology__Output)[];
}
