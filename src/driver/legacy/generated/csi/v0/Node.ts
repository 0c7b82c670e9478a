// Original file: proto/csi-v0.3.proto

import type * as grpc from '@grpc/grpc-js'
import type { MethodDefinition } from '@grpc/proto-loader'
import type { NodeGetCapabilitiesRequest as _csi_v0_NodeGetCapabilitiesRequest, NodeGetCapabilitiesRequest__Output as _csi_v0_NodeGetCapabilitiesRequest__Output } from './NodeGetCapabilitiesRequest.js';
import type { NodeGetCapabilitiesResponse as _csi_v0_NodeGetCapabilitiesResponse, NodeGetCapabilitiesResponse__Output as _csi_v0_NodeGetCapabilitiesResponse__Output } from './NodeGetCapabilitiesResponse.js';
import type { NodeGetIdRequest as _csi_v0_NodeGetIdRequest, NodeGetIdRequest__Output as _csi_v0_NodeGetIdRequest__Output } from './NodeGetIdRequest.js';
import type { NodeGetIdResponse as _csi_v0_NodeGetIdResponse, NodeGetIdResponse__Output as _csi_v0_NodeGetIdResponse__Output } from './NodeGetIdResponse.js';
import type { NodeGetInfoRequest as _csi_v0_NodeGetInfoRequest, NodeGetInfoRequest__Output as _csi_v0_NodeGetInfoRequest__Output } from './NodeGetInfoRequest.js';
import type { NodeGetInfoResponse as _csi_v0_NodeGetInfoResponse, NodeGetInfoResponse__Output as _csi_v0_NodeGetInfoResponse__Output } from './NodeGetInfoResponse.js';
import type { NodePublishVolumeRequest as _csi_v0_NodePublishVolumeRequest, NodePublishVolumeRequest__Output as _csi_v0_NodePublishVolumeRequest__Output } from './NodePublishVolumeRequest.js';
import type { NodePublishVolumeResponse as _csi_v0_NodePublishVolumeResponse, NodePublishVolumeResponse__Output as _csi_v0_NodePublishVolumeResponse__Output } from './NodePublishVolumeResponse.js';
import type { NodeStageVolumeRequest as _csi_v0_NodeStageVolumeRequest, NodeStageVolumeRequest__Output as _csi_v0_NodeStageVolumeRequest__Output } from './NodeStageVolumeRequest.js';
import type { NodeStageVolumeResponse as _csi_v0_NodeStageVolumeResponse, NodeStageVolumeResponse__Output as _csi_v0_NodeStageVolumeResponse__Output } from './NodeStageVolumeResponse.js';
import type { NodeUnpublishVolumeRequest as _csi_v0_NodeUnpublishVolumeRequest, NodeUnpublishVolumeRequest__Output as _csi_v0_NodeUnpublishVolumeRequest__Output } from './NodeUnpublishVolumeRequest.js';
import type { NodeUnpublishVolumeResponse as _csi_v0_NodeUnpublishVolumeResponse, NodeUnpublishVolumeResponse__Output as _csi_v0_NodeUnpublishVolumeResponse__Output } from './NodeUnpublishVolumeResponse.js';
import type { NodeUnstageVolumeRequest as _csi_v0_NodeUnstageVolumeRequest, NodeUnstageVolumeRequest__Output as _csi_v0_NodeUnstageVolumeRequest__Output } from './NodeUnstageVolumeRequest.js';
import type { NodeUnstageVolumeResponse as _csi_v0_NodeUnstageVolumeResponse, NodeUnstageVolumeResponse__Output as _csi_v0_NodeUnstageVolumeResponse__Output } from './NodeUnstageVolumeResponse.js';

export interface NodeClient extends grpc.Client {
  NodeGetCapabilities(argument: _csi_v0_NodeGetCapabilitiesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  NodeGetCapabilities(argument: _csi_v0_NodeGetCapabilitiesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_NodeGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  NodeGetCapabilities(argument: _csi_v0_NodeGetCapabilitiesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  NodeGetCapabilities(argument: _csi_v0_NodeGetCapabilitiesRequest, callback: grpc.requestCallback<_csi_v0_NodeGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  nodeGetCapabilities(argument: _csi_v0_NodeGetCapabilitiesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  nodeGetCapabilities(argument: _csi_v0_NodeGetCapabilitiesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_NodeGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  nodeGetCapabilities(argument: _csi_v0_NodeGetCapabilitiesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  nodeGetCapabilities(argument: _csi_v0_NodeGetCapabilitiesRequest, callback: grpc.requestCallback<_csi_v0_NodeGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  
  NodeGetId(argument: _csi_v0_NodeGetIdRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeGetIdResponse__Output>): grpc.ClientUnaryCall;
  NodeGetId(argument: _csi_v0_NodeGetIdRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_NodeGetIdResponse__Output>): grpc.ClientUnaryCall;
  NodeGetId(argument: _csi_v0_NodeGetIdRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeGetIdResponse__Output>): grpc.ClientUnaryCall;
  NodeGetId(argument: _csi_v0_NodeGetIdRequest, callback: grpc.requestCallback<_csi_v0_NodeGetIdResponse__Output>): grpc.ClientUnaryCall;
  nodeGetId(argument: _csi_v0_NodeGetIdRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeGetIdResponse__Output>): grpc.ClientUnaryCall;
  nodeGetId(argument: _csi_v0_NodeGetIdRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_NodeGetIdResponse__Output>): grpc.ClientUnaryCall;
  nodeGetId(argument: _csi_v0_NodeGetIdRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeGetIdResponse__Output>): grpc.ClientUnaryCall;
  nodeGetId(argument: _csi_v0_NodeGetIdRequest, callback: grpc.requestCallback<_csi_v0_NodeGetIdResponse__Output>): grpc.ClientUnaryCall;
  
  NodeGetInfo(argument: _csi_v0_NodeGetInfoRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeGetInfoResponse__Output>): grpc.ClientUnaryCall;
  NodeGetInfo(argument: _csi_v0_NodeGetInfoRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_NodeGetInfoResponse__Output>): grpc.ClientUnaryCall;
  NodeGetInfo(argument: _csi_v0_NodeGetInfoRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeGetInfoResponse__Output>): grpc.ClientUnaryCall;
  NodeGetInfo(argument: _csi_v0_NodeGetInfoRequest, callback: grpc.requestCallback<_csi_v0_NodeGetInfoResponse__Output>): grpc.ClientUnaryCall;
  nodeGetInfo(argument: _csi_v0_NodeGetInfoRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeGetInfoResponse__Output>): grpc.ClientUnaryCall;
  nodeGetInfo(argument: _csi_v0_NodeGetInfoRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_NodeGetInfoResponse__Output>): grpc.ClientUnaryCall;
  nodeGetInfo(argument: _csi_v0_NodeGetInfoRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeGetInfoResponse__Output>): grpc.ClientUnaryCall;
  nodeGetInfo(argument: _csi_v0_NodeGetInfoRequest, callback: grpc.requestCallback<_csi_v0_NodeGetInfoResponse__Output>): grpc.ClientUnaryCall;
  
  NodePublishVolume(argument: _csi_v0_NodePublishVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodePublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodePublishVolume(argument: _csi_v0_NodePublishVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_NodePublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodePublishVolume(argument: _csi_v0_NodePublishVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodePublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodePublishVolume(argument: _csi_v0_NodePublishVolumeRequest, callback: grpc.requestCallback<_csi_v0_NodePublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodePublishVolume(argument: _csi_v0_NodePublishVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodePublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodePublishVolume(argument: _csi_v0_NodePublishVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_NodePublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodePublishVolume(argument: _csi_v0_NodePublishVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodePublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodePublishVolume(argument: _csi_v0_NodePublishVolumeRequest, callback: grpc.requestCallback<_csi_v0_NodePublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  
  NodeStageVolume(argument: _csi_v0_NodeStageVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeStageVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodeStageVolume(argument: _csi_v0_NodeStageVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_NodeStageVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodeStageVolume(argument: _csi_v0_NodeStageVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeStageVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodeStageVolume(argument: _csi_v0_NodeStageVolumeRequest, callback: grpc.requestCallback<_csi_v0_NodeStageVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodeStageVolume(argument: _csi_v0_NodeStageVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeStageVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodeStageVolume(argument: _csi_v0_NodeStageVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_NodeStageVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodeStageVolume(argument: _csi_v0_NodeStageVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeStageVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodeStageVolume(argument: _csi_v0_NodeStageVolumeRequest, callback: grpc.requestCallback<_csi_v0_NodeStageVolumeResponse__Output>): grpc.ClientUnaryCall;
  
  NodeUnpublishVolume(argument: _csi_v0_NodeUnpublishVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodeUnpublishVolume(argument: _csi_v0_NodeUnpublishVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_NodeUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodeUnpublishVolume(argument: _csi_v0_NodeUnpublishVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodeUnpublishVolume(argument: _csi_v0_NodeUnpublishVolumeRequest, callback: grpc.requestCallback<_csi_v0_NodeUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodeUnpublishVolume(argument: _csi_v0_NodeUnpublishVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodeUnpublishVolume(argument: _csi_v0_NodeUnpublishVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_NodeUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodeUnpublishVolume(argument: _csi_v0_NodeUnpublishVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodeUnpublishVolume(argument: _csi_v0_NodeUnpublishVolumeRequest, callback: grpc.requestCallback<_csi_v0_NodeUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  
  NodeUnstageVolume(argument: _csi_v0_NodeUnstageVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeUnstageVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodeUnstageVolume(argument: _csi_v0_NodeUnstageVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_NodeUnstageVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodeUnstageVolume(argument: _csi_v0_NodeUnstageVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeUnstageVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodeUnstageVolume(argument: _csi_v0_NodeUnstageVolumeRequest, callback: grpc.requestCallback<_csi_v0_NodeUnstageVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodeUnstageVolume(argument: _csi_v0_NodeUnstageVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeUnstageVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodeUnstageVolume(argument: _csi_v0_NodeUnstageVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_NodeUnstageVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodeUnstageVolume(argument: _csi_v0_NodeUnstageVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_NodeUnstageVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodeUnstageVolume(argument: _csi_v0_NodeUnstageVolumeRequest, callback: grpc.requestCallback<_csi_v0_NodeUnstageVolumeResponse__Output>): grpc.ClientUnaryCall;
  
}

export interface NodeHandlers extends grpc.UntypedServiceImplementation {
  NodeGetCapabilities: grpc.handleUnaryCall<_csi_v0_NodeGetCapabilitiesRequest__Output, _csi_v0_NodeGetCapabilitiesResponse>;
  
  NodeGetId: grpc.handleUnaryCall<_csi_v0_NodeGetIdRequest__Output, _csi_v0_NodeGetIdResponse>;
  
  NodeGetInfo: grpc.handleUnaryCall<_csi_v0_NodeGetInfoRequest__Output, _csi_v0_NodeGetInfoResponse>;
  
  NodePublishVolume: grpc.handleUnaryCall<_csi_v0_NodePublishVolumeRequest__Output, _csi_v0_NodePublishVolumeResponse>;
  
  NodeStageVolume: grpc.handleUnaryCall<_csi_v0_NodeStageVolumeRequest__Output, _csi_v0_NodeStageVolumeResponse>;
  
  NodeUnpublishVolume: grpc.handleUnaryCall<_csi_v0_NodeUnpublishVolumeRequest__Output, _csi_v0_NodeUnpublishVolumeResponse>;
  
  NodeUnstageVolume: grpc.handleUnaryCall<_csi_v0_NodeUnstageVolumeRequest__Output, _csi_v0_NodeUnstageVolumeResponse>;
  
}

export interface NodeDefinition extends grpc.ServiceDefinition {
  NodeGetCapabilities: MethodDefinition<_csi_v0_NodeGetCapabilitiesRequest, _csi_v0_NodeGetCapabilitiesResponse, _csi_v0_NodeGetCapabilitiesRequest__Output, _csi_v0_NodeGetCapabilitiesResponse__Output>
  NodeGetId: MethodDefinition<_csi_v0_NodeGetIdRequest, _csi_v0_NodeGetIdResponse, _csi_v0_NodeGetIdRequest__Output, _csi_v0_NodeGetIdResponse__Output>
  NodeGetInfo: MethodDefinition<_csi_v0_NodeGetInfoRequest, _csi_v0_NodeGetInfoResponse, _csi_v0_NodeGetInfoRequest__Output, _csi_v0_NodeGetInfoResponse__Output>
  NodePublishVolume: MethodDefinition<_csi_v0_NodePublishVolumeRequest, _csi_v0_NodePublishVolumeResponse, _csi_v0_NodePublishVolumeRequest__Output, _csi_v0_NodePublishVolumeResponse__Output>
  NodeStageVolume: MethodDefinition<_csi_v0_NodeStageVolumeRequest, _csi_v0_NodeStageVolumeResponse, _csi_v0_NodeStageVolumeRequest__Output, _csi_v0_NodeStageVolumeResponse__Output>
  NodeUnpublishVolume: MethodDefinition<_csi_v0_NodeUnpublishVolumeRequest, _csi_v0_NodeUnpublishVolumeResponse, _csi_v0_NodeUnpublishVolumeRequest__Output, _csi_v0_NodeUnpublishVolumeResponse__Output>
  NodeUnstageVolume: MethodDefinition<_csi_v0_NodeUnstageVolumeRequest, _csi_v0_NodeUnstageVolumeResponse, _csi_v0_NodeUnstageVolumeRequest__Output, _csi_v0_NodeUnstageVolumeResponse__Output>
}
