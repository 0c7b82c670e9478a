/**
 * The CSI interface, loaded from proto/csi.proto: reflection of messages and fields, and service
 * definitions for gRPC servers and clients. Knows nothing of what any RPC does.
 *
 * Messages in JavaScript: field names as in the proto; int64 as decimal strings; enum values by name,
 * or by number if this proto does not know the value; unset messages as null; unset scalars, lists and
 * maps as their empty value. A member of a oneof is present only when it is set, and the oneof's own
 * name then holds the member's name. The types in csi/generated follow from this.
 */
import type { ServiceDefinition } from '@grpc/grpc-js';
import { fromJSON, type Options } from '@grpc/proto-loader';
import protobuf from 'protobufjs';
import { packagePath } from '../base/package-root.js';
import type { ServiceName } from './service.js';

/** The proto package; message and service names are relative to it everywhere else. */
export const CSI_PACKAGE = 'csi.v1';

const SERVICE_NAMES: readonly ServiceName[] = [
  'Identity',
  'Controller',
  'GroupController',
  'Node',
  'SnapshotMetadata',
];

/** How messages become plain objects, in proto-loader and in csi/request-decoder.ts. */
export const CONVERSION: Options = {
  keepCase: true,
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
};

export type CsiServices = Readonly<Record<ServiceName, ServiceDefinition>>;

export interface CsiProto {
  /** Every message, enum and service, resolved, with the proto's options. Must not be modified. */
  readonly root: protobuf.Root;
  readonly services: CsiServices;
}

let loaded: CsiProto | undefined;
let served: CsiServices | undefined;

/** The interface with plain serializers. The first call loads it and throws if that fails. */
export function csiProto(): CsiProto {
  loaded ??= load();
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
  served ??= mapServices((name) => withEncodedStreams(clientServices()[name]));
  return served;
}

function load(): CsiProto {
  const root = new protobuf.Root();
  // Imports of google/protobuf are not read from disk: protobufjs and proto-loader contain them.
  root.loadSync(packagePath('proto/csi.proto'), { keepCase: true }).resolveAll();
  const definitions = fromJSON(root.toJSON(), CONVERSION);
  const services = mapServices((name) => {
    const definition = definitions[`${CSI_PACKAGE}.${name}`];
    if (definition === undefined) throw new Error(`proto/csi.proto has no service ${name}`);
    return definition as ServiceDefinition;
  });
  return { root, services };
}

function mapServices(definitionOf: (name: ServiceName) => ServiceDefinition): CsiServices {
  const entries = SERVICE_NAMES.map((name) => [name, definitionOf(name)] as const);
  return Object.fromEntries(entries) as unknown as CsiServices;
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
