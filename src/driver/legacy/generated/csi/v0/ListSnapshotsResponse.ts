// Original file: proto/csi-v0.3.proto

import type { Snapshot as _csi_v0_Snapshot, Snapshot__Output as _csi_v0_Snapshot__Output } from './Snapshot.js';

export interface _csi_v0_ListSnapshotsResponse_Entry {
  'snapshot'?: (_csi_v0_Snapshot | null);
}

export interface _csi_v0_ListSnapshotsResponse_Entry__Output {
  'snapshot': (_csi_v0_Snapshot__Output | null);
}

export interface ListSnapshotsResponse {
  'entries'?: (_csi_v0_ListSnapshotsResponse_Entry)[];
  'next_token'?: (string);
}

export interface ListSnapshotsResponse__Output {
  'entries': (_csi_v0_ListSnapshotsResponse_Entry__Output)[];
  'next_token': (string);
}
