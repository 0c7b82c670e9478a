// Original file: proto/csi-v0.3.proto

import type * as grpc from '@grpc/grpc-js'
import type { MethodDefinition } from '@grpc/proto-loader'
import type { ControllerGetCapabilitiesRequest as _csi_v0_ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesRequest__Output as _csi_v0_ControllerGetCapabilitiesRequest__Output } from './ControllerGetCapabilitiesRequest.js';
import type { ControllerGetCapabilitiesResponse as _csi_v0_ControllerGetCapabilitiesResponse, ControllerGetCapabilitiesResponse__Output as _csi_v0_ControllerGetCapabilitiesResponse__Output } from './ControllerGetCapabilitiesResponse.js';
import type { ControllerPublishVolumeRequest as _csi_v0_ControllerPublishVolumeRequest, ControllerPublishVolumeRequest__Output as _csi_v0_ControllerPublishVolumeRequest__Output } from './ControllerPublishVolumeRequest.js';
import type { ControllerPublishVolumeResponse as _csi_v0_ControllerPublishVolumeResponse, ControllerPublishVolumeResponse__Output as _csi_v0_ControllerPublishVolumeResponse__Output } from './ControllerPublishVolumeResponse.js';
import type { ControllerUnpublishVolumeRequest as _csi_v0_ControllerUnpublishVolumeRequest, ControllerUnpublishVolumeRequest__Output as _csi_v0_ControllerUnpublishVolumeRequest__Output } from './ControllerUnpublishVolumeRequest.js';
import type { ControllerUnpublishVolumeResponse as _csi_v0_ControllerUnpublishVolumeResponse, ControllerUnpublishVolumeResponse__Output as _csi_v0_ControllerUnpublishVolumeResponse__Output } from './ControllerUnpublishVolumeResponse.js';
import type { CreateSnapshotRequest as _csi_v0_CreateSnapshotRequest, CreateSnapshotRequest__Output as _csi_v0_CreateSnapshotRequest__Output } from './CreateSnapshotRequest.js';
import type { CreateSnapshotResponse as _csi_v0_CreateSnapshotResponse, CreateSnapshotResponse__Output as _csi_v0_CreateSnapshotResponse__Output } from './CreateSnapshotResponse.js';
import type { CreateVolumeRequest as _csi_v0_CreateVolumeRequest, CreateVolumeRequest__Output as _csi_v0_CreateVolumeRequest__Output } from './CreateVolumeRequest.js';
import type { CreateVolumeResponse as _csi_v0_CreateVolumeResponse, CreateVolumeResponse__Output as _csi_v0_CreateVolumeResponse__Output } from './CreateVolumeResponse.js';
import type { DeleteSnapshotRequest as _csi_v0_DeleteSnapshotRequest, DeleteSnapshotRequest__Output as _csi_v0_DeleteSnapshotRequest__Output } from './DeleteSnapshotRequest.js';
import type { DeleteSnapshotResponse as _csi_v0_DeleteSnapshotResponse, DeleteSnapshotResponse__Output as _csi_v0_DeleteSnapshotResponse__Output } from './DeleteSnapshotResponse.js';
import type { DeleteVolumeRequest as _csi_v0_DeleteVolumeRequest, DeleteVolumeRequest__Output as _csi_v0_DeleteVolumeRequest__Output } from './DeleteVolumeRequest.js';
import type { DeleteVolumeResponse as _csi_v0_DeleteVolumeResponse, DeleteVolumeResponse__Output as _csi_v0_DeleteVolumeResponse__Output } from './DeleteVolumeResponse.js';
import type { GetCapacityRequest as _csi_v0_GetCapacityRequest, GetCapacityRequest__Output as _csi_v0_GetCapacityRequest__Output } from './GetCapacityRequest.js';
import type { GetCapacityResponse as _csi_v0_GetCapacityResponse, GetCapacityResponse__Output as _csi_v0_GetCapacityResponse__Output } from './GetCapacityResponse.js';
import type { ListSnapshotsRequest as _csi_v0_ListSnapshotsRequest, ListSnapshotsRequest__Output as _csi_v0_ListSnapshotsRequest__Output } from './ListSnapshotsRequest.js';
import type { ListSnapshotsResponse as _csi_v0_ListSnapshotsResponse, ListSnapshotsResponse__Output as _csi_v0_ListSnapshotsResponse__Output } from './ListSnapshotsResponse.js';
import type { ListVolumesRequest as _csi_v0_ListVolumesRequest, ListVolumesRequest__Output as _csi_v0_ListVolumesRequest__Output } from './ListVolumesRequest.js';
import type { ListVolumesResponse as _csi_v0_ListVolumesResponse, ListVolumesResponse__Output as _csi_v0_ListVolumesResponse__Output } from './ListVolumesResponse.js';
import type { ValidateVolumeCapabilitiesRequest as _csi_v0_ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesRequest__Output as _csi_v0_ValidateVolumeCapabilitiesRequest__Output } from './ValidateVolumeCapabilitiesRequest.js';
import type { ValidateVolumeCapabilitiesResponse as _csi_v0_ValidateVolumeCapabilitiesResponse, ValidateVolumeCapabilitiesResponse__Output as _csi_v0_ValidateVolumeCapabilitiesResponse__Output } from './ValidateVolumeCapabilitiesResponse.js';

export interface ControllerClient extends grpc.Client {
  ControllerGetCapabilities(argument: _csi_v0_ControllerGetCapabilitiesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ControllerGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  ControllerGetCapabilities(argument: _csi_v0_ControllerGetCapabilitiesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_ControllerGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  ControllerGetCapabilities(argument: _csi_v0_ControllerGetCapabilitiesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ControllerGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  ControllerGetCapabilities(argument: _csi_v0_ControllerGetCapabilitiesRequest, callback: grpc.requestCallback<_csi_v0_ControllerGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  controllerGetCapabilities(argument: _csi_v0_ControllerGetCapabilitiesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ControllerGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  controllerGetCapabilities(argument: _csi_v0_ControllerGetCapabilitiesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_ControllerGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  controllerGetCapabilities(argument: _csi_v0_ControllerGetCapabilitiesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ControllerGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  controllerGetCapabilities(argument: _csi_v0_ControllerGetCapabilitiesRequest, callback: grpc.requestCallback<_csi_v0_ControllerGetCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  
  ControllerPublishVolume(argument: _csi_v0_ControllerPublishVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ControllerPublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  ControllerPublishVolume(argument: _csi_v0_ControllerPublishVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_ControllerPublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  ControllerPublishVolume(argument: _csi_v0_ControllerPublishVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ControllerPublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  ControllerPublishVolume(argument: _csi_v0_ControllerPublishVolumeRequest, callback: grpc.requestCallback<_csi_v0_ControllerPublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  controllerPublishVolume(argument: _csi_v0_ControllerPublishVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ControllerPublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  controllerPublishVolume(argument: _csi_v0_ControllerPublishVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_ControllerPublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  controllerPublishVolume(argument: _csi_v0_ControllerPublishVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ControllerPublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  controllerPublishVolume(argument: _csi_v0_ControllerPublishVolumeRequest, callback: grpc.requestCallback<_csi_v0_ControllerPublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  
  ControllerUnpublishVolume(argument: _csi_v0_ControllerUnpublishVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ControllerUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  ControllerUnpublishVolume(argument: _csi_v0_ControllerUnpublishVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_ControllerUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  ControllerUnpublishVolume(argument: _csi_v0_ControllerUnpublishVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ControllerUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  ControllerUnpublishVolume(argument: _csi_v0_ControllerUnpublishVolumeRequest, callback: grpc.requestCallback<_csi_v0_ControllerUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  controllerUnpublishVolume(argument: _csi_v0_ControllerUnpublishVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ControllerUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  controllerUnpublishVolume(argument: _csi_v0_ControllerUnpublishVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_ControllerUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  controllerUnpublishVolume(argument: _csi_v0_ControllerUnpublishVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ControllerUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  controllerUnpublishVolume(argument: _csi_v0_ControllerUnpublishVolumeRequest, callback: grpc.requestCallback<_csi_v0_ControllerUnpublishVolumeResponse__Output>): grpc.ClientUnaryCall;
  
  CreateSnapshot(argument: _csi_v0_CreateSnapshotRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_CreateSnapshotResponse__Output>): grpc.ClientUnaryCall;
  CreateSnapshot(argument: _csi_v0_CreateSnapshotRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_CreateSnapshotResponse__Output>): grpc.ClientUnaryCall;
  CreateSnapshot(argument: _csi_v0_CreateSnapshotRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_CreateSnapshotResponse__Output>): grpc.ClientUnaryCall;
  CreateSnapshot(argument: _csi_v0_CreateSnapshotRequest, callback: grpc.requestCallback<_csi_v0_CreateSnapshotResponse__Output>): grpc.ClientUnaryCall;
  createSnapshot(argument: _csi_v0_CreateSnapshotRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_CreateSnapshotResponse__Output>): grpc.ClientUnaryCall;
  createSnapshot(argument: _csi_v0_CreateSnapshotRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_CreateSnapshotResponse__Output>): grpc.ClientUnaryCall;
  createSnapshot(argument: _csi_v0_CreateSnapshotRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_CreateSnapshotResponse__Output>): grpc.ClientUnaryCall;
  createSnapshot(argument: _csi_v0_CreateSnapshotRequest, callback: grpc.requestCallback<_csi_v0_CreateSnapshotResponse__Output>): grpc.ClientUnaryCall;
  
  CreateVolume(argument: _csi_v0_CreateVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_CreateVolumeResponse__Output>): grpc.ClientUnaryCall;
  CreateVolume(argument: _csi_v0_CreateVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_CreateVolumeResponse__Output>): grpc.ClientUnaryCall;
  CreateVolume(argument: _csi_v0_CreateVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_CreateVolumeResponse__Output>): grpc.ClientUnaryCall;
  CreateVolume(argument: _csi_v0_CreateVolumeRequest, callback: grpc.requestCallback<_csi_v0_CreateVolumeResponse__Output>): grpc.ClientUnaryCall;
  createVolume(argument: _csi_v0_CreateVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_CreateVolumeResponse__Output>): grpc.ClientUnaryCall;
  createVolume(argument: _csi_v0_CreateVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_CreateVolumeResponse__Output>): grpc.ClientUnaryCall;
  createVolume(argument: _csi_v0_CreateVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_CreateVolumeResponse__Output>): grpc.ClientUnaryCall;
  createVolume(argument: _csi_v0_CreateVolumeRequest, callback: grpc.requestCallback<_csi_v0_CreateVolumeResponse__Output>): grpc.ClientUnaryCall;
  
  DeleteSnapshot(argument: _csi_v0_DeleteSnapshotRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_DeleteSnapshotResponse__Output>): grpc.ClientUnaryCall;
  DeleteSnapshot(argument: _csi_v0_DeleteSnapshotRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_DeleteSnapshotResponse__Output>): grpc.ClientUnaryCall;
  DeleteSnapshot(argument: _csi_v0_DeleteSnapshotRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_DeleteSnapshotResponse__Output>): grpc.ClientUnaryCall;
  DeleteSnapshot(argument: _csi_v0_DeleteSnapshotRequest, callback: grpc.requestCallback<_csi_v0_DeleteSnapshotResponse__Output>): grpc.ClientUnaryCall;
  deleteSnapshot(argument: _csi_v0_DeleteSnapshotRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_DeleteSnapshotResponse__Output>): grpc.ClientUnaryCall;
  deleteSnapshot(argument: _csi_v0_DeleteSnapshotRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_DeleteSnapshotResponse__Output>): grpc.ClientUnaryCall;
  deleteSnapshot(argument: _csi_v0_DeleteSnapshotRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_DeleteSnapshotResponse__Output>): grpc.ClientUnaryCall;
  deleteSnapshot(argument: _csi_v0_DeleteSnapshotRequest, callback: grpc.requestCallback<_csi_v0_DeleteSnapshotResponse__Output>): grpc.ClientUnaryCall;
  
  DeleteVolume(argument: _csi_v0_DeleteVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_DeleteVolumeResponse__Output>): grpc.ClientUnaryCall;
  DeleteVolume(argument: _csi_v0_DeleteVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_DeleteVolumeResponse__Output>): grpc.ClientUnaryCall;
  DeleteVolume(argument: _csi_v0_DeleteVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_DeleteVolumeResponse__Output>): grpc.ClientUnaryCall;
  DeleteVolume(argument: _csi_v0_DeleteVolumeRequest, callback: grpc.requestCallback<_csi_v0_DeleteVolumeResponse__Output>): grpc.ClientUnaryCall;
  deleteVolume(argument: _csi_v0_DeleteVolumeRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_DeleteVolumeResponse__Output>): grpc.ClientUnaryCall;
  deleteVolume(argument: _csi_v0_DeleteVolumeRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_DeleteVolumeResponse__Output>): grpc.ClientUnaryCall;
  deleteVolume(argument: _csi_v0_DeleteVolumeRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_DeleteVolumeResponse__Output>): grpc.ClientUnaryCall;
  deleteVolume(argument: _csi_v0_DeleteVolumeRequest, callback: grpc.requestCallback<_csi_v0_DeleteVolumeResponse__Output>): grpc.ClientUnaryCall;
  
  GetCapacity(argument: _csi_v0_GetCapacityRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_GetCapacityResponse__Output>): grpc.ClientUnaryCall;
  GetCapacity(argument: _csi_v0_GetCapacityRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_GetCapacityResponse__Output>): grpc.ClientUnaryCall;
  GetCapacity(argument: _csi_v0_GetCapacityRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_GetCapacityResponse__Output>): grpc.ClientUnaryCall;
  GetCapacity(argument: _csi_v0_GetCapacityRequest, callback: grpc.requestCallback<_csi_v0_GetCapacityResponse__Output>): grpc.ClientUnaryCall;
  getCapacity(argument: _csi_v0_GetCapacityRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_GetCapacityResponse__Output>): grpc.ClientUnaryCall;
  getCapacity(argument: _csi_v0_GetCapacityRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_GetCapacityResponse__Output>): grpc.ClientUnaryCall;
  getCapacity(argument: _csi_v0_GetCapacityRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_GetCapacityResponse__Output>): grpc.ClientUnaryCall;
  getCapacity(argument: _csi_v0_GetCapacityRequest, callback: grpc.requestCallback<_csi_v0_GetCapacityResponse__Output>): grpc.ClientUnaryCall;
  
  ListSnapshots(argument: _csi_v0_ListSnapshotsRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ListSnapshotsResponse__Output>): grpc.ClientUnaryCall;
  ListSnapshots(argument: _csi_v0_ListSnapshotsRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_ListSnapshotsResponse__Output>): grpc.ClientUnaryCall;
  ListSnapshots(argument: _csi_v0_ListSnapshotsRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ListSnapshotsResponse__Output>): grpc.ClientUnaryCall;
  ListSnapshots(argument: _csi_v0_ListSnapshotsRequest, callback: grpc.requestCallback<_csi_v0_ListSnapshotsResponse__Output>): grpc.ClientUnaryCall;
  listSnapshots(argument: _csi_v0_ListSnapshotsRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ListSnapshotsResponse__Output>): grpc.ClientUnaryCall;
  listSnapshots(argument: _csi_v0_ListSnapshotsRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_ListSnapshotsResponse__Output>): grpc.ClientUnaryCall;
  listSnapshots(argument: _csi_v0_ListSnapshotsRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ListSnapshotsResponse__Output>): grpc.ClientUnaryCall;
  listSnapshots(argument: _csi_v0_ListSnapshotsRequest, callback: grpc.requestCallback<_csi_v0_ListSnapshotsResponse__Output>): grpc.ClientUnaryCall;
  
  ListVolumes(argument: _csi_v0_ListVolumesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ListVolumesResponse__Output>): grpc.ClientUnaryCall;
  ListVolumes(argument: _csi_v0_ListVolumesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_ListVolumesResponse__Output>): grpc.ClientUnaryCall;
  ListVolumes(argument: _csi_v0_ListVolumesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ListVolumesResponse__Output>): grpc.ClientUnaryCall;
  ListVolumes(argument: _csi_v0_ListVolumesRequest, callback: grpc.requestCallback<_csi_v0_ListVolumesResponse__Output>): grpc.ClientUnaryCall;
  listVolumes(argument: _csi_v0_ListVolumesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ListVolumesResponse__Output>): grpc.ClientUnaryCall;
  listVolumes(argument: _csi_v0_ListVolumesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_ListVolumesResponse__Output>): grpc.ClientUnaryCall;
  listVolumes(argument: _csi_v0_ListVolumesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ListVolumesResponse__Output>): grpc.ClientUnaryCall;
  listVolumes(argument: _csi_v0_ListVolumesRequest, callback: grpc.requestCallback<_csi_v0_ListVolumesResponse__Output>): grpc.ClientUnaryCall;
  
  ValidateVolumeCapabilities(argument: _csi_v0_ValidateVolumeCapabilitiesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ValidateVolumeCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  ValidateVolumeCapabilities(argument: _csi_v0_ValidateVolumeCapabilitiesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_ValidateVolumeCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  ValidateVolumeCapabilities(argument: _csi_v0_ValidateVolumeCapabilitiesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ValidateVolumeCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  ValidateVolumeCapabilities(argument: _csi_v0_ValidateVolumeCapabilitiesRequest, callback: grpc.requestCallback<_csi_v0_ValidateVolumeCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  validateVolumeCapabilities(argument: _csi_v0_ValidateVolumeCapabilitiesRequest, metadata: grpc.Metadata, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ValidateVolumeCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  validateVolumeCapabilities(argument: _csi_v0_ValidateVolumeCapabilitiesRequest, metadata: grpc.Metadata, callback: grpc.requestCallback<_csi_v0_ValidateVolumeCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  validateVolumeCapabilities(argument: _csi_v0_ValidateVolumeCapabilitiesRequest, options: grpc.CallOptions, callback: grpc.requestCallback<_csi_v0_ValidateVolumeCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  validateVolumeCapabilities(argument: _csi_v0_ValidateVolumeCapabilitiesRequest, callback: grpc.requestCallback<_csi_v0_ValidateVolumeCapabilitiesResponse__Output>): grpc.ClientUnaryCall;
  
}

export interface ControllerHandlers extends grpc.UntypedServiceImplementation {
  ControllerGetCapabilities: grpc.handleUnaryCall<_csi_v0_ControllerGetCapabilitiesRequest__Output, _csi_v0_ControllerGetCapabilitiesResponse>;
  
  ControllerPublishVolume: grpc.handleUnaryCall<_csi_v0_ControllerPublishVolumeRequest__Output, _csi_v0_ControllerPublishVolumeResponse>;
  
  ControllerUnpublishVolume: grpc.handleUnaryCall<_csi_v0_ControllerUnpublishVolumeRequest__Output, _csi_v0_ControllerUnpublishVolumeResponse>;
  
  CreateSnapshot: grpc.handleUnaryCall<_csi_v0_CreateSnapshotRequest__Output, _csi_v0_CreateSnapshotResponse>;
  
  CreateVolume: grpc.handleUnaryCall<_csi_v0_CreateVolumeRequest__Output, _csi_v0_CreateVolumeResponse>;
  
  DeleteSnapshot: grpc.handleUnaryCall<_csi_v0_DeleteSnapshotRequest__Output, _csi_v0_DeleteSnapshotResponse>;
  
  DeleteVolume: grpc.handleUnaryCall<_csi_v0_DeleteVolumeRequest__Output, _csi_v0_DeleteVolumeResponse>;
  
  GetCapacity: grpc.handleUnaryCall<_csi_v0_GetCapacityRequest__Output, _csi_v0_GetCapacityResponse>;
  
  ListSnapshots: grpc.handleUnaryCall<_csi_v0_ListSnapshotsRequest__Output, _csi_v0_ListSnapshotsResponse>;
  
  ListVolumes: grpc.handleUnaryCall<_csi_v0_ListVolumesRequest__Output, _csi_v0_ListVolumesResponse>;
  
  ValidateVolumeCapabilities: grpc.handleUnaryCall<_csi_v0_ValidateVolumeCapabilitiesRequest__Output, _csi_v0_ValidateVolumeCapabilitiesResponse>;
  
}

export interface ControllerDefinition extends grpc.ServiceDefinition {
  ControllerGetCapabilities: MethodDefinition<_csi_v0_ControllerGetCapabilitiesRequest, _csi_v0_ControllerGetCapabilitiesResponse, _csi_v0_ControllerGetCapabilitiesRequest__Output, _csi_v0_ControllerGetCapabilitiesResponse__Output>
  ControllerPublishVolume: MethodDefinition<_csi_v0_ControllerPublishVolumeRequest, _csi_v0_ControllerPublishVolumeResponse, _csi_v0_ControllerPublishVolumeRequest__Output, _csi_v0_ControllerPublishVolumeResponse__Output>
  ControllerUnpublishVolume: MethodDefinition<_csi_v0_ControllerUnpublishVolumeRequest, _csi_v0_ControllerUnpublishVolumeResponse, _csi_v0_ControllerUnpublishVolumeRequest__Output, _csi_v0_ControllerUnpublishVolumeResponse__Output>
  CreateSnapshot: MethodDefinition<_csi_v0_CreateSnapshotRequest, _csi_v0_CreateSnapshotResponse, _csi_v0_CreateSnapshotRequest__Output, _csi_v0_CreateSnapshotResponse__Output>
  CreateVolume: MethodDefinition<_csi_v0_CreateVolumeRequest, _csi_v0_CreateVolumeResponse, _csi_v0_CreateVolumeRequest__Output, _csi_v0_CreateVolumeResponse__Output>
  DeleteSnapshot: MethodDefinition<_csi_v0_DeleteSnapshotRequest, _csi_v0_DeleteSnapshotResponse, _csi_v0_DeleteSnapshotRequest__Output, _csi_v0_DeleteSnapshotResponse__Output>
  DeleteVolume: MethodDefinition<_csi_v0_DeleteVolumeRequest, _csi_v0_DeleteVolumeResponse, _csi_v0_DeleteVolumeRequest__Output, _csi_v0_DeleteVolumeResponse__Output>
  GetCapacity: MethodDefinition<_csi_v0_GetCapacityRequest, _csi_v0_GetCapacityResponse, _csi_v0_GetCapacityRequest__Output, _csi_v0_GetCapacityResponse__Output>
  ListSnapshots: MethodDefinition<_csi_v0_ListSnapshotsRequest, _csi_v0_ListSnapshotsResponse, _csi_v0_ListSnapshotsRequest__Output, _csi_v0_ListSnapshotsResponse__Output>
  ListVolumes: MethodDefinition<_csi_v0_ListVolumesRequest, _csi_v0_ListVolumesResponse, _csi_v0_ListVolumesRequest__Output, _csi_v0_ListVolumesResponse__Output>
  ValidateVolumeCapabilities: MethodDefinition<_csi_v0_ValidateVolumeCapabilitiesRequest, _csi_v0_ValidateVolumeCapabilitiesResponse, _csi_v0_ValidateVolumeCapabilitiesRequest__Output, _csi_v0_ValidateVolumeCapabilitiesResponse__Output>
}
