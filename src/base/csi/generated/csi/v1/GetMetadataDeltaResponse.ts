// Original file: proto/csi.proto

import type { BlockMetadataType as _csi_v1_BlockMetadataType, BlockMetadataType__Output as _csi_v1_BlockMetadataType__Output } from './BlockMetadataType.js';
import type { BlockMetadata as _csi_v1_BlockMetadata, BlockMetadata__Output as _csi_v1_BlockMetadata__Output } from './BlockMetadata.js';
import type { Long } from '@grpc/proto-loader';

export interface GetMetadataDeltaResponse {
  'block_metadata_type'?: (_csi_v1_BlockMetadataType);
  'volume_capacity_bytes'?: (number | string | Long);
  'block_metadata'?: (_csi_v1_BlockMetadata)[];
}

export interface GetMetadataDeltaResponse__Output {
  'block_metadata_type': (_csi_v1_BlockMetadataType__Output);
  'volume_capacity_bytes': (string);
  'block_metadata': (_csi_v1_BlockMetadata__Output)[];
}
