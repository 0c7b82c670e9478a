// Original file: proto/csi-v0.1.proto

import type { Long } from '@grpc/proto-loader';

export interface GetCapacityResponse {
  'available_capacity'?: (number | string | Long);
}

export interface GetCapacityResponse__Output {
  'available_capacity': (string);
}
