/**
 * The CSI interface, loaded from proto/csi.proto: reflection of messages and fields, and service
 * definitions for gRPC servers and clients. The interfaces before v1 are loaded in the same way. Knows nothing
 * of what any RPC does.
 *
 * Messages in JavaScript: field names as in the proto; int64 as decimal strings; enum values by name,
 * or by number if this proto does not know the value; unset messages as null; unset scalars, lists and
 * maps as their empty value. A member of a oneof is present only when it is set, and the oneof's own
 * name then holds the member's name. The types in csi/generated follow from this.
 */
import type { MethodDefinition, ServiceDefinition } from '@grpc/grpc-js';
import { addCommonProtos, type Options } from '@grpc/proto-loader/build/src/util.js';
import protobuf from 'protobufjs';
import { packagePath } from '../package-root.js';
import type { ServiceName } from './service.js';

/** The proto package; message and service names are relative to it everywhere else. */
export const CSI_PACKAGE = 'csi.v1';

const SERVICE_NAMES: readonly ServiceName[] = ['Identity', 'Controller', 'GroupController', 'Node', 'SnapshotMetadata'];

/** How messages become plain objects, here and in server/calls/request-decoder.ts. */
export const CONVERSION: Options = {
  keepCase: true,
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
};

export type CsiServices = Readonly<Record<ServiceName, ServiceDefinition>>;

/** A loaded proto file, and those of its services that were asked for. */
export interface LoadedProto<Name extends string> {
  /** Every message, enum and service, resolved, with the proto's options. Must not be modified. */
  readonly root: protobuf.Root;
  readonly services: Readonly<Record<Name, ServiceDefinition>>;
}

export type CsiProto = LoadedProto<ServiceName>;

// Imports of google/protobuf are not read from disk: protobufjs and proto-loader contain them.
addCommonProtos();

let loaded: CsiProto | undefined;
let served: CsiServices | undefined;

/** The interface with plain serializers. The first call loads it and throws if that fails. */
export function csiProto(): CsiProto {
  loaded ??= loadProto('proto/csi.proto', CSI_PACKAGE, SERVICE_NAMES);
  return loaded;
}

/** Definitions for a client of the plugin: every method takes and returns objects. */
export function clientServices(): CsiServices {
  return csiProto().services;
}

/**
 * Definitions for the server. They differ from the client's in the responses of streaming methods: a
 * handler writes bytes that are already encoded, and gRPC sends them unchanged.
 */
export function servedServices(): CsiServices {
  served ??= mapNames(SERVICE_NAMES, (name) => withEncodedStreams(clientServices()[name]));
  return served;
}

/** @param typeName relative to csi.v1, such as `CreateVolumeRequest`. Throws if there is no such type. */
export function csiMessage(typeName: string): protobuf.Type {
  return csiProto().root.lookupType(`${CSI_PACKAGE}.${typeName}`);
}

/** @param typeName as above */
export function encodeMessage(typeName: string, message: object): Buffer {
  const type = csiMessage(typeName);
  return Buffer.from(type.encode(type.fromObject(message)).finish());
}

/** @param typeName as above. Throws if the bytes are not such a message. */
export function decodeMessage<Message>(typeName: string, bytes: Buffer): Message {
  const type = csiMessage(typeName);
  return type.toObject(type.decode(bytes), CONVERSION) as Message;
}

/** @param file the path relative to the package */
export function loadProto<Name extends string>(
  file: string,
  packageName: string,
  names: readonly Name[],
): LoadedProto<Name> {
  const root = new protobuf.Root();
  root.loadSync(packagePath(file), { keepCase: true }).resolveAll();
  const services = mapNames(names, (name) => definitionOf(root.lookupService(`${packageName}.${name}`)));
  return { root, services };
}

/** The definition of proto-loader, but without the descriptors of all messages, which take as long as the rest of a start. */
function definitionOf(service: protobuf.Service): ServiceDefinition {
  const methods = service.methodsArray.map((method): [string, MethodDefinition<object, object>] => {
    const request = codecOf(method.resolvedRequestType);
    const response = codecOf(method.resolvedResponseType);
    const definition = {
      path: `/${service.fullName.slice(1)}/${method.name}`,
      requestStream: method.requestStream === true,
      responseStream: method.responseStream === true,
      requestSerialize: request.serialize,
      requestDeserialize: request.deserialize,
      responseSerialize: response.serialize,
      responseDeserialize: response.deserialize,
    };
    return [method.name, definition];
  });
  return Object.fromEntries(methods);
}

function codecOf(type: protobuf.Type | null) {
  if (type === null) throw new Error('the proto is not resolved');
  return {
    serialize: (message: object) => type.encode(type.fromObject(message)).finish() as Buffer,
    deserialize: (bytes: Buffer): object => type.toObject(type.decode(bytes), CONVERSION),
  };
}

/** @param service with its package */
export function requestTypeOf(root: protobuf.Root, service: string, rpc: string): protobuf.Type {
  const method = root.lookupService(service).methods[rpc];
  method?.resolve();
  const type = method?.resolvedRequestType ?? null;
  if (type === null) throw new Error(`the proto has no ${service}.${rpc}`);
  return type;
}

function mapNames<Name extends string>(
  names: readonly Name[],
  definitionOf: (name: Name) => ServiceDefinition,
): Readonly<Record<Name, ServiceDefinition>> {
  const entries = names.map((name) => [name, definitionOf(name)] as const);
  return Object.fromEntries(entries) as unknown as Record<Name, ServiceDefinition>;
}

function withEncodedStreams(definition: ServiceDefinition): ServiceDefinition {
  const methods = Object.entries(definition).map(([rpc, method]) => [
    rpc,
    method.responseStream ? { ...method, responseSerialize: sendAsIs } : method,
  ]);
  return Object.fromEntries(methods) as ServiceDefinition;
}

/** The serializer of a method whose handler returns wire bytes. */
export function sendAsIs(message: Buffer): Buffer {
  return message;
}
