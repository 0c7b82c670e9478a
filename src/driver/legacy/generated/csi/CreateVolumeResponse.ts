// Original file: proto/csi-v0.1.proto

import type { VolumeInfo as _csi_VolumeInfo, VolumeInfo__Output as _csi_VolumeInfo__Output } from './VolumeInfo.js';

export interface CreateVolumeResponse {
  'volume_info'?: (_csi_VolumeInfo | null);
}

export interface CreateVolumeResponse__Output {
  'volume_info': (_csi_VolumeInfo__Output | null);
}
