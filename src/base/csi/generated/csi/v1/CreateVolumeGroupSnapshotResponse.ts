// Original file: proto/csi.proto

import type { VolumeGroupSnapshot as _csi_v1_VolumeGroupSnapshot, VolumeGroupSnapshot__Output as _csi_v1_VolumeGroupSnapshot__Output } from './VolumeGroupSnapshot.js';

export interface CreateVolumeGroupSnapshotResponse {
  'group_snapshot'?: (_csi_v1_VolumeGroupSnapshot | null);
}

export interface CreateVolumeGroupSnapshotResponse__Output {
  'group_snapshot': (_csi_v1_VolumeGroupSnapshot__Output | null);
}
