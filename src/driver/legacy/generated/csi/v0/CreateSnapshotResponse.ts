// Original file: proto/csi-v0.3.proto

import type { Snapshot as _csi_v0_Snapshot, Snapshot__Output as _csi_v0_Snapshot__Output } from './Snapshot.js';

export interface CreateSnapshotResponse {
  'snapshot'?: (_csi_v0_Snapshot | null);
}

export interface CreateSnapshotResponse__Output {
  'snapshot': (_csi_v0_Snapshot__Output | null);
}
