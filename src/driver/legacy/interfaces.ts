/**
 * The RPCs of the older interfaces that the settings name, each with its translation to v1. A plugin without such a
 * setting loads neither this file nor the protos.
 */
import { loadProto, requestTypeOf } from '../../base/csi/proto.js';
import type { FindHandler, ServedRpc } from '../../server/calls/served-rpc.js';
import type { LegacyVersion } from '../config/config.js';
import * as csi01 from './csi-0.1.js';
import * as csi03 from './csi-0.3.js';
import { OwnStaging, type OwnStagingOptions } from './own-staging.js';
import type { Translations } from './translation.js';
import { type Edge, V1Calls } from './v1-calls.js';

const SERVICES = ['Identity', 'Controller', 'Node'] as const;

export function legacyRpcs(versions: readonly LegacyVersion[], staging: OwnStagingOptions): ServedRpc[] {
  return versions.flatMap((version) =>
    version === '0.3'
      ? rpcsOf('proto/csi-v0.3.proto', csi03.edge, csi03.translations)
      : rpcsOf('proto/csi-v0.1.proto', csi01.edge, csi01.translations(new OwnStaging(staging))),
  );
}

function rpcsOf(proto: string, edge: Edge, translations: Translations): ServedRpc[] {
  const { root, services } = loadProto(proto, edge.packageName, SERVICES);
  return SERVICES.flatMap((name) => {
    const service = `${edge.packageName}.${name}`;
    return Object.entries(services[name]).map(([rpc, definition]) => {
      const translation = translations[rpc];
      if (translation === undefined) throw new Error(`${service}.${rpc} has no translation`);
      return {
        service,
        name: rpc,
        definition,
        requestType: requestTypeOf(root, service, rpc),
        handler: (find: FindHandler) => async (request: never, context) =>
          translation(request, new V1Calls(find, context, edge)),
      } satisfies ServedRpc;
    });
  });
}
