// Original file: proto/csi-v0.3.proto

import type { CapacityRange as _csi_v0_CapacityRange, CapacityRange__Output as _csi_v0_CapacityRange__Output } from './CapacityRange.js';
import type { VolumeCapability as _csi_v0_VolumeCapability, VolumeCapability__Output as _csi_v0_VolumeCapability__Output } from './VolumeCapability.js';
import type { VolumeContentSource as _csi_v0_VolumeContentSource, VolumeContentSource__Output as _csi_v0_VolumeContentSource__Output } from './VolumeContentSource.js';
import type { TopologyRequirement as _csi_v0_TopologyRequirement, TopologyRequirement__Output as _csi_v0_TopologyRequirement__Output } from './TopologyRequirement.js';

export interface CreateVolumeRequest {
  'name'?: (string);
  'capacity_range'?: (_csi_v0_CapacityRange | null);
  'volume_capabilities'?: (_csi_v0_VolumeCapability)[];
  'parameters'?: ({[key: string]: string});
  'controller_create_secrets'?: ({[key: string]: string});
  'volume_content_source'?: (_csi_v0_VolumeContentSource | null);
  'accessibility_requirements'?: (_csi_v0_TopologyRequirement | null);
}

export interface CreateVolumeRequest__Output {
  'name': (string);
  'capacity_range': (_csi_v0_CapacityRange__Output | null);
  'volume_capabilities': (_csi_v0_VolumeCapability__Output)[];
  'parameters': ({[key: string]: string});
  'controller_create_secrets': ({[key: string]: string});
  'volume_content_source': (_csi_v0_VolumeContentSource__Output | null);
  'accessibility_requirements': (_csi_v0_TopologyRequirement__Output | null);
}
