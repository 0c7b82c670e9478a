// Original file: proto/csi-v0.1.proto

import type { Long } from '@grpc/proto-loader';

export interface VolumeInfo {
  'capacity_bytes'?: (number | string | Long);
  'id'?: (string);
  'attributes'?: ({[key: string]: string});
}

export interface VolumeInfo__Output {
  'capacity_bytes': (string);
  'id': (string);
  'attributes': ({[key: string]: string});
}
