// Original file: proto/csi-v0.3.proto

import type * as grpc from '@grpc/grpc-js'
import type { MethodDefinition } from '@grpc/proto-loader'
import type { GetPluginCapabilitiesRequest as _csi_v0_GetPluginCapabilitiesRequest, GetPluginCapabilitiesRequest__Output as _csi_v0_GetPluginCapabilitiesRequest__Output } from './GetPluginCapabilitiesRequest.js';
import type { GetPluginCapabilitiesResponse as _csi_v0_GetPluginCapabilitiesResponse, GetPluginCapabilitiesResponse__Output as _csi_v0_GetPluginCapabilitiesResponse__Output } from './GetPluginCapabilitiesResponse.js';
import type { GetPluginInfoRequest as _csi_v0_GetPluginInfoRequest, GetPluginInfoRequest__Output as _csi_v0_GetPluginInfoRequest__Output } from './GetPluginInfoRequest.js';
import type { GetPluginInfoResponse as _csi_v0_GetPluginInfoResponse, GetPluginInfoResponse__Output as _csi_v0_GetPluginInfoResponse__Output } from './GetPluginInfoResponse.js';
import type { ProbeRequest as _csi_v0_ProbeRequest, ProbeRequest__Output as _csi_v0_ProbeRequest__Output } from './ProbeRequest.js';
import type { ProbeResponse as _csi_v0_ProbeResponse, ProbeResponse__Output as _csi_v0_ProbeResponse__Output } from './ProbeResponse.js';

export interface IdentityClient extends grpc.Client {
  GetPluginCapabilities(argument: _csi_v0_GetPluginCapabilitiesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_GetPluginCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  GetPluginCapabilities(argument: _csi_v0_GetPluginCapabilitiesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_GetPluginCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  GetPluginCapabilities(argument: _csi_v0_GetPluginCapabilitiesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_GetPluginCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  GetPluginCapabilities(argument: _csi_v0_GetPluginCapabilitiesRequest, callback: grpc.requestCallback<_csi_v0_GetPluginCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  getPluginCapabilities(argument: _csi_v0_GetPluginCapabilitiesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_GetPluginCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  getPluginCapabilities(argument: _csi_v0_GetPluginCapabilitiesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_GetPluginCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  getPluginCapabilities(argument: _csi_v0_GetPluginCapabilitiesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_GetPluginCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  getPluginCapabilities(argument: _csi_v0_GetPluginCapabilitiesRequest, callback: grpc.requestCallback<_csi_v0_GetPluginCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  
  GetPluginInfo(argument: _csi_v0_GetPluginInfoRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_GetPluginInfoResponse__Output>): grpc.ClientUnaryCall;
  GetPluginInfo(argument: _csi_v0_GetPluginInfoRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_GetPluginInfoResponse__Output>): grpc.ClientUnaryCall;
  GetPluginInfo(argument: _csi_v0_GetPluginInfoRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_GetPluginInfoResponse__Output>): grpc.ClientUnaryCall;
  GetPluginInfo(argument: _csi_v0_GetPluginInfoRequest, callback: grpc.requestCallback<_csi_v0_GetPluginInfoResponse__Output>): grpc.ClientUnaryCall;
  getPluginInfo(argument: _csi_v0_GetPluginInfoRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_GetPluginInfoResponse__Output>): grpc.ClientUnaryCall;
  getPluginInfo(argument: _csi_v0_GetPluginInfoRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_GetPluginInfoResponse__Output>): grpc.ClientUnaryCall;
  getPluginInfo(argument: _csi_v0_GetPluginInfoRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_GetPluginInfoResponse__Output>): grpc.ClientUnaryCall;
  getPluginInfo(argument: _csi_v0_GetPluginInfoRequest, callback: grpc.requestCallback<_csi_v0_GetPluginInfoResponse__Output>): grpc.ClientUnaryCall;
  
  Probe(argument: _csi_v0_ProbeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ProbeResponse__Output>): grpc.ClientUnaryCall;
  Probe(argument: _csi_v0_ProbeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_ProbeResponse__Output>): grpc.ClientUnaryCall;
  Probe(argument: _csi_v0_ProbeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ProbeResponse__Output>): grpc.ClientUnaryCall;
  Probe(argument: _csi_v0_ProbeRequest, callback: grpc.requestCallback<_csi_v0_ProbeResponse__Output>): grpc.ClientUnaryCall;
  probe(argument: _csi_v0_ProbeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ProbeResponse__Output>): grpc.ClientUnaryCall;
  probe(argument: _csi_v0_ProbeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_ProbeResponse__Output>): grpc.ClientUnaryCall;
  probe(argument: _csi_v0_ProbeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ProbeResponse__Output>): grpc.ClientUnaryCall;
  probe(argument: _csi_v0_ProbeRequest, callback: grpc.requestCallback<_csi_v0_ProbeResponse__Output>): grpc.ClientUnaryCall;
  
}

export interface IdentityHandlers extends grpc.UntypedServiceImplementation {
  GetPluginCapabilities: grpc.handleUnaryCall<_csi_v0_GetPluginCapabilitiesRequest__Output, _csi_v0_GetPluginCapabilitiesResponse>;
  
  GetPluginInfo: grpc.handleUnaryCall<_csi_v0_GetPluginInfoRequest__Output, _csi_v0_GetPluginInfoResponse>;
  
  Probe: grpc.handleUnaryCall<_csi_v0_ProbeRequest__Output, _csi_v0_ProbeResponse>;
  
}

export interface IdentityDefinition extends grpc.ServiceDefinition {
  GetPluginCapabilities: MethodDefinition<_csi_v0_GetPluginCapabilitiesRequest, _csi_v0_GetPluginCapabilitiesResponse, _csi_v0_GetPluginCapabilitiesRequest__Output, _csi_v0_GetPluginCapabilitiesResponse__Output>
  GetPluginInfo: MethodDefinition<_csi_v0_GetPluginInfoRequest, _csi_v0_GetPluginInfoResponse, _csi_v0_GetPluginInfoRequest__Output, _csi_v0_GetPluginInfoResponse__Output>
  Probe: MethodDefinition<_csi_v0_ProbeRequest, _csi_v0_ProbeResponse, _csi_v0_ProbeRequest__Output, _csi_v0_ProbeResponse__Output>
}
