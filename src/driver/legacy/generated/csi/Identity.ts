// Original file: proto/csi-v0.1.proto

import type * as grpc from '@grpc/grpc-js'
import type { MethodDefinition } from '@grpc/proto-loader'
import type { GetPluginInfoRequest as _csi_GetPluginInfoRequest, GetPluginInfoRequest__Output as _csi_GetPluginInfoRequest__Output } from './GetPluginInfoRequest.js';
import type { GetPluginInfoResponse as _csi_GetPluginInfoResponse, GetPluginInfoResponse__Output as _csi_GetPluginInfoResponse__Output } from './GetPluginInfoResponse.js';
import type { GetSupportedVersionsRequest as _csi_GetSupportedVersionsRequest, GetSupportedVersionsRequest__Output as _csi_GetSupportedVersionsRequest__Output } from './GetSupportedVersionsRequest.js';
import type { GetSupportedVersionsResponse as _csi_GetSupportedVersionsResponse, GetSupportedVersionsResponse__Output as _csi_GetSupportedVersionsResponse__Output } from './GetSupportedVersionsResponse.js';

export interface IdentityClient extends grpc.Client {
  GetPluginInfo(argument: _csi_GetPluginInfoRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_GetPluginInfoResponse__Output>): grpc.ClientUnaryCall;
  GetPluginInfo(argument: _csi_GetPluginInfoRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_GetPluginInfoResponse__Output>): grpc.ClientUnaryCall;
  GetPluginInfo(argument: _csi_GetPluginInfoRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_GetPluginInfoResponse__Output>): grpc.ClientUnaryCall;
  GetPluginInfo(argument: _csi_GetPluginInfoRequest, callback: grpc.requestCallback<_csi_GetPluginInfoResponse__Output>): grpc.ClientUnaryCall;
  getPluginInfo(argument: _csi_GetPluginInfoRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_GetPluginInfoResponse__Output>): grpc.ClientUnaryCall;
  getPluginInfo(argument: _csi_GetPluginInfoRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_GetPluginInfoResponse__Output>): grpc.ClientUnaryCall;
  getPluginInfo(argument: _csi_GetPluginInfoRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_GetPluginInfoResponse__Output>): grpc.ClientUnaryCall;
  getPluginInfo(argument: _csi_GetPluginInfoRequest, callback: grpc.requestCallback<_csi_GetPluginInfoResponse__Output>): grpc.ClientUnaryCall;
  
  GetSupportedVersions(argument: _csi_GetSupportedVersionsRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_GetSupportedVersionsResponse__Output>): grpc.ClientUnaryCall;
  GetSupportedVersions(argument: _csi_GetSupportedVersionsRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_GetSupportedVersionsResponse__Output>): grpc.ClientUnaryCall;
  GetSupportedVersions(argument: _csi_GetSupportedVersionsRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_GetSupportedVersionsResponse__Output>): grpc.ClientUnaryCall;
  GetSupportedVersions(argument: _csi_GetSupportedVersionsRequest, callback: grpc.requestCallback<_csi_GetSupportedVersionsResponse__Output>): grpc.ClientUnaryCall;
  getSupportedVersions(argument: _csi_GetSupportedVersionsRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_GetSupportedVersionsResponse__Output>): grpc.ClientUnaryCall;
  getSupportedVersions(argument: _csi_GetSupportedVersionsRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_GetSupportedVersionsResponse__Output>): grpc.ClientUnaryCall;
  getSupportedVersions(argument: _csi_GetSupportedVersionsRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_GetSupportedVersionsResponse__Output>): grpc.ClientUnaryCall;
  getSupportedVersions(argument: _csi_GetSupportedVersionsRequest, callback: grpc.requestCallback<_csi_GetSupportedVersionsResponse__Output>): grpc.ClientUnaryCall;
  
}

export interface IdentityHandlers extends grpc.UntypedServiceImplementation {
  GetPluginInfo: grpc.handleUnaryCall<_csi_GetPluginInfoRequest__Output, _csi_GetPluginInfoResponse>;
  
  GetSupportedVersions: grpc.handleUnaryCall<_csi_GetSupportedVersionsRequest__Output, _csi_GetSupportedVersionsResponse>;
  
}

export interface IdentityDefinition extends grpc.ServiceDefinition {
  GetPluginInfo: MethodDefinition<_csi_GetPluginInfoRequest, _csi_GetPluginInfoResponse, _csi_GetPluginInfoRequest__Output, _csi_GetPluginInfoResponse__Output>
  GetSupportedVersions: MethodDefinition<_csi_GetSupportedVersionsRequest, _csi_GetSupportedVersionsResponse, _csi_GetSupportedVersionsRequest__Output, _csi_GetSupportedVersionsResponse__Output>
}
