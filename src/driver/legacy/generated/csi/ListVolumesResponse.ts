// Original file: proto/csi-v0.1.proto

import type { VolumeInfo as _csi_VolumeInfo, VolumeInfo__Output as _csi_VolumeInfo__Output } from './VolumeInfo.js';

export interface _csi_ListVolumesResponse_Entry {
  'volume_info'?: (_csi_VolumeInfo | null);
}

export interface _csi_ListVolumesResponse_Entry__Output {
  'volume_info': (_csi_VolumeInfo__Output | null);
}

export interface ListVolumesResponse {
  'entries'?: (_csi_ListVolumesResponse_Entry)[];
  'next_token'?: (string);
}

export interface ListVolumesResponse__Output {
  'entries': (_csi_ListVolumesResponse_Entry__Output)[];
  'next_token': (string);
}
