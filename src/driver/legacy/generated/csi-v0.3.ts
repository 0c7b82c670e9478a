import type * as grpc from '@grpc/grpc-js';
import type { EnumTypeDefinition, MessageTypeDefinition } from '@grpc/proto-loader';

import type { CapacityRange as _csi_v0_CapacityRange, CapacityRange__Output as _csi_v0_CapacityRange__Output } from './csi/v0/CapacityRange.js';
import type { ControllerClient as _csi_v0_ControllerClient, ControllerDefinition as _csi_v0_ControllerDefinition } from './csi/v0/Controller.js';
import type { ControllerGetCapabilitiesRequest as _csi_v0_ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesRequest__Output as _csi_v0_ControllerGetCapabilitiesRequest__Output } from './csi/v0/ControllerGetCapabilitiesRequest.js';
import type { ControllerGetCapabilitiesResponse as _csi_v0_ControllerGetCapabilitiesResponse, ControllerGetCapabilitiesResponse__Output as _csi_v0_ControllerGetCapabilitiesResponse__Output } from './csi/v0/ControllerGetCapabilitiesResponse.js';
import type { ControllerPublishVolumeRequest as _csi_v0_ControllerPublishVolumeRequest, ControllerPublishVolumeRequest__Output as _csi_v0_ControllerPublishVolumeRequest__Output } from './csi/v0/ControllerPublishVolumeRequest.js';
import type { ControllerPublishVolumeResponse as _csi_v0_ControllerPublishVolumeResponse, ControllerPublishVolumeResponse__Output as _csi_v0_ControllerPublishVolumeResponse__Output } from './csi/v0/ControllerPublishVolumeResponse.js';
import type { ControllerServiceCapability as _csi_v0_ControllerServiceCapability, ControllerServiceCapability__Output as _csi_v0_ControllerServiceCapability__Output } from './csi/v0/ControllerServiceCapability.js';
import type { ControllerUnpublishVolumeRequest as _csi_v0_ControllerUnpublishVolumeRequest, ControllerUnpublishVolumeRequest__Output as _csi_v0_ControllerUnpublishVolumeRequest__Output } from './csi/v0/ControllerUnpublishVolumeRequest.js';
import type { ControllerUnpublishVolumeResponse as _csi_v0_ControllerUnpublishVolumeResponse, ControllerUnpublishVolumeResponse__Output as _csi_v0_ControllerUnpublishVolumeResponse__Output } from './csi/v0/ControllerUnpublishVolumeResponse.js';
import type { CreateSnapshotRequest as _csi_v0_CreateSnapshotRequest, CreateSnapshotRequest__Output as _csi_v0_CreateSnapshotRequest__Output } from './csi/v0/CreateSnapshotRequest.js';
import type { CreateSnapshotResponse as _csi_v0_CreateSnapshotResponse, CreateSnapshotResponse__Output as _csi_v0_CreateSnapshotResponse__Output } from './csi/v0/CreateSnapshotResponse.js';
import type { CreateVolumeRequest as _csi_v0_CreateVolumeRequest, CreateVolumeRequest__Output as _csi_v0_CreateVolumeRequest__Output } from './csi/v0/CreateVolumeRequest.js';
import type { CreateVolumeResponse as _csi_v0_CreateVolumeResponse, CreateVolumeResponse__Output as _csi_v0_CreateVolumeResponse__Output } from './csi/v0/CreateVolumeResponse.js';
import type { DeleteSnapshotRequest as _csi_v0_DeleteSnapshotRequest, DeleteSnapshotRequest__Output as _csi_v0_DeleteSnapshotRequest__Output } from './csi/v0/DeleteSnapshotRequest.js';
import type { DeleteSnapshotResponse as _csi_v0_DeleteSnapshotResponse, DeleteSnapshotResponse__Output as _csi_v0_DeleteSnapshotResponse__Output } from './csi/v0/DeleteSnapshotResponse.js';
import type { DeleteVolumeRequest as _csi_v0_DeleteVolumeRequest, DeleteVolumeRequest__Output as _csi_v0_DeleteVolumeRequest__Output } from './csi/v0/DeleteVolumeRequest.js';
import type { DeleteVolumeResponse as _csi_v0_DeleteVolumeResponse, DeleteVolumeResponse__Output as _csi_v0_DeleteVolumeResponse__Output } from './csi/v0/DeleteVolumeResponse.js';
import type { GetCapacityRequest as _csi_v0_GetCapacityRequest, GetCapacityRequest__Output as _csi_v0_GetCapacityRequest__Output } from './csi/v0/GetCapacityRequest.js';
import type { GetCapacityResponse as _csi_v0_GetCapacityResponse, GetCapacityResponse__Output as _csi_v0_GetCapacityResponse__Output } from './csi/v0/GetCapacityResponse.js';
import type { GetPluginCapabilitiesRequest as _csi_v0_GetPluginCapabilitiesRequest, GetPluginCapabilitiesRequest__Output as _csi_v0_GetPluginCapabilitiesRequest__Output } from './csi/v0/GetPluginCapabilitiesRequest.js';
import type { GetPluginCapabilitiesResponse as _csi_v0_GetPluginCapabilitiesResponse, GetPluginCapabilitiesResponse__Output as _csi_v0_GetPluginCapabilitiesResponse__Output } from './csi/v0/GetPluginCapabilitiesResponse.js';
import type { GetPluginInfoRequest as _csi_v0_GetPluginInfoRequest, GetPluginInfoRequest__Output as _csi_v0_GetPluginInfoRequest__Output } from './csi/v0/GetPluginInfoRequest.js';
import type { GetPluginInfoResponse as _csi_v0_GetPluginInfoResponse, GetPluginInfoResponse__Output as _csi_v0_GetPluginInfoResponse__Output } from './csi/v0/GetPluginInfoResponse.js';
import type { IdentityClient as _csi_v0_IdentityClient, IdentityDefinition as _csi_v0_IdentityDefinition } from './csi/v0/Identity.js';
import type { ListSnapshotsRequest as _csi_v0_ListSnapshotsRequest, ListSnapshotsRequest__Output as _csi_v0_ListSnapshotsRequest__Output } from './csi/v0/ListSnapshotsRequest.js';
import type { ListSnapshotsResponse as _csi_v0_ListSnapshotsResponse, ListSnapshotsResponse__Output as _csi_v0_ListSnapshotsResponse__Output } from './csi/v0/ListSnapshotsResponse.js';
import type { ListVolumesRequest as _csi_v0_ListVolumesRequest, ListVolumesRequest__Output as _csi_v0_ListVolumesRequest__Output } from './csi/v0/ListVolumesRequest.js';
import type { ListVolumesResponse as _csi_v0_ListVolumesResponse, ListVolumesResponse__Output as _csi_v0_ListVolumesResponse__Output } from './csi/v0/ListVolumesResponse.js';
import type { NodeClient as _csi_v0_NodeClient, NodeDefinition as _csi_v0_NodeDefinition } from './csi/v0/Node.js';
import type { NodeGetCapabilitiesRequest as _csi_v0_NodeGetCapabilitiesRequest, NodeGetCapabilitiesRequest__Output as _csi_v0_NodeGetCapabilitiesRequest__Output } from './csi/v0/NodeGetCapabilitiesRequest.js';
import type { NodeGetCapabilitiesResponse as _csi_v0_NodeGetCapabilitiesResponse, NodeGetCapabilitiesResponse__Output as _csi_v0_NodeGetCapabilitiesResponse__Output } from './csi/v0/NodeGetCapabilitiesResponse.js';
import type { NodeGetIdRequest as _csi_v0_NodeGetIdRequest, NodeGetIdRequest__Output as _csi_v0_NodeGetIdRequest__Output } from './csi/v0/NodeGetIdRequest.js';
import type { NodeGetIdResponse as _csi_v0_NodeGetIdResponse, NodeGetIdResponse__Output as _csi_v0_NodeGetIdResponse__Output } from './csi/v0/NodeGetIdResponse.js';
import type { NodeGetInfoRequest as _csi_v0_NodeGetInfoRequest, NodeGetInfoRequest__Output as _csi_v0_NodeGetInfoRequest__Output } from './csi/v0/NodeGetInfoRequest.js';
import type { NodeGetInfoResponse as _csi_v0_NodeGetInfoResponse, NodeGetInfoResponse__Output as _csi_v0_NodeGetInfoResponse__Output } from './csi/v0/NodeGetInfoResponse.js';
import type { NodePublishVolumeRequest as _csi_v0_NodePublishVolumeRequest, NodePublishVolumeRequest__Output as _csi_v0_NodePublishVolumeRequest__Output } from './csi/v0/NodePublishVolumeRequest.js';
import type { NodePublishVolumeResponse as _csi_v0_NodePublishVolumeResponse, NodePublishVolumeResponse__Output as _csi_v0_NodePublishVolumeResponse__Output } from './csi/v0/NodePublishVolumeResponse.js';
import type { NodeServiceCapability as _csi_v0_NodeServiceCapability, NodeServiceCapability__Output as _csi_v0_NodeServiceCapability__Output } from './csi/v0/NodeServiceCapability.js';
import type { NodeStageVolumeRequest as _csi_v0_NodeStageVolumeRequest, NodeStageVolumeRequest__Output as _csi_v0_NodeStageVolumeRequest__Output } from './csi/v0/NodeStageVolumeRequest.js';
import type { NodeStageVolumeResponse as _csi_v0_NodeStageVolumeResponse, NodeStageVolumeResponse__Output as _csi_v0_NodeStageVolumeResponse__Output } from './csi/v0/NodeStageVolumeResponse.js';
import type { NodeUnpublishVolumeRequest as _csi_v0_NodeUnpublishVolumeRequest, NodeUnpublishVolumeRequest__Output as _csi_v0_NodeUnpublishVolumeRequest__Output } from './csi/v0/NodeUnpublishVolumeRequest.js';
import type { NodeUnpublishVolumeResponse as _csi_v0_NodeUnpublishVolumeResponse, NodeUnpublishVolumeResponse__Output as _csi_v0_NodeUnpublishVolumeResponse__Output } from './csi/v0/NodeUnpublishVolumeResponse.js';
import type { NodeUnstageVolumeRequest as _csi_v0_NodeUnstageVolumeRequest, NodeUnstageVolumeRequest__Output as _csi_v0_NodeUnstageVolumeRequest__Output } from './csi/v0/NodeUnstageVolumeRequest.js';
import type { NodeUnstageVolumeResponse as _csi_v0_NodeUnstageVolumeResponse, NodeUnstageVolumeResponse__Output as _csi_v0_NodeUnstageVolumeResponse__Output } from './csi/v0/NodeUnstageVolumeResponse.js';
import type { PluginCapability as _csi_v0_PluginCapability, PluginCapability__Output as _csi_v0_PluginCapability__Output } from './csi/v0/PluginCapability.js';
import type { ProbeRequest as _csi_v0_ProbeRequest, ProbeRequest__Output as _csi_v0_ProbeRequest__Output } from './csi/v0/ProbeRequest.js';
import type { ProbeResponse as _csi_v0_ProbeResponse, ProbeResponse__Output as _csi_v0_ProbeResponse__Output } from './csi/v0/ProbeResponse.js';
import type { Snapshot as _csi_v0_Snapshot, Snapshot__Output as _csi_v0_Snapshot__Output } from './csi/v0/Snapshot.js';
import type { SnapshotStatus as _csi_v0_SnapshotStatus, SnapshotStatus__Output as _csi_v0_SnapshotStatus__Output } from './csi/v0/SnapshotStatus.js';
import type { Topology as _csi_v0_Topology, Topology__Output as _csi_v0_Topology__Output } from './csi/v0/Topology.js';
import type { TopologyRequirement as _csi_v0_TopologyRequirement, TopologyRequirement__Output as _csi_v0_TopologyRequirement__Output } from './csi/v0/TopologyRequirement.js';
import type { ValidateVolumeCapabilitiesRequest as _csi_v0_ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesRequest__Output as _csi_v0_ValidateVolumeCapabilitiesRequest__Output } from './csi/v0/ValidateVolumeCapabilitiesRequest.js';
import type { ValidateVolumeCapabilitiesResponse as _csi_v0_ValidateVolumeCapabilitiesResponse, ValidateVolumeCapabilitiesResponse__Output as _csi_v0_ValidateVolumeCapabilitiesResponse__Output } from './csi/v0/ValidateVolumeCapabilitiesResponse.js';
import type { Volume as _csi_v0_Volume, Volume__Output as _csi_v0_Volume__Output } from './csi/v0/Volume.js';
import type { VolumeCapability as _csi_v0_VolumeCapability, VolumeCapability__Output as _csi_v0_VolumeCapability__Output } from './csi/v0/VolumeCapability.js';
import type { VolumeContentSource as _csi_v0_VolumeContentSource, VolumeContentSource__Output as _csi_v0_VolumeContentSource__Output } from './csi/v0/VolumeContentSource.js';
import type { BoolValue as _google_protobuf_BoolValue, BoolValue__Output as _google_protobuf_BoolValue__Output } from './google/protobuf/BoolValue.js';
import type { BytesValue as _google_protobuf_BytesValue, BytesValue__Output as _google_protobuf_BytesValue__Output } from './google/protobuf/BytesValue.js';
import type { DescriptorProto as _google_protobuf_DescriptorProto, DescriptorProto__Output as _google_protobuf_DescriptorProto__Output } from './google/protobuf/DescriptorProto.js';
import type { DoubleValue as _google_protobuf_DoubleValue, DoubleValue__Output as _google_protobuf_DoubleValue__Output } from './google/protobuf/DoubleValue.js';
import type { EnumDescriptorProto as _google_protobuf_EnumDescriptorProto, EnumDescriptorProto__Output as _google_protobuf_EnumDescriptorProto__Output } from './google/protobuf/EnumDescriptorProto.js';
import type { EnumOptions as _google_protobuf_EnumOptions, EnumOptions__Output as _google_protobuf_EnumOptions__Output } from './google/protobuf/EnumOptions.js';
import type { EnumValueDescriptorProto as _google_protobuf_EnumValueDescriptorProto, EnumValueDescriptorProto__Output as _google_protobuf_EnumValueDescriptorProto__Output } from './google/protobuf/EnumValueDescriptorProto.js';
import type { EnumValueOptions as _google_protobuf_EnumValueOptions, EnumValueOptions__Output as _google_protobuf_EnumValueOptions__Output } from './google/protobuf/EnumValueOptions.js';
import type { ExtensionRangeOptions as _google_protobuf_ExtensionRangeOptions, ExtensionRangeOptions__Output as _google_protobuf_ExtensionRangeOptions__Output } from './google/protobuf/ExtensionRangeOptions.js';
import type { FeatureSet as _google_protobuf_FeatureSet, FeatureSet__Output as _google_protobuf_FeatureSet__Output } from './google/protobuf/FeatureSet.js';
import type { FeatureSetDefaults as _google_protobuf_FeatureSetDefaults, FeatureSetDefaults__Output as _google_protobuf_FeatureSetDefaults__Output } from './google/protobuf/FeatureSetDefaults.js';
import type { FieldDescriptorProto as _google_protobuf_FieldDescriptorProto, FieldDescriptorProto__Output as _google_protobuf_FieldDescriptorProto__Output } from './google/protobuf/FieldDescriptorProto.js';
import type { FieldOptions as _google_protobuf_FieldOptions, FieldOptions__Output as _google_protobuf_FieldOptions__Output } from './google/protobuf/FieldOptions.js';
import type { FileDescriptorProto as _google_protobuf_FileDescriptorProto, FileDescriptorProto__Output as _google_protobuf_FileDescriptorProto__Output } from './google/protobuf/FileDescriptorProto.js';
import type { FileDescriptorSet as _google_protobuf_FileDescriptorSet, FileDescriptorSet__Output as _google_protobuf_FileDescriptorSet__Output } from './google/protobuf/FileDescriptorSet.js';
import type { FileOptions as _google_protobuf_FileOptions, FileOptions__Output as _google_protobuf_FileOptions__Output } from './google/protobuf/FileOptions.js';
import type { FloatValue as _google_protobuf_FloatValue, FloatValue__Output as _google_protobuf_FloatValue__Output } from './google/protobuf/FloatValue.js';
import type { GeneratedCodeInfo as _google_protobuf_GeneratedCodeInfo, GeneratedCodeInfo__Output as _google_protobuf_GeneratedCodeInfo__Output } from './google/protobuf/GeneratedCodeInfo.js';
import type { Int32Value as _google_protobuf_Int32Value, Int32Value__Output as _google_protobuf_Int32Value__Output } from './google/protobuf/Int32Value.js';
import type { Int64Value as _google_protobuf_Int64Value, Int64Value__Output as _google_protobuf_Int64Value__Output } from './google/protobuf/Int64Value.js';
import type { MessageOptions as _google_protobuf_MessageOptions, MessageOptions__Output as _google_protobuf_MessageOptions__Output } from './google/protobuf/MessageOptions.js';
import type { MethodDescriptorProto as _google_protobuf_MethodDescriptorProto, MethodDescriptorProto__Output as _google_protobuf_MethodDescriptorProto__Output } from './google/protobuf/MethodDescriptorProto.js';
import type { MethodOptions as _google_protobuf_MethodOptions, MethodOptions__Output as _google_protobuf_MethodOptions__Output } from './google/protobuf/MethodOptions.js';
import type { OneofDescriptorProto as _google_protobuf_OneofDescriptorProto, OneofDescriptorProto__Output as _google_protobuf_OneofDescriptorProto__Output } from './google/protobuf/OneofDescriptorProto.js';
import type { OneofOptions as _google_protobuf_OneofOptions, OneofOptions__Output as _google_protobuf_OneofOptions__Output } from './google/protobuf/OneofOptions.js';
import type { ServiceDescriptorProto as _google_protobuf_ServiceDescriptorProto, ServiceDescriptorProto__Output as _google_protobuf_ServiceDescriptorProto__Output } from './google/protobuf/ServiceDescriptorProto.js';
import type { ServiceOptions as _google_protobuf_ServiceOptions, ServiceOptions__Output as _google_protobuf_ServiceOptions__Output } from './google/protobuf/ServiceOptions.js';
import type { SourceCodeInfo as _google_protobuf_SourceCodeInfo, SourceCodeInfo__Output as _google_protobuf_SourceCodeInfo__Output } from './google/protobuf/SourceCodeInfo.js';
import type { StringValue as _google_protobuf_StringValue, StringValue__Output as _google_protobuf_StringValue__Output } from './google/protobuf/StringValue.js';
import type { UInt32Value as _google_protobuf_UInt32Value, UInt32Value__Output as _google_protobuf_UInt32Value__Output } from './google/protobuf/UInt32Value.js';
import type { UInt64Value as _google_protobuf_UInt64Value, UInt64Value__Output as _google_protobuf_UInt64Value__Output } from './google/protobuf/UInt64Value.js';
import type { UninterpretedOption as _google_protobuf_UninterpretedOption, UninterpretedOption__Output as _google_protobuf_UninterpretedOption__Output } from './google/protobuf/UninterpretedOption.js';

type SubtypeConstructor<Constructor extends new (...args: any) => any, Subtype> = {
  new(...args: ConstructorParameters<Constructor>): Subtype;
};

export interface ProtoGrpcType {
  csi: {
    v0: {
      CapacityRange: MessageTypeDefinition<_csi_v0_CapacityRange, _csi_v0_CapacityRange__Output>
      Controller: SubtypeConstructor<typeof grpc.Client, _csi_v0_ControllerClient> & { service: _csi_v0_ControllerDefinition }
      ControllerGetCapabilitiesRequest: MessageTypeDefinition<_csi_v0_ControllerGetCapabilitiesRequest, _csi_v0_ControllerGetCapabilitiesRequest__Output>
      ControllerGetCapabilitiesResponse: MessageTypeDefinition<_csi_v0_ControllerGetCapabilitiesResponse, _csi_v0_ControllerGetCapabilitiesResponse__Output>
      ControllerPublishVolumeRequest: MessageTypeDefinition<_csi_v0_ControllerPublishVolumeRequest, _csi_v0_ControllerPublishVolumeRequest__Output>
      ControllerPublishVolumeResponse: MessageTypeDefinition<_csi_v0_ControllerPublishVolumeResponse, _csi_v0_ControllerPublishVolumeResponse__Output>
      ControllerServiceCapability: MessageTypeDefinition<_csi_v0_ControllerServiceCapability, _csi_v0_ControllerServiceCapability__Output>
      ControllerUnpublishVolumeRequest: MessageTypeDefinition<_csi_v0_ControllerUnpublishVolumeRequest, _csi_v0_ControllerUnpublishVolumeRequest__Output>
      ControllerUnpublishVolumeResponse: MessageTypeDefinition<_csi_v0_ControllerUnpublishVolumeResponse, _csi_v0_ControllerUnpublishVolumeResponse__Output>
      CreateSnapshotRequest: MessageTypeDefinition<_csi_v0_CreateSnapshotRequest, _csi_v0_CreateSnapshotRequest__Output>
      CreateSnapshotResponse: MessageTypeDefinition<_csi_v0_CreateSnapshotResponse, _csi_v0_CreateSnapshotResponse__Output>
      CreateVolumeRequest: MessageTypeDefinition<_csi_v0_CreateVolumeRequest, _csi_v0_CreateVolumeRequest__Output>
      CreateVolumeResponse: MessageTypeDefinition<_csi_v0_CreateVolumeResponse, _csi_v0_CreateVolumeResponse__Output>
      DeleteSnapshotRequest: MessageTypeDefinition<_csi_v0_DeleteSnapshotRequest, _csi_v0_DeleteSnapshotRequest__Output>
      DeleteSnapshotResponse: MessageTypeDefinition<_csi_v0_DeleteSnapshotResponse, _csi_v0_DeleteSnapshotResponse__Output>
      DeleteVolumeRequest: MessageTypeDefinition<_csi_v0_DeleteVolumeRequest, _csi_v0_DeleteVolumeRequest__Output>
      DeleteVolumeResponse: MessageTypeDefinition<_csi_v0_DeleteVolumeResponse, _csi_v0_DeleteVolumeResponse__Output>
      GetCapacityRequest: MessageTypeDefinition<_csi_v0_GetCapacityRequest, _csi_v0_GetCapacityRequest__Output>
      GetCapacityResponse: MessageTypeDefinition<_csi_v0_GetCapacityResponse, _csi_v0_GetCapacityResponse__Output>
      GetPluginCapabilitiesRequest: MessageTypeDefinition<_csi_v0_GetPluginCapabilitiesRequest, _csi_v0_GetPluginCapabilitiesRequest__Output>
      GetPluginCapabilitiesResponse: MessageTypeDefinition<_csi_v0_GetPluginCapabilitiesResponse, _csi_v0_GetPluginCapabilitiesResponse__Output>
      GetPluginInfoRequest: MessageTypeDefinition<_csi_v0_GetPluginInfoRequest, _csi_v0_GetPluginInfoRequest__Output>
      GetPluginInfoResponse: MessageTypeDefinition<_csi_v0_GetPluginInfoResponse, _csi_v0_GetPluginInfoResponse__Output>
      Identity: SubtypeConstructor<typeof grpc.Client, _csi_v0_IdentityClient> & { service: _csi_v0_IdentityDefinition }
      ListSnapshotsRequest: MessageTypeDefinition<_csi_v0_ListSnapshotsRequest, _csi_v0_ListSnapshotsRequest__Output>
      ListSnapshotsResponse: MessageTypeDefinition<_csi_v0_ListSnapshotsResponse, _csi_v0_ListSnapshotsResponse__Output>
      ListVolumesRequest: MessageTypeDefinition<_csi_v0_ListVolumesRequest, _csi_v0_ListVolumesRequest__Output>
      ListVolumesResponse: MessageTypeDefinition<_csi_v0_ListVolumesResponse, _csi_v0_ListVolumesResponse__Output>
      Node: SubtypeConstructor<typeof grpc.Client, _csi_v0_NodeClient> & { service: _csi_v0_NodeDefinition }
      NodeGetCapabilitiesRequest: MessageTypeDefinition<_csi_v0_NodeGetCapabilitiesRequest, _csi_v0_NodeGetCapabilitiesRequest__Output>
      NodeGetCapabilitiesResponse: MessageTypeDefinition<_csi_v0_NodeGetCapabilitiesResponse, _csi_v0_NodeGetCapabilitiesResponse__Output>
      NodeGetIdRequest: MessageTypeDefinition<_csi_v0_NodeGetIdRequest, _csi_v0_NodeGetIdRequest__Output>
      NodeGetIdResponse: MessageTypeDefinition<_csi_v0_NodeGetIdResponse, _csi_v0_NodeGetIdResponse__Output>
      NodeGetInfoRequest: MessageTypeDefinition<_csi_v0_NodeGetInfoRequest, _csi_v0_NodeGetInfoRequest__Output>
      NodeGetInfoResponse: MessageTypeDefinition<_csi_v0_NodeGetInfoResponse, _csi_v0_NodeGetInfoResponse__Output>
      NodePublishVolumeRequest: MessageTypeDefinition<_csi_v0_NodePublishVolumeRequest, _csi_v0_NodePublishVolumeRequest__Output>
      NodePublishVolumeResponse: MessageTypeDefinition<_csi_v0_NodePublishVolumeResponse, _csi_v0_NodePublishVolumeResponse__Output>
      NodeServiceCapability: MessageTypeDefinition<_csi_v0_NodeServiceCapability, _csi_v0_NodeServiceCapability__Output>
      NodeStageVolumeRequest: MessageTypeDefinition<_csi_v0_NodeStageVolumeRequest, _csi_v0_NodeStageVolumeRequest__Output>
      NodeStageVolumeResponse: MessageTypeDefinition<_csi_v0_NodeStageVolumeResponse, _csi_v0_NodeStageVolumeResponse__Output>
      NodeUnpublishVolumeRequest: MessageTypeDefinition<_csi_v0_NodeUnpublishVolumeRequest, _csi_v0_NodeUnpublishVolumeRequest__Output>
      NodeUnpublishVolumeResponse: MessageTypeDefinition<_csi_v0_NodeUnpublishVolumeResponse, _csi_v0_NodeUnpublishVolumeResponse__Output>
      NodeUnstageVolumeRequest: MessageTypeDefinition<_csi_v0_NodeUnstageVolumeRequest, _csi_v0_NodeUnstageVolumeRequest__Output>
      NodeUnstageVolumeResponse: MessageTypeDefinition<_csi_v0_NodeUnstageVolumeResponse, _csi_v0_NodeUnstageVolumeResponse__Output>
      PluginCapability: MessageTypeDefinition<_csi_v0_PluginCapability, _csi_v0_PluginCapability__Output>
      ProbeRequest: MessageTypeDefinition<_csi_v0_ProbeRequest, _csi_v0_ProbeRequest__Output>
      ProbeResponse: MessageTypeDefinition<_csi_v0_ProbeResponse, _csi_v0_ProbeResponse__Output>
      Snapshot: MessageTypeDefinition<_csi_v0_Snapshot, _csi_v0_Snapshot__Output>
      SnapshotStatus: MessageTypeDefinition<_csi_v0_SnapshotStatus, _csi_v0_SnapshotStatus__Output>
      Topology: MessageTypeDefinition<_csi_v0_Topology, _csi_v0_Topology__Output>
      TopologyRequirement: MessageTypeDefinition<_csi_v0_TopologyRequirement, _csi_v0_TopologyRequirement__Output>
      ValidateVolumeCapabilitiesRequest: MessageTypeDefinition<_csi_v0_ValidateVolumeCapabilitiesRequest, _csi_v0_ValidateVolumeCapabilitiesRequest__Output>
      ValidateVolumeCapabilitiesResponse: MessageTypeDefinition<_csi_v0_ValidateVolumeCapabilitiesResponse, _csi_v0_ValidateVolumeCapabilitiesResponse__Output>
      Volume: MessageTypeDefinition<_csi_v0_Volume, _csi_v0_Volume__Output>
      VolumeCapability: MessageTypeDefinition<_csi_v0_VolumeCapability, _csi_v0_VolumeCapability__Output>
      VolumeContentSource: MessageTypeDefinition<_csi_v0_VolumeContentSource, _csi_v0_VolumeContentSource__Output>
    }
  }
  google: {
    protobuf: {
      BoolValue: MessageTypeDefinition<_google_protobuf_BoolValue, _google_protobuf_BoolValue__Output>
      BytesValue: MessageTypeDefinition<_google_protobuf_BytesValue, _google_protobuf_BytesValue__Output>
      DescriptorProto: MessageTypeDefinition<_google_protobuf_DescriptorProto, _google_protobuf_DescriptorProto__Output>
      DoubleValue: MessageTypeDefinition<_google_protobuf_DoubleValue, _google_protobuf_DoubleValue__Output>
      Edition: EnumTypeDefinition
      EnumDescriptorProto: MessageTypeDefinition<_google_protobuf_EnumDescriptorProto, _google_protobuf_EnumDescriptorProto__Output>
      EnumOptions: MessageTypeDefinition<_google_protobuf_EnumOptions, _google_protobuf_EnumOptions__Output>
      EnumValueDescriptorProto: MessageTypeDefinition<_google_protobuf_EnumValueDescriptorProto, _google_protobuf_EnumValueDescriptorProto__Output>
      EnumValueOptions: MessageTypeDefinition<_google_protobuf_EnumValueOptions, _google_protobuf_EnumValueOptions__Output>
      ExtensionRangeOptions: MessageTypeDefinition<_google_protobuf_ExtensionRangeOptions, _google_protobuf_ExtensionRangeOptions__Output>
      FeatureSet: MessageTypeDefinition<_google_protobuf_FeatureSet, _google_protobuf_FeatureSet__Output>
      FeatureSetDefaults: MessageTypeDefinition<_google_protobuf_FeatureSetDefaults, _google_protobuf_FeatureSetDefaults__Output>
      FieldDescriptorProto: MessageTypeDefinition<_google_protobuf_FieldDescriptorProto, _google_protobuf_FieldDescriptorProto__Output>
      FieldOptions: MessageTypeDefinition<_google_protobuf_FieldOptions, _google_protobuf_FieldOptions__Output>
      FileDescriptorProto: MessageTypeDefinition<_google_protobuf_FileDescriptorProto, _google_protobuf_FileDescriptorProto__Output>
      FileDescriptorSet: MessageTypeDefinition<_google_protobuf_FileDescriptorSet, _google_protobuf_FileDescriptorSet__Output>
      FileOptions: MessageTypeDefinition<_google_protobuf_FileOptions, _google_protobuf_FileOptions__Output>
      FloatValue: MessageTypeDefinition<_google_protobuf_FloatValue, _google_protobuf_FloatValue__Output>
      GeneratedCodeInfo: MessageTypeDefinition<_google_protobuf_GeneratedCodeInfo, _google_protobuf_GeneratedCodeInfo__Output>
      Int32Value: MessageTypeDefinition<_google_protobuf_Int32Value, _google_protobuf_Int32Value__Output>
      Int64Value: MessageTypeDefinition<_google_protobuf_Int64Value, _google_protobuf_Int64Value__Output>
      MessageOptions: MessageTypeDefinition<_google_protobuf_MessageOptions, _google_protobuf_MessageOptions__Output>
      MethodDescriptorProto: MessageTypeDefinition<_google_protobuf_MethodDescriptorProto, _google_protobuf_MethodDescriptorProto__Output>
      MethodOptions: MessageTypeDefinition<_google_protobuf_MethodOptions, _google_protobuf_MethodOptions__Output>
      OneofDescriptorProto: MessageTypeDefinition<_google_protobuf_OneofDescriptorProto, _google_protobuf_OneofDescriptorProto__Output>
      OneofOptions: MessageTypeDefinition<_google_protobuf_OneofOptions, _google_protobuf_OneofOptions__Output>
      ServiceDescriptorProto: MessageTypeDefinition<_google_protobuf_ServiceDescriptorProto, _google_protobuf_ServiceDescriptorProto__Output>
      ServiceOptions: MessageTypeDefinition<_google_protobuf_ServiceOptions, _google_protobuf_ServiceOptions__Output>
      SourceCodeInfo: MessageTypeDefinition<_google_protobuf_SourceCodeInfo, _google_protobuf_SourceCodeInfo__Output>
      StringValue: MessageTypeDefinition<_google_protobuf_StringValue, _google_protobuf_StringValue__Output>
      SymbolVisibility: EnumTypeDefinition
      UInt32Value: MessageTypeDefinition<_google_protobuf_UInt32Value, _google_protobuf_UInt32Value__Output>
      UInt64Value: MessageTypeDefinition<_google_protobuf_UInt64Value, _google_protobuf_UInt64Value__Output>
      UninterpretedOption: MessageTypeDefinition<_google_protobuf_UninterpretedOption, _google_protobuf_UninterpretedOption__Output>
    }
  }
}

