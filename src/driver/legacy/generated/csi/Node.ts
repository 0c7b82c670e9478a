// Original file: proto/csi-v0.1.proto

import type * as grpc from '@grpc/grpc-js'
import type { MethodDefinition } from '@grpc/proto-loader'
import type { GetNodeIDRequest as _csi_GetNodeIDRequest, GetNodeIDRequest__Output as _csi_GetNodeIDRequest__Output } from './GetNodeIDRequest.js';
import type { GetNodeIDResponse as _csi_GetNodeIDResponse, GetNodeIDResponse__Output as _csi_GetNodeIDResponse__Output } from './GetNodeIDResponse.js';
import type { NodeGetCapabilitiesRequest as _csi_NodeGetCapabilitiesRequest, NodeGetCapabilitiesRequest__Output as _csi_NodeGetCapabilitiesRequest__Output } from './NodeGetCapabilitiesRequest.js';
import type { NodeGetCapabilitiesResponse as _csi_NodeGetCapabilitiesResponse, NodeGetCapabilitiesResponse__Output as _csi_NodeGetCapabilitiesResponse__Output } from './NodeGetCapabilitiesResponse.js';
import type { NodeProbeRequest as _csi_NodeProbeRequest, NodeProbeRequest__Output as _csi_NodeProbeRequest__Output } from './NodeProbeRequest.js';
import type { NodeProbeResponse as _csi_NodeProbeResponse, NodeProbeResponse__Output as _csi_NodeProbeResponse__Output } from './NodeProbeResponse.js';
import type { NodePublishVolumeRequest as _csi_NodePublishVolumeRequest, NodePublishVolumeRequest__Output as _csi_NodePublishVolumeRequest__Output } from './NodePublishVolumeRequest.js';
import type { NodePublishVolumeResponse as _csi_NodePublishVolumeResponse, NodePublishVolumeResponse__Output as _csi_NodePublishVolumeResponse__Output } from './NodePublishVolumeResponse.js';
import type { NodeUnpublishVolumeRequest as _csi_NodeUnpublishVolumeRequest, NodeUnpublishVolumeRequest__Output as _csi_NodeUnpublishVolumeRequest__Output } from './NodeUnpublishVolumeRequest.js';
import type { NodeUnpublishVolumeResponse as _csi_NodeUnpublishVolumeResponse, NodeUnpublishVolumeResponse__Output as _csi_NodeUnpublishVolumeResponse__Output } from './NodeUnpublishVolumeResponse.js';

export interface NodeClient extends grpc.Client {
  GetNodeID(argument: _csi_GetNodeIDRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_GetNodeIDResponse__Output>): grpc.ClientUnaryCall;
  GetNodeID(argument: _csi_GetNodeIDRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_GetNodeIDResponse__Output>): grpc.ClientUnaryCall;
  GetNodeID(argument: _csi_GetNodeIDRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_GetNodeIDResponse__Output>): grpc.ClientUnaryCall;
  GetNodeID(argument: _csi_GetNodeIDRequest, callback: grpc.requestCallback<_csi_GetNodeIDResponse__Output>): grpc.ClientUnaryCall;
  getNodeId(argument: _csi_GetNodeIDRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_GetNodeIDResponse__Output>): grpc.ClientUnaryCall;
  getNodeId(argument: _csi_GetNodeIDRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_GetNodeIDResponse__Output>): grpc.ClientUnaryCall;
  getNodeId(argument: _csi_GetNodeIDRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_GetNodeIDResponse__Output>): grpc.ClientUnaryCall;
  getNodeId(argument: _csi_GetNodeIDRequest, callback: grpc.requestCallback<_csi_GetNodeIDResponse__Output>): grpc.ClientUnaryCall;
  
  NodeGetCapabilities(argument: _csi_NodeGetCapabilitiesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_NodeGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  NodeGetCapabilities(argument: _csi_NodeGetCapabilitiesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_NodeGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  NodeGetCapabilities(argument: _csi_NodeGetCapabilitiesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_NodeGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  NodeGetCapabilities(argument: _csi_NodeGetCapabilitiesRequest, callback: grpc.requestCallback<_csi_NodeGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  nodeGetCapabilities(argument: _csi_NodeGetCapabilitiesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_NodeGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  nodeGetCapabilities(argument: _csi_NodeGetCapabilitiesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_NodeGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  nodeGetCapabilities(argument: _csi_NodeGetCapabilitiesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_NodeGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  nodeGetCapabilities(argument: _csi_NodeGetCapabilitiesRequest, callback: grpc.requestCallback<_csi_NodeGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  
  NodeProbe(argument: _csi_NodeProbeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_NodeProbeResponse__Output>): grpc.ClientUnaryCall;
  NodeProbe(argument: _csi_NodeProbeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_NodeProbeResponse__Output>): grpc.ClientUnaryCall;
  NodeProbe(argument: _csi_NodeProbeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_NodeProbeResponse__Output>): grpc.ClientUnaryCall;
  NodeProbe(argument: _csi_NodeProbeRequest, callback: grpc.requestCallback<_csi_NodeProbeResponse__Output>): grpc.ClientUnaryCall;
  nodeProbe(argument: _csi_NodeProbeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_NodeProbeResponse__Output>): grpc.ClientUnaryCall;
  nodeProbe(argument: _csi_NodeProbeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_NodeProbeResponse__Output>): grpc.ClientUnaryCall;
  nodeProbe(argument: _csi_NodeProbeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_NodeProbeResponse__Output>): grpc.ClientUnaryCall;
  nodeProbe(argument: _csi_NodeProbeRequest, callback: grpc.requestCallback<_csi_NodeProbeResponse__Output>): grpc.ClientUnaryCall;
  
  NodePublishVolume(argument: _csi_NodePublishVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_NodePublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodePublishVolume(argument: _csi_NodePublishVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_NodePublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodePublishVolume(argument: _csi_NodePublishVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_NodePublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodePublishVolume(argument: _csi_NodePublishVolumeRequest, callback: grpc.requestCallback<_csi_NodePublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodePublishVolume(argument: _csi_NodePublishVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_NodePublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodePublishVolume(argument: _csi_NodePublishVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_NodePublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodePublishVolume(argument: _csi_NodePublishVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_NodePublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodePublishVolume(argument: _csi_NodePublishVolumeRequest, callback: grpc.requestCallback<_csi_NodePublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  
  NodeUnpublishVolume(argument: _csi_NodeUnpublishVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_NodeUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodeUnpublishVolume(argument: _csi_NodeUnpublishVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_NodeUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodeUnpublishVolume(argument: _csi_NodeUnpublishVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_NodeUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  NodeUnpublishVolume(argument: _csi_NodeUnpublishVolumeRequest, callback: grpc.requestCallback<_csi_NodeUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodeUnpublishVolume(argument: _csi_NodeUnpublishVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_NodeUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodeUnpublishVolume(argument: _csi_NodeUnpublishVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_NodeUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodeUnpublishVolume(argument: _csi_NodeUnpublishVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_NodeUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  nodeUnpublishVolume(argument: _csi_NodeUnpublishVolumeRequest, callback: grpc.requestCallback<_csi_NodeUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  
}

export interface NodeHandlers extends grpc.UntypedServiceImplementation {
  GetNodeID: grpc.handleUnaryCall<_csi_GetNodeIDRequest__Output, _csi_GetNodeIDResponse>;
  
  NodeGetCapabilities: grpc.handleUnaryCall<_csi_NodeGetCapabilitiesRequest__Output, _csi_NodeGetCapabilitiesResponse>;
  
  NodeProbe: grpc.handleUnaryCall<_csi_NodeProbeRequest__Output, _csi_NodeProbeResponse>;
  
  NodePublishVolume: grpc.handleUnaryCall<_csi_NodePublishVolumeRequest__Output, _csi_NodePublishVolumeResponse>;
  
  NodeUnpublishVolume: grpc.handleUnaryCall<_csi_NodeUnpublishVolumeRequest__Output, _csi_NodeUnpublishVolumeResponse>;
  
}

export interface NodeDefinition extends grpc.ServiceDefinition {
  GetNodeID: MethodDefinition<_csi_GetNodeIDRequest, _csi_GetNodeIDResponse, _csi_GetNodeIDRequest__Output, _csi_GetNodeIDResponse__Output>
  NodeGetCapabilities: MethodDefinition<_csi_NodeGetCapabilitiesRequest, _csi_NodeGetCapabilitiesResponse, _csi_NodeGetCapabilitiesRequest__Output, _csi_NodeGetCapabilitiesResponse__Output>
  NodeProbe: MethodDefinition<_csi_NodeProbeRequest, _csi_NodeProbeResponse, _csi_NodeProbeRequest__Output, _csi_NodeProbeResponse__Output>
  NodePublishVolume: MethodDefinition<_csi_NodePublishVolumeRequest, _csi_NodePublishVolumeResponse, _csi_NodePublishVolumeRequest__Output, _csi_NodePublishVolumeResponse__Output>
  NodeUnpublishVolume: MethodDefinition<_csi_NodeUnpublishVolumeRequest, _csi_NodeUnpublishVolumeResponse, _csi_NodeUnpublishVolumeRequest__Output, _csi_NodeUnpublishVolumeResponse__Output>
}
