// Original file: proto/csi-v0.3.proto

import type { SnapshotStatus as _csi_v0_SnapshotStatus, SnapshotStatus__Output as _csi_v0_SnapshotStatus__Output } from './SnapshotStatus.js';
import type { Long } from '@grpc/proto-loader';

export interface Snapshot {
  'size_bytes'?: (number | string | Long);
  'id'?: (string);
  'source_volume_id'?: (string);
  'created_at'?: (number | string | Long);
  'status'?: (_csi_v0_SnapshotStatus | null);
}

export interface Snapshot__Output {
  'size_bytes': (string);
  'id': (string);
  'source_volume_id': (string);
  'created_at': (string);
  'status': (_csi_v0_SnapshotStatus__Output | null);
}
