// Original file: proto/csi-v0.1.proto

import type * as grpc from '@grpc/grpc-js'
import type { MethodDefinition } from '@grpc/proto-loader'
import type { ControllerGetCapabilitiesRequest as _csi_ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesRequest__Output as _csi_ControllerGetCapabilitiesRequest__Output } from './ControllerGetCapabilitiesRequest.js';
import type { ControllerGetCapabilitiesResponse as _csi_ControllerGetCapabilitiesResponse, ControllerGetCapabilitiesResponse__Output as _csi_ControllerGetCapabilitiesResponse__Output } from './ControllerGetCapabilitiesResponse.js';
import type { ControllerProbeRequest as _csi_ControllerProbeRequest, ControllerProbeRequest__Output as _csi_ControllerProbeRequest__Output } from './ControllerProbeRequest.js';
import type { ControllerProbeResponse as _csi_ControllerProbeResponse, ControllerProbeResponse__Output as _csi_ControllerProbeResponse__Output } from './ControllerProbeResponse.js';
import type { ControllerPublishVolumeRequest as _csi_ControllerPublishVolumeRequest, ControllerPublishVolumeRequest__Output as _csi_ControllerPublishVolumeRequest__Output } from './ControllerPublishVolumeRequest.js';
import type { ControllerPublishVolumeResponse as _csi_ControllerPublishVolumeResponse, ControllerPublishVolumeResponse__Output as _csi_ControllerPublishVolumeResponse__Output } from './ControllerPublishVolumeResponse.js';
import type { ControllerUnpublishVolumeRequest as _csi_ControllerUnpublishVolumeRequest, ControllerUnpublishVolumeRequest__Output as _csi_ControllerUnpublishVolumeRequest__Output } from './ControllerUnpublishVolumeRequest.js';
import type { ControllerUnpublishVolumeResponse as _csi_ControllerUnpublishVolumeResponse, ControllerUnpublishVolumeResponse__Output as _csi_ControllerUnpublishVolumeResponse__Output } from './ControllerUnpublishVolumeResponse.js';
import type { CreateVolumeRequest as _csi_CreateVolumeRequest, CreateVolumeRequest__Output as _csi_CreateVolumeRequest__Output } from './CreateVolumeRequest.js';
import type { CreateVolumeResponse as _csi_CreateVolumeResponse, CreateVolumeResponse__Output as _csi_CreateVolumeResponse__Output } from './CreateVolumeResponse.js';
import type { DeleteVolumeRequest as _csi_DeleteVolumeRequest, DeleteVolumeRequest__Output as _csi_DeleteVolumeRequest__Output } from './DeleteVolumeRequest.js';
import type { DeleteVolumeResponse as _csi_DeleteVolumeResponse, DeleteVolumeResponse__Output as _csi_DeleteVolumeResponse__Output } from './DeleteVolumeResponse.js';
import type { GetCapacityRequest as _csi_GetCapacityRequest, GetCapacityRequest__Output as _csi_GetCapacityRequest__Output } from './GetCapacityRequest.js';
import type { GetCapacityResponse as _csi_GetCapacityResponse, GetCapacityResponse__Output as _csi_GetCapacityResponse__Output } from './GetCapacityResponse.js';
import type { ListVolumesRequest as _csi_ListVolumesRequest, ListVolumesRequest__Output as _csi_ListVolumesRequest__Output } from './ListVolumesRequest.js';
import type { ListVolumesResponse as _csi_ListVolumesResponse, ListVolumesResponse__Output as _csi_ListVolumesResponse__Output } from './ListVolumesResponse.js';
import type { ValidateVolumeCapabilitiesRequest as _csi_ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesRequest__Output as _csi_ValidateVolumeCapabilitiesRequest__Output } from './ValidateVolumeCapabilitiesRequest.js';
import type { ValidateVolumeCapabilitiesResponse as _csi_ValidateVolumeCapabilitiesResponse, ValidateVolumeCapabilitiesResponse__Output as _csi_ValidateVolumeCapabilitiesResponse__Output } from './ValidateVolumeCapabilitiesResponse.js';

export interface ControllerClient extends grpc.Client {
  ControllerGetCapabilities(argument: _csi_ControllerGetCapabilitiesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ControllerGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  ControllerGetCapabilities(argument: _csi_ControllerGetCapabilitiesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_ControllerGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  ControllerGetCapabilities(argument: _csi_ControllerGetCapabilitiesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ControllerGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  ControllerGetCapabilities(argument: _csi_ControllerGetCapabilitiesRequest, callback: grpc.requestCallback<_csi_ControllerGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  controllerGetCapabilities(argument: _csi_ControllerGetCapabilitiesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ControllerGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  controllerGetCapabilities(argument: _csi_ControllerGetCapabilitiesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_ControllerGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  controllerGetCapabilities(argument: _csi_ControllerGetCapabilitiesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ControllerGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  controllerGetCapabilities(argument: _csi_ControllerGetCapabilitiesRequest, callback: grpc.requestCallback<_csi_ControllerGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  
  ControllerProbe(argument: _csi_ControllerProbeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ControllerProbeResponse__Output>): grpc.ClientUnaryCall;
  ControllerProbe(argument: _csi_ControllerProbeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_ControllerProbeResponse__Output>): grpc.ClientUnaryCall;
  ControllerProbe(argument: _csi_ControllerProbeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ControllerProbeResponse__Output>): grpc.ClientUnaryCall;
  ControllerProbe(argument: _csi_ControllerProbeRequest, callback: grpc.requestCallback<_csi_ControllerProbeResponse__Output>): grpc.ClientUnaryCall;
  controllerProbe(argument: _csi_ControllerProbeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ControllerProbeResponse__Output>): grpc.ClientUnaryCall;
  controllerProbe(argument: _csi_ControllerProbeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_ControllerProbeResponse__Output>): grpc.ClientUnaryCall;
  controllerProbe(argument: _csi_ControllerProbeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ControllerProbeResponse__Output>): grpc.ClientUnaryCall;
  controllerProbe(argument: _csi_ControllerProbeRequest, callback: grpc.requestCallback<_csi_ControllerProbeResponse__Output>): grpc.ClientUnaryCall;
  
  ControllerPublishVolume(argument: _csi_ControllerPublishVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ControllerPublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  ControllerPublishVolume(argument: _csi_ControllerPublishVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_ControllerPublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  ControllerPublishVolume(argument: _csi_ControllerPublishVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ControllerPublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  ControllerPublishVolume(argument: _csi_ControllerPublishVolumeRequest, callback: grpc.requestCallback<_csi_ControllerPublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  controllerPublishVolume(argument: _csi_ControllerPublishVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ControllerPublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  controllerPublishVolume(argument: _csi_ControllerPublishVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_ControllerPublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  controllerPublishVolume(argument: _csi_ControllerPublishVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ControllerPublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  controllerPublishVolume(argument: _csi_ControllerPublishVolumeRequest, callback: grpc.requestCallback<_csi_ControllerPublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  
  ControllerUnpublishVolume(argument: _csi_ControllerUnpublishVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ControllerUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  ControllerUnpublishVolume(argument: _csi_ControllerUnpublishVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_ControllerUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  ControllerUnpublishVolume(argument: _csi_ControllerUnpublishVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ControllerUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  ControllerUnpublishVolume(argument: _csi_ControllerUnpublishVolumeRequest, callback: grpc.requestCallback<_csi_ControllerUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  controllerUnpublishVolume(argument: _csi_ControllerUnpublishVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ControllerUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  controllerUnpublishVolume(argument: _csi_ControllerUnpublishVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_ControllerUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  controllerUnpublishVolume(argument: _csi_ControllerUnpublishVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ControllerUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  controllerUnpublishVolume(argument: _csi_ControllerUnpublishVolumeRequest, callback: grpc.requestCallback<_csi_ControllerUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  
  CreateVolume(argument: _csi_CreateVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_CreateVolumeResponse__Output>): grpc.ClientUnaryCall;
  CreateVolume(argument: _csi_CreateVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_CreateVolumeResponse__Output>): grpc.ClientUnaryCall;
  CreateVolume(argument: _csi_CreateVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_CreateVolumeResponse__Output>): grpc.ClientUnaryCall;
  CreateVolume(argument: _csi_CreateVolumeRequest, callback: grpc.requestCallback<_csi_CreateVolumeResponse__Output>): grpc.ClientUnaryCall;
  createVolume(argument: _csi_CreateVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_CreateVolumeResponse__Output>): grpc.ClientUnaryCall;
  createVolume(argument: _csi_CreateVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_CreateVolumeResponse__Output>): grpc.ClientUnaryCall;
  createVolume(argument: _csi_CreateVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_CreateVolumeResponse__Output>): grpc.ClientUnaryCall;
  createVolume(argument: _csi_CreateVolumeRequest, callback: grpc.requestCallback<_csi_CreateVolumeResponse__Output>): grpc.ClientUnaryCall;
  
  DeleteVolume(argument: _csi_DeleteVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_DeleteVolumeResponse__Output>): grpc.ClientUnaryCall;
  DeleteVolume(argument: _csi_DeleteVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_DeleteVolumeResponse__Output>): grpc.ClientUnaryCall;
  DeleteVolume(argument: _csi_DeleteVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_DeleteVolumeResponse__Output>): grpc.ClientUnaryCall;
  DeleteVolume(argument: _csi_DeleteVolumeRequest, callback: grpc.requestCallback<_csi_DeleteVolumeResponse__Output>): grpc.ClientUnaryCall;
  deleteVolume(argument: _csi_DeleteVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_DeleteVolumeResponse__Output>): grpc.ClientUnaryCall;
  deleteVolume(argument: _csi_DeleteVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_DeleteVolumeResponse__Output>): grpc.ClientUnaryCall;
  deleteVolume(argument: _csi_DeleteVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_DeleteVolumeResponse__Output>): grpc.ClientUnaryCall;
  deleteVolume(argument: _csi_DeleteVolumeRequest, callback: grpc.requestCallback<_csi_DeleteVolumeResponse__Output>): grpc.ClientUnaryCall;
  
  GetCapacity(argument: _csi_GetCapacityRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_GetCapacityResponse__Output>): grpc.ClientUnaryCall;
  GetCapacity(argument: _csi_GetCapacityRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_GetCapacityResponse__Output>): grpc.ClientUnaryCall;
  GetCapacity(argument: _csi_GetCapacityRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_GetCapacityResponse__Output>): grpc.ClientUnaryCall;
  GetCapacity(argument: _csi_GetCapacityRequest, callback: grpc.requestCallback<_csi_GetCapacityResponse__Output>): grpc.ClientUnaryCall;
  getCapacity(argument: _csi_GetCapacityRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_GetCapacityResponse__Output>): grpc.ClientUnaryCall;
  getCapacity(argument: _csi_GetCapacityRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_GetCapacityResponse__Output>): grpc.ClientUnaryCall;
  getCapacity(argument: _csi_GetCapacityRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_GetCapacityResponse__Output>): grpc.ClientUnaryCall;
  getCapacity(argument: _csi_GetCapacityRequest, callback: grpc.requestCallback<_csi_GetCapacityResponse__Output>): grpc.ClientUnaryCall;
  
  ListVolumes(argument: _csi_ListVolumesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ListVolumesResponse__Output>): grpc.ClientUnaryCall;
  ListVolumes(argument: _csi_ListVolumesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_ListVolumesResponse__Output>): grpc.ClientUnaryCall;
  ListVolumes(argument: _csi_ListVolumesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ListVolumesResponse__Output>): grpc.ClientUnaryCall;
  ListVolumes(argument: _csi_ListVolumesRequest, callback: grpc.requestCallback<_csi_ListVolumesResponse__Output>): grpc.ClientUnaryCall;
  listVolumes(argument: _csi_ListVolumesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ListVolumesResponse__Output>): grpc.ClientUnaryCall;
  listVolumes(argument: _csi_ListVolumesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_ListVolumesResponse__Output>): grpc.ClientUnaryCall;
  listVolumes(argument: _csi_ListVolumesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ListVolumesResponse__Output>): grpc.ClientUnaryCall;
  listVolumes(argument: _csi_ListVolumesRequest, callback: grpc.requestCallback<_csi_ListVolumesResponse__Output>): grpc.ClientUnaryCall;
  
  ValidateVolumeCapabilities(argument: _csi_ValidateVolumeCapabilitiesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ValidateVolumeCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  ValidateVolumeCapabilities(argument: _csi_ValidateVolumeCapabilitiesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_ValidateVolumeCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  ValidateVolumeCapabilities(argument: _csi_ValidateVolumeCapabilitiesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ValidateVolumeCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  ValidateVolumeCapabilities(argument: _csi_ValidateVolumeCapabilitiesRequest, callback: grpc.requestCallback<_csi_ValidateVolumeCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  validateVolumeCapabilities(argument: _csi_ValidateVolumeCapabilitiesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ValidateVolumeCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  validateVolumeCapabilities(argument: _csi_ValidateVolumeCapabilitiesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_ValidateVolumeCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  validateVolumeCapabilities(argument: _csi_ValidateVolumeCapabilitiesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_ValidateVolumeCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  validateVolumeCapabilities(argument: _csi_ValidateVolumeCapabilitiesRequest, callback: grpc.requestCallback<_csi_ValidateVolumeCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  
}

export interface ControllerHandlers extends grpc.UntypedServiceImplementation {
  ControllerGetCapabilities: grpc.handleUnaryCall<_csi_ControllerGetCapabilitiesRequest__Output, _csi_ControllerGetCapabilitiesResponse>;
  
  ControllerProbe: grpc.handleUnaryCall<_csi_ControllerProbeRequest__Output, _csi_ControllerProbeResponse>;
  
  ControllerPublishVolume: grpc.handleUnaryCall<_csi_ControllerPublishVolumeRequest__Output, _csi_ControllerPublishVolumeResponse>;
  
  ControllerUnpublishVolume: grpc.handleUnaryCall<_csi_ControllerUnpublishVolumeRequest__Output, _csi_ControllerUnpublishVolumeResponse>;
  
  CreateVolume: grpc.handleUnaryCall<_csi_CreateVolumeRequest__Output, _csi_CreateVolumeResponse>;
  
  DeleteVolume: grpc.handleUnaryCall<_csi_DeleteVolumeRequest__Output, _csi_DeleteVolumeResponse>;
  
  GetCapacity: grpc.handleUnaryCall<_csi_GetCapacityRequest__Output, _csi_GetCapacityResponse>;
  
  ListVolumes: grpc.handleUnaryCall<_csi_ListVolumesRequest__Output, _csi_ListVolumesResponse>;
  
  ValidateVolumeCapabilities: grpc.handleUnaryCall<_csi_ValidateVolumeCapabilitiesRequest__Output, _csi_ValidateVolumeCapabilitiesResponse>;
  
}

export interface ControllerDefinition extends grpc.ServiceDefinition {
  ControllerGetCapabilities: MethodDefinition<_csi_ControllerGetCapabilitiesRequest, _csi_ControllerGetCapabilitiesResponse, _csi_ControllerGetCapabilitiesRequest__Output, _csi_ControllerGetCapabilitiesResponse__Output>
  ControllerProbe: MethodDefinition<_csi_ControllerProbeRequest, _csi_ControllerProbeResponse, _csi_ControllerProbeRequest__Output, _csi_ControllerProbeResponse__Output>
  ControllerPublishVolume: MethodDefinition<_csi_ControllerPublishVolumeRequest, _csi_ControllerPublishVolumeResponse, _csi_ControllerPublishVolumeRequest__Output, _csi_ControllerPublishVolumeResponse__Output>
  ControllerUnpublishVolume: MethodDefinition<_csi_ControllerUnpublishVolumeRequest, _csi_ControllerUnpublishVolumeResponse, _csi_ControllerUnpublishVolumeRequest__Output, _csi_ControllerUnpublishVolumeResponse__Output>
  CreateVolume: MethodDefinition<_csi_CreateVolumeRequest, _csi_CreateVolumeResponse, _csi_CreateVolumeRequest__Output, _csi_CreateVolumeResponse__Output>
  DeleteVolume: MethodDefinition<_csi_DeleteVolumeRequest, _csi_DeleteVolumeResponse, _csi_DeleteVolumeRequest__Output, _csi_DeleteVolumeResponse__Output>
  GetCapacity: MethodDefinition<_csi_GetCapacityRequest, _csi_GetCapacityResponse, _csi_GetCapacityRequest__Output, _csi_GetCapacityResponse__Output>
  ListVolumes: MethodDefinition<_csi_ListVolumesRequest, _csi_ListVolumesResponse, _csi_ListVolumesRequest__Output, _csi_ListVolumesResponse__Output>
  ValidateVolumeCapabilities: MethodDefinition<_csi_ValidateVolumeCapabilitiesRequest, _csi_ValidateVolumeCapabilitiesResponse, _csi_ValidateVolumeCapabilitiesRequest__Output, _csi_ValidateVolumeCapabilitiesResponse__Output>
}
