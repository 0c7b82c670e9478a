/** Builds the router from its settings: certificates, the source of nodes, connections, services. */

import { setFlagsFromString } from 'node:v8';
import type { Logger } from 'pino';
import { probe } from '../base/csi/probe.js';
import type { AnyService, CallContext } from '../base/csi/service.js';
import { LISTENER_FILES, PROCESS_FILES } from '../base/listening/open-files.js';
import { TlsFiles } from '../base/listening/tls-files.js';
import { packageVersion } from '../base/version.js';
import type { ServedRpc } from '../server/calls/served-rpc.js';
import { FileDiscovery } from './file-discovery.js';
import { KubernetesDiscovery } from './kubernetes-discovery.js';
import type { Clock, NodeSource } from './node-list.js';
import { Nodes } from './nodes.js';
import { routerRpcs } from './router-rpcs.js';
import { createRouterServices } from './services.js';
import type { RouteConfig } from './settings.js';

export interface Router {
  /** Served from the start. */
  readonly identity: AnyService;
  /** Served once the nodes are listed. */
  readonly services: readonly AnyService[];
  /** For operators. */
  readonly rpcs: readonly ServedRpc[];
  /** Resolves when there is a first list of nodes. Rejects with a StartError if there can be none. */
  discover(): Promise<void>;
  /** The answer of Probe, for the readiness check. */
  readonly isReady: boolean;
  close(): void;
}

/** Files for connections to 64 nodes, two for each node. */
const NODES_FILES = 128;

/**
 * Every 16 KiB of a stream are memory of their own. V8 counts what a thread of its own has yet to free, and then collects the
 * whole heap, again and again. The main thread frees it at once.
 */
export const SWEEP_AT_ONCE = '--no-concurrent-array-buffer-sweeping';

/** How many files a router opens beside the connections of its clients. */
export function routerFiles({ metricsAddress }: Pick<RouteConfig, 'metricsAddress'>): number {
  return PROCESS_FILES + NODES_FILES + (metricsAddress === null ? 0 : LISTENER_FILES);
}

/** Throws a StartError if the TLS files cannot be used. */
export async function createRouter(
  config: RouteConfig,
  logger: Logger,
  duplicateFound: () => void = () => undefined,
  now: Clock = () => performance.now(),
): Promise<Router> {
  setFlagsFromString(SWEEP_AT_ONCE);
  const { driverName, csiLevel, topologyKey } = config;
  const tls = await TlsFiles.open(config.tls, logger);
  const source: NodeSource =
    config.source.kind === 'file'
      ? new FileDiscovery(config.source.path, logger, now)
      : new KubernetesDiscovery(config.source, logger, now);
  const { peerName } = config.tls;
  const nodes = new Nodes({ driverName, tls, peerName, logger, source, now });
  const vendorVersion = packageVersion();
  const deps = { nodes, driverName, csiLevel, topologyKey, logger, now, duplicateFound, vendorVersion };
  const { services, pluginCapabilities, routerSide, stop } = createRouterServices(deps);
  return {
    // The router answers for itself whatever its nodes do, except about their capabilities.
    identity: {
      name: 'Identity',
      unary: {
        GetPluginInfo: async () => ({ name: driverName, vendor_version: vendorVersion }),
        GetPluginCapabilities: pluginCapabilities,
        Probe: (_request: object, context: CallContext) => probe(async () => nodes.isReady, context),
      },
      streams: {},
    } as unknown as AnyService,
    services,
    rpcs: routerRpcs(routerSide),
    discover: () => source.start((entries) => nodes.update(entries)),
    get isReady() {
      return nodes.isReady;
    },
    close: () => {
      void stop();
      source.stop();
      nodes.close();
      tls.close();
    },
  };
}
