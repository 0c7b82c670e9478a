// Original file: proto/csi-v0.3.proto

import type { Volume as _csi_v0_Volume, Volume__Output as _csi_v0_Volume__Output } from './Volume.js';

export interface _csi_v0_ListVolumesResponse_Entry {
  'volume'?: (_csi_v0_Volume | null);
}

export interface _csi_v0_ListVolumesResponse_Entry__Output {
  'volume': (_csi_v0_Volume__Output | null);
}

export interface ListVolumesResponse {
  'entries'?: (_csi_v0_ListVolumesResponse_Entry)[];
  'next_token'?: (string);
}

export interface ListVolumesResponse__Output {
  'entries': (_csi_v0_ListVolumesResponse_Entry__Output)[];
  'next_token': (string);
}
