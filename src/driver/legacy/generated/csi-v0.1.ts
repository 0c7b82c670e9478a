import type * as grpc from '@grpc/grpc-js';
import type { EnumTypeDefinition, MessageTypeDefinition } from '@grpc/proto-loader';

import type { CapacityRange as _csi_CapacityRange, CapacityRange__Output as _csi_CapacityRange__Output } from './csi/CapacityRange.js';
import type { ControllerClient as _csi_ControllerClient, ControllerDefinition as _csi_ControllerDefinition } from './csi/Controller.js';
import type { ControllerGetCapabilitiesRequest as _csi_ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesRequest__Output as _csi_ControllerGetCapabilitiesRequest__Output } from './csi/ControllerGetCapabilitiesRequest.js';
import type { ControllerGetCapabilitiesResponse as _csi_ControllerGetCapabilitiesResponse, ControllerGetCapabilitiesResponse__Output as _csi_ControllerGetCapabilitiesResponse__Output } from './csi/ControllerGetCapabilitiesResponse.js';
import type { ControllerProbeRequest as _csi_ControllerProbeRequest, ControllerProbeRequest__Output as _csi_ControllerProbeRequest__Output } from './csi/ControllerProbeRequest.js';
import type { ControllerProbeResponse as _csi_ControllerProbeResponse, ControllerProbeResponse__Output as _csi_ControllerProbeResponse__Output } from './csi/ControllerProbeResponse.js';
import type { ControllerPublishVolumeRequest as _csi_ControllerPublishVolumeRequest, ControllerPublishVolumeRequest__Output as _csi_ControllerPublishVolumeRequest__Output } from './csi/ControllerPublishVolumeRequest.js';
import type { ControllerPublishVolumeResponse as _csi_ControllerPublishVolumeResponse, ControllerPublishVolumeResponse__Output as _csi_ControllerPublishVolumeResponse__Output } from './csi/ControllerPublishVolumeResponse.js';
import type { ControllerServiceCapability as _csi_ControllerServiceCapability, ControllerServiceCapability__Output as _csi_ControllerServiceCapability__Output } from './csi/ControllerServiceCapability.js';
import type { ControllerUnpublishVolumeRequest as _csi_ControllerUnpublishVolumeRequest, ControllerUnpublishVolumeRequest__Output as _csi_ControllerUnpublishVolumeRequest__Output } from './csi/ControllerUnpublishVolumeRequest.js';
import type { ControllerUnpublishVolumeResponse as _csi_ControllerUnpublishVolumeResponse, ControllerUnpublishVolumeResponse__Output as _csi_ControllerUnpublishVolumeResponse__Output } from './csi/ControllerUnpublishVolumeResponse.js';
import type { CreateVolumeRequest as _csi_CreateVolumeRequest, CreateVolumeRequest__Output as _csi_CreateVolumeRequest__Output } from './csi/CreateVolumeRequest.js';
import type { CreateVolumeResponse as _csi_CreateVolumeResponse, CreateVolumeResponse__Output as _csi_CreateVolumeResponse__Output } from './csi/CreateVolumeResponse.js';
import type { DeleteVolumeRequest as _csi_DeleteVolumeRequest, DeleteVolumeRequest__Output as _csi_DeleteVolumeRequest__Output } from './csi/DeleteVolumeRequest.js';
import type { DeleteVolumeResponse as _csi_DeleteVolumeResponse, DeleteVolumeResponse__Output as _csi_DeleteVolumeResponse__Output } from './csi/DeleteVolumeResponse.js';
import type { GetCapacityRequest as _csi_GetCapacityRequest, GetCapacityRequest__Output as _csi_GetCapacityRequest__Output } from './csi/GetCapacityRequest.js';
import type { GetCapacityResponse as _csi_GetCapacityResponse, GetCapacityResponse__Output as _csi_GetCapacityResponse__Output } from './csi/GetCapacityResponse.js';
import type { GetNodeIDRequest as _csi_GetNodeIDRequest, GetNodeIDRequest__Output as _csi_GetNodeIDRequest__Output } from './csi/GetNodeIDRequest.js';
import type { GetNodeIDResponse as _csi_GetNodeIDResponse, GetNodeIDResponse__Output as _csi_GetNodeIDResponse__Output } from './csi/GetNodeIDResponse.js';
import type { GetPluginInfoRequest as _csi_GetPluginInfoRequest, GetPluginInfoRequest__Output as _csi_GetPluginInfoRequest__Output } from './csi/GetPluginInfoRequest.js';
import type { GetPluginInfoResponse as _csi_GetPluginInfoResponse, GetPluginInfoResponse__Output as _csi_GetPluginInfoResponse__Output } from './csi/GetPluginInfoResponse.js';
import type { GetSupportedVersionsRequest as _csi_GetSupportedVersionsRequest, GetSupportedVersionsRequest__Output as _csi_GetSupportedVersionsRequest__Output } from './csi/GetSupportedVersionsRequest.js';
import type { GetSupportedVersionsResponse as _csi_GetSupportedVersionsResponse, GetSupportedVersionsResponse__Output as _csi_GetSupportedVersionsResponse__Output } from './csi/GetSupportedVersionsResponse.js';
import type { IdentityClient as _csi_IdentityClient, IdentityDefinition as _csi_IdentityDefinition } from './csi/Identity.js';
import type { ListVolumesRequest as _csi_ListVolumesRequest, ListVolumesRequest__Output as _csi_ListVolumesRequest__Output } from './csi/ListVolumesRequest.js';
import type { ListVolumesResponse as _csi_ListVolumesResponse, ListVolumesResponse__Output as _csi_ListVolumesResponse__Output } from './csi/ListVolumesResponse.js';
import type { NodeClient as _csi_NodeClient, NodeDefinition as _csi_NodeDefinition } from './csi/Node.js';
import type { NodeGetCapabilitiesRequest as _csi_NodeGetCapabilitiesRequest, NodeGetCapabilitiesRequest__Output as _csi_NodeGetCapabilitiesRequest__Output } from './csi/NodeGetCapabilitiesRequest.js';
import type { NodeGetCapabilitiesResponse as _csi_NodeGetCapabilitiesResponse, NodeGetCapabilitiesResponse__Output as _csi_NodeGetCapabilitiesResponse__Output } from './csi/NodeGetCapabilitiesResponse.js';
import type { NodeProbeRequest as _csi_NodeProbeRequest, NodeProbeRequest__Output as _csi_NodeProbeRequest__Output } from './csi/NodeProbeRequest.js';
import type { NodeProbeResponse as _csi_NodeProbeResponse, NodeProbeResponse__Output as _csi_NodeProbeResponse__Output } from './csi/NodeProbeResponse.js';
import type { NodePublishVolumeRequest as _csi_NodePublishVolumeRequest, NodePublishVolumeRequest__Output as _csi_NodePublishVolumeRequest__Output } from './csi/NodePublishVolumeRequest.js';
import type { NodePublishVolumeResponse as _csi_NodePublishVolumeResponse, NodePublishVolumeResponse__Output as _csi_NodePublishVolumeResponse__Output } from './csi/NodePublishVolumeResponse.js';
import type { NodeServiceCapability as _csi_NodeServiceCapability, NodeServiceCapability__Output as _csi_NodeServiceCapability__Output } from './csi/NodeServiceCapability.js';
import type { NodeUnpublishVolumeRequest as _csi_NodeUnpublishVolumeRequest, NodeUnpublishVolumeRequest__Output as _csi_NodeUnpublishVolumeRequest__Output } from './csi/NodeUnpublishVolumeRequest.js';
import type { NodeUnpublishVolumeResponse as _csi_NodeUnpublishVolumeResponse, NodeUnpublishVolumeResponse__Output as _csi_NodeUnpublishVolumeResponse__Output } from './csi/NodeUnpublishVolumeResponse.js';
import type { ValidateVolumeCapabilitiesRequest as _csi_ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesRequest__Output as _csi_ValidateVolumeCapabilitiesRequest__Output } from './csi/ValidateVolumeCapabilitiesRequest.js';
import type { ValidateVolumeCapabilitiesResponse as _csi_ValidateVolumeCapabilitiesResponse, ValidateVolumeCapabilitiesResponse__Output as _csi_ValidateVolumeCapabilitiesResponse__Output } from './csi/ValidateVolumeCapabilitiesResponse.js';
import type { Version as _csi_Version, Version__Output as _csi_Version__Output } from './csi/Version.js';
import type { VolumeCapability as _csi_VolumeCapability, VolumeCapability__Output as _csi_VolumeCapability__Output } from './csi/VolumeCapability.js';
import type { VolumeInfo as _csi_VolumeInfo, VolumeInfo__Output as _csi_VolumeInfo__Output } from './csi/VolumeInfo.js';
import type { DescriptorProto as _google_protobuf_DescriptorProto, DescriptorProto__Output as _google_protobuf_DescriptorProto__Output } from './google/protobuf/DescriptorProto.js';
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
import type { GeneratedCodeInfo as _google_protobuf_GeneratedCodeInfo, GeneratedCodeInfo__Output as _google_protobuf_GeneratedCodeInfo__Output } from './google/protobuf/GeneratedCodeInfo.js';
import type { MessageOptions as _google_protobuf_MessageOptions, MessageOptions__Output as _google_protobuf_MessageOptions__Output } from './google/protobuf/MessageOptions.js';
import type { MethodDescriptorProto as _google_protobuf_MethodDescriptorProto, MethodDescriptorProto__Output as _google_protobuf_MethodDescriptorProto__Output } from './google/protobuf/MethodDescriptorProto.js';
import type { MethodOptions as _google_protobuf_MethodOptions, MethodOptions__Output as _google_protobuf_MethodOptions__Output } from './google/protobuf/MethodOptions.js';
import type { OneofDescriptorProto as _google_protobuf_OneofDescriptorProto, OneofDescriptorProto__Output as _google_protobuf_OneofDescriptorProto__Output } from './google/protobuf/OneofDescriptorProto.js';
import type { OneofOptions as _google_protobuf_OneofOptions, OneofOptions__Output as _google_protobuf_OneofOptions__Output } from './google/protobuf/OneofOptions.js';
import type { ServiceDescriptorProto as _google_protobuf_ServiceDescriptorProto, ServiceDescriptorProto__Output as _google_protobuf_ServiceDescriptorProto__Output } from './google/protobuf/ServiceDescriptorProto.js';
import type { ServiceOptions as _google_protobuf_ServiceOptions, ServiceOptions__Output as _google_protobuf_ServiceOptions__Output } from './google/protobuf/ServiceOptions.js';
import type { SourceCodeInfo as _google_protobuf_SourceCodeInfo, SourceCodeInfo__Output as _google_protobuf_SourceCodeInfo__Output } from './google/protobuf/SourceCodeInfo.js';
import type { UninterpretedOption as _google_protobuf_UninterpretedOption, UninterpretedOption__Output as _google_protobuf_UninterpretedOption__Output } from './google/protobuf/UninterpretedOption.js';

type SubtypeConstructor<Constructor extends new (...args: any) => any, Subtype> = {
  new(...args: ConstructorParameters<Constructor>): Subtype;
};

export interface ProtoGrpcType {
  csi: {
    CapacityRange: MessageTypeDefinition<_csi_CapacityRange, _csi_CapacityRange__Output>
    Controller: SubtypeConstructor<typeof grpc.Client, _csi_ControllerClient> & { service: _csi_ControllerDefinition }
    ControllerGetCapabilitiesRequest: MessageTypeDefinition<_csi_ControllerGetCapabilitiesRequest, _csi_ControllerGetCapabilitiesRequest__Output>
    ControllerGetCapabilitiesResponse: MessageTypeDefinition<_csi_ControllerGetCapabilitiesResponse, _csi_ControllerGetCapabilitiesResponse__Output>
    ControllerProbeRequest: MessageTypeDefinition<_csi_ControllerProbeRequest, _csi_ControllerProbeRequest__Output>
    ControllerProbeResponse: MessageTypeDefinition<_csi_ControllerProbeResponse, _csi_ControllerProbeResponse__Output>
    ControllerPublishVolumeRequest: MessageTypeDefinition<_csi_ControllerPublishVolumeRequest, _csi_ControllerPublishVolumeRequest__Output>
    ControllerPublishVolumeResponse: MessageTypeDefinition<_csi_ControllerPublishVolumeResponse, _csi_ControllerPublishVolumeResponse__Output>
    ControllerServiceCapability: MessageTypeDefinition<_csi_ControllerServiceCapability, _csi_ControllerServiceCapability__Output>
    ControllerUnpublishVolumeRequest: MessageTypeDefinition<_csi_ControllerUnpublishVolumeRequest, _csi_ControllerUnpublishVolumeRequest__Output>
    ControllerUnpublishVolumeResponse: MessageTypeDefinition<_csi_ControllerUnpublishVolumeResponse, _csi_ControllerUnpublishVolumeResponse__Output>
    CreateVolumeRequest: MessageTypeDefinition<_csi_CreateVolumeRequest, _csi_CreateVolumeRequest__Output>
    CreateVolumeResponse: MessageTypeDefinition<_csi_CreateVolumeResponse, _csi_CreateVolumeResponse__Output>
    DeleteVolumeRequest: MessageTypeDefinition<_csi_DeleteVolumeRequest, _csi_DeleteVolumeRequest__Output>
    DeleteVolumeResponse: MessageTypeDefinition<_csi_DeleteVolumeResponse, _csi_DeleteVolumeResponse__Output>
    GetCapacityRequest: MessageTypeDefinition<_csi_GetCapacityRequest, _csi_GetCapacityRequest__Output>
    GetCapacityResponse: MessageTypeDefinition<_csi_GetCapacityResponse, _csi_GetCapacityResponse__Output>
    GetNodeIDRequest: MessageTypeDefinition<_csi_GetNodeIDRequest, _csi_GetNodeIDRequest__Output>
    GetNodeIDResponse: MessageTypeDefinition<_csi_GetNodeIDResponse, _csi_GetNodeIDResponse__Output>
    GetPluginInfoRequest: MessageTypeDefinition<_csi_GetPluginInfoRequest, _csi_GetPluginInfoRequest__Output>
    GetPluginInfoResponse: MessageTypeDefinition<_csi_GetPluginInfoResponse, _csi_GetPluginInfoResponse__Output>
    GetSupportedVersionsRequest: MessageTypeDefinition<_csi_GetSupportedVersionsRequest, _csi_GetSupportedVersionsRequest__Output>
    GetSupportedVersionsResponse: MessageTypeDefinition<_csi_GetSupportedVersionsResponse, _csi_GetSupportedVersionsResponse__Output>
    Identity: SubtypeConstructor<typeof grpc.Client, _csi_IdentityClient> & { service: _csi_IdentityDefinition }
    ListVolumesRequest: MessageTypeDefinition<_csi_ListVolumesRequest, _csi_ListVolumesRequest__Output>
    ListVolumesResponse: MessageTypeDefinition<_csi_ListVolumesResponse, _csi_ListVolumesResponse__Output>
    Node: SubtypeConstructor<typeof grpc.Client, _csi_NodeClient> & { service: _csi_NodeDefinition }
    NodeGetCapabilitiesRequest: MessageTypeDefinition<_csi_NodeGetCapabilitiesRequest, _csi_NodeGetCapabilitiesRequest__Output>
    NodeGetCapabilitiesResponse: MessageTypeDefinition<_csi_NodeGetCapabilitiesResponse, _csi_NodeGetCapabilitiesResponse__Output>
    NodeProbeRequest: MessageTypeDefinition<_csi_NodeProbeRequest, _csi_NodeProbeRequest__Output>
    NodeProbeResponse: MessageTypeDefinition<_csi_NodeProbeResponse, _csi_NodeProbeResponse__Output>
    NodePublishVolumeRequest: MessageTypeDefinition<_csi_NodePublishVolumeRequest, _csi_NodePublishVolumeRequest__Output>
    NodePublishVolumeResponse: MessageTypeDefinition<_csi_NodePublishVolumeResponse, _csi_NodePublishVolumeResponse__Output>
    NodeServiceCapability: MessageTypeDefinition<_csi_NodeServiceCapability, _csi_NodeServiceCapability__Output>
    NodeUnpublishVolumeRequest: MessageTypeDefinition<_csi_NodeUnpublishVolumeRequest, _csi_NodeUnpublishVolumeRequest__Output>
    NodeUnpublishVolumeResponse: MessageTypeDefinition<_csi_NodeUnpublishVolumeResponse, _csi_NodeUnpublishVolumeResponse__Output>
    ValidateVolumeCapabilitiesRequest: MessageTypeDefinition<_csi_ValidateVolumeCapabilitiesRequest, _csi_ValidateVolumeCapabilitiesRequest__Output>
    ValidateVolumeCapabilitiesResponse: MessageTypeDefinition<_csi_ValidateVolumeCapabilitiesResponse, _csi_ValidateVolumeCapabilitiesResponse__Output>
    Version: MessageTypeDefinition<_csi_Version, _csi_Version__Output>
    VolumeCapability: MessageTypeDefinition<_csi_VolumeCapability, _csi_VolumeCapability__Output>
    VolumeInfo: MessageTypeDefinition<_csi_VolumeInfo, _csi_VolumeInfo__Output>
  }
  google: {
    protobuf: {
      DescriptorProto: MessageTypeDefinition<_google_protobuf_DescriptorProto, _google_protobuf_DescriptorProto__Output>
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
      GeneratedCodeInfo: MessageTypeDefinition<_google_protobuf_GeneratedCodeInfo, _google_protobuf_GeneratedCodeInfo__Output>
      MessageOptions: MessageTypeDefinition<_google_protobuf_MessageOptions, _google_protobuf_MessageOptions__Output>
      MethodDescriptorProto: MessageTypeDefinition<_google_protobuf_MethodDescriptorProto, _google_protobuf_MethodDescriptorProto__Output>
      MethodOptions: MessageTypeDefinition<_google_protobuf_MethodOptions, _google_protobuf_MethodOptions__Output>
      OneofDescriptorProto: MessageTypeDefinition<_google_protobuf_OneofDescriptorProto, _google_protobuf_OneofDescriptorProto__Output>
      OneofOptions: MessageTypeDefinition<_google_protobuf_OneofOptions, _google_protobuf_OneofOptions__Output>
      ServiceDescriptorProto: MessageTypeDefinition<_google_protobuf_ServiceDescriptorProto, _google_protobuf_ServiceDescriptorProto__Output>
      ServiceOptions: MessageTypeDefinition<_google_protobuf_ServiceOptions, _google_protobuf_ServiceOptions__Output>
      SourceCodeInfo: MessageTypeDefinition<_google_protobuf_SourceCodeInfo, _google_protobuf_SourceCodeInfo__Output>
      SymbolVisibility: EnumTypeDefinition
      UninterpretedOption: MessageTypeDefinition<_google_protobuf_UninterpretedOption, _google_protobuf_UninterpretedOption__Output>
    }
  }
}

