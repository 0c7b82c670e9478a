/**
 * The RPCs of the interfaces before v1 that are to be served, each with its translation. Only a plugin with
 * such a setting loads this file and the protos.
 */
import type { MethodDefinition } from '@grpc/grpc-js';
import type protobuf from 'protobufjs';
import { loadProto, requestTypeOf } from '../../base/csi/proto.js';
import type { AnyUnaryHandler } from '../../base/csi/service.js';
import type { LegacyVersion } from '../config/config.js';
import * as csi01 from './csi-0.1.js';
import * as csi03 from './csi-0.3.js';
import { OwnStaging, type OwnStagingOptions } from './own-staging.js';
import type { AnyTranslation, LegacyServiceName } from './translation.js';
import { type FieldNames, type FindHandler, V1Calls } from './v1-calls.js';

export interface LegacyRpc {
  /** With its package: `csi.v0.Node`. */
  readonly service: string;
  readonly name: string;
  readonly definition: MethodDefinition<object, object>;
  readonly requestType: protobuf.Type;
  /** @param find finds handlers of v1 */
  handler(find: FindHandler): AnyUnaryHandler;
}

interface LegacyInterface {
  readonly proto: string;
  readonly packageName: string;
  readonly translations: Readonly<
    Record<LegacyServiceName, Readonly<Record<string, AnyTranslation>>>
  >;
  readonly fieldNames: FieldNames;
}

const SERVICES: readonly LegacyServiceName[] = ['Identity', 'Controller', 'Node'];

export function legacyRpcs(
  versions: readonly LegacyVersion[],
  staging: OwnStagingOptions,
): LegacyRpc[] {
  return versions.flatMap((version) =>
    rpcsOf(version === '0.3' ? csi03Interface() : csi01Interface(staging)),
  );
}

function csi03Interface(): LegacyInterface {
  const { identity, controller, node, fieldNames } = csi03;
  const translations = { Identity: identity, Controller: controller, Node: node };
  return { proto: 'proto/csi-v0.3.proto', packageName: 'csi.v0', translations, fieldNames };
}

function csi01Interface(staging: OwnStagingOptions): LegacyInterface {
  const translations = csi01.translations(new OwnStaging(staging));
  const { fieldNames } = csi01;
  return { proto: 'proto/csi-v0.1.proto', packageName: 'csi', translations, fieldNames };
}

function rpcsOf({ proto, packageName, translations, fieldNames }: LegacyInterface): LegacyRpc[] {
  const { root, services } = loadProto(proto, packageName, SERVICES);
  return SERVICES.flatMap((name) => {
    const service = `${packageName}.${name}`;
    return Object.entries(services[name]).map(([rpc, definition]) => {
      const translation = translations[name][rpc];
      if (translation === undefined) throw new Error(`${service}.${rpc} has no translation`);
      return {
        service,
        name: rpc,
        definition,
        requestType: requestTypeOf(root, service, rpc),
        handler: (find: FindHandler) => async (request: never, context) =>
          translation(request, new V1Calls(find, context, packageName, fieldNames)),
      } satisfies LegacyRpc;
    });
  });
}
