// Original file: proto/csi.proto


export interface ListSnapshotsRequest {
  'max_entries'?: (number);
  'starting_token'?: (string);
  'source_volume_id'?: (string);
  'snapshot_id'?: (string);
  'secrets'?: ({[key: string]: string});
}

export interface ListSnapshotsRequest__Output {
  'max_entries': (number);
  'starting_token': (string);
  'source_volume_id': (string);
  'snapshot_id': (string);
  'secrets': ({[key: string]: string});
}
