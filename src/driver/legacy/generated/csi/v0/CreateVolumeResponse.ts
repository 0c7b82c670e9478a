// Original file: proto/csi-v0.3.proto

import type { Volume as _csi_v0_Volume, Volume__Output as _csi_v0_Volume__Output } from './Volume.js';

export interface CreateVolumeResponse {
  'volume'?: (_csi_v0_Volume | null);
}

export interface CreateVolumeResponse__Output {
  'volume': (_csi_v0_Volume__Output | null);
}
