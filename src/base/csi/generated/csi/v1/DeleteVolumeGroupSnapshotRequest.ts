// Original file: proto/csi.proto


export interface DeleteVolumeGroupSnapshotRequest {
  'group_snapshot_id'?: (string);
  'snapshot_ids'?: (string)[];
  'secrets'?: ({[key: string]: string});
}

export interface DeleteVolumeGroupSnapshotRequest__Output {
  'group_snapshot_id': (string);
  'snapshot_ids': (string)[];
  'secrets': ({[key: string]: string});
}
