/**
 * The settings of `blockdelta route`, parsed once from the environment. They have the names of those of
 * `serve` where they mean the same. Nothing else in the router reads process.env.
 */

import { CSI_LEVELS, type CsiLevel } from '../base/csi/capabilities.js';
import { LOG_LEVELS, type LogLevel } from '../base/logger.js';
import { SERVICE_SETTINGS, type Setting } from '../base/settings/service-settings.js';
import { parseTls, type TlsSettings } from '../base/settings/tls.js';
import { unknownSettings } from '../base/settings/unknown-settings.js';
import {
  ConfigError,
  type HostPort,
  parseChoice,
  parseDirectory,
  parseDriverName,
  parseEndpoint,
  parseHostPort,
  parseInteger,
  parseSocketMode,
  parseTopologyKey,
} from '../base/settings/values.js';

/** Where the list of nodes comes from. */
export type NodeSourceSettings =
  | { readonly kind: 'file'; readonly path: string }
  | {
      readonly kind: 'kubernetes';
      readonly namespace: string;
      readonly selector: string;
      /** On which the plugins in the pods listen. */
      readonly port: number;
    };

export interface RouteConfig {
  readonly endpoint: string;
  readonly socketPath: string;
  readonly socketMode: number;
  readonly driverName: string;
  readonly csiLevel: CsiLevel;
  readonly topologyKey: string;
  readonly tls: TlsSettings;
  readonly source: NodeSourceSettings;
  readonly logLevel: LogLevel;
  readonly metricsAddress: HostPort | null;
  readonly shutdownGraceMs: number;
  readonly maxConnections: number;
  readonly maxCalls: number;
  readonly maxStreams: number;
  readonly streamStallMs: number;
}

export const ROUTE_SETTINGS = {
  CSI_ENDPOINT: SERVICE_SETTINGS.CSI_ENDPOINT,
  BLOCKDELTA_SOCKET_MODE: SERVICE_SETTINGS.BLOCKDELTA_SOCKET_MODE,
  BLOCKDELTA_DRIVER_NAME: SERVICE_SETTINGS.BLOCKDELTA_DRIVER_NAME,
  BLOCKDELTA_TOPOLOGY_KEY: SERVICE_SETTINGS.BLOCKDELTA_TOPOLOGY_KEY,
  BLOCKDELTA_CSI_LEVEL: SERVICE_SETTINGS.BLOCKDELTA_CSI_LEVEL,
  BLOCKDELTA_ROUTE_NODES: {
    fallback: null,
    meaning:
      'where the nodes are: file:/path/nodes.json, or kubernetes:NAMESPACE/LABEL-SELECTOR (required)',
  },
  BLOCKDELTA_ROUTE_PORT: {
    fallback: '9810',
    meaning: 'port on which plugins listen that were found in Kubernetes',
  },
  BLOCKDELTA_TLS_CERTIFICATE: {
    fallback: null,
    meaning: "PEM file: this router's certificate with its chain (required)",
  },
  BLOCKDELTA_TLS_KEY: {
    fallback: null,
    meaning: 'PEM file: the private key of the certificate (required)',
  },
  BLOCKDELTA_TLS_CA: {
    fallback: null,
    meaning: 'PEM file: the authorities that sign the certificates of nodes (required)',
  },
  BLOCKDELTA_TLS_PEER_NAME: {
    fallback: 'blockdelta-node',
    meaning: "DNS name that a node's certificate must carry",
  },
  BLOCKDELTA_LOG_LEVEL: SERVICE_SETTINGS.BLOCKDELTA_LOG_LEVEL,
  BLOCKDELTA_METRICS_ADDRESS: SERVICE_SETTINGS.BLOCKDELTA_METRICS_ADDRESS,
  BLOCKDELTA_SHUTDOWN_GRACE_SECONDS: SERVICE_SETTINGS.BLOCKDELTA_SHUTDOWN_GRACE_SECONDS,
  BLOCKDELTA_MAX_CONNECTIONS: SERVICE_SETTINGS.BLOCKDELTA_MAX_CONNECTIONS,
  BLOCKDELTA_MAX_CALLS: SERVICE_SETTINGS.BLOCKDELTA_MAX_CALLS,
  BLOCKDELTA_MAX_STREAMS: {
    ...SERVICE_SETTINGS.BLOCKDELTA_MAX_STREAMS,
    // Those of many nodes together. A stream takes less memory here than at its node.
    fallback: '256',
  },
  BLOCKDELTA_STREAM_STALL_SECONDS: SERVICE_SETTINGS.BLOCKDELTA_STREAM_STALL_SECONDS,
} as const satisfies Readonly<Record<string, Setting>>;

type RouteSetting = keyof typeof ROUTE_SETTINGS;
type WithDefault = {
  [N in RouteSetting]: (typeof ROUTE_SETTINGS)[N]['fallback'] extends string ? N : never;
}[RouteSetting];

/**
 * An empty variable counts as unset.
 *
 * @param others settings of the plugin, which may be there: some share one file for both
 * @throws ConfigError for the first invalid setting
 */
export function parseRouteConfig(
  env: Readonly<Record<string, string | undefined>>,
  others: readonly string[] = [],
): RouteConfig {
  refuseMisspelt(env, others);
  const given = (name: RouteSetting) => env[name] || undefined;
  const text = (name: WithDefault) => given(name) ?? ROUTE_SETTINGS[name].fallback;
  const count = (name: WithDefault, minimum: number, maximum: number) =>
    parseInteger(name, text(name), minimum, maximum);
  const socketPath = parseEndpoint(given('CSI_ENDPOINT'));
  const driverName = parseDriverName(text('BLOCKDELTA_DRIVER_NAME'));
  const topologyKey = given('BLOCKDELTA_TOPOLOGY_KEY') ?? `${driverName.toLowerCase()}/node`;
  const metrics = given('BLOCKDELTA_METRICS_ADDRESS');
  const port = count('BLOCKDELTA_ROUTE_PORT', 1, 65_535);
  return Object.freeze({
    endpoint: `unix://${socketPath}`,
    socketPath,
    driverName,
    socketMode: parseSocketMode(text('BLOCKDELTA_SOCKET_MODE')),
    csiLevel: parseChoice('BLOCKDELTA_CSI_LEVEL', text('BLOCKDELTA_CSI_LEVEL'), CSI_LEVELS),
    topologyKey: parseTopologyKey(topologyKey),
    tls: parseTls(
      given,
      ROUTE_SETTINGS.BLOCKDELTA_TLS_PEER_NAME.fallback,
      'the router calls nodes over TCP',
    ),
    source: parseSource(given('BLOCKDELTA_ROUTE_NODES'), port),
    logLevel: parseChoice('BLOCKDELTA_LOG_LEVEL', text('BLOCKDELTA_LOG_LEVEL'), LOG_LEVELS),
    metricsAddress:
      metrics === undefined ? null : parseHostPort('BLOCKDELTA_METRICS_ADDRESS', metrics),
    shutdownGraceMs: 1000 * count('BLOCKDELTA_SHUTDOWN_GRACE_SECONDS', 0, 3600),
    maxConnections: count('BLOCKDELTA_MAX_CONNECTIONS', 8, 10_000),
    maxCalls: count('BLOCKDELTA_MAX_CALLS', 16, 100_000),
    maxStreams: count('BLOCKDELTA_MAX_STREAMS', 1, 10_000),
    streamStallMs: 1000 * count('BLOCKDELTA_STREAM_STALL_SECONDS', 1, 86_400),
  });
}

function refuseMisspelt(
  env: Readonly<Record<string, string | undefined>>,
  others: readonly string[],
): void {
  const known = [...Object.keys(ROUTE_SETTINGS), ...others];
  const found = unknownSettings(env, known).find(({ misspelt }) => misspelt);
  if (found === undefined) return;
  throw new ConfigError(`${found.name} is not a setting: did you mean ${found.nearest}?`);
}

function parseSource(value: string | undefined, port: number): NodeSourceSettings {
  const name = 'BLOCKDELTA_ROUTE_NODES';
  const example = 'file:/etc/blockdelta/nodes.json or kubernetes:blockdelta/app=blockdelta-node';
  if (value === undefined) {
    throw new ConfigError(`${name} is not set. Set it to where the nodes are, such as ${example}`);
  }
  if (value.startsWith('file:')) {
    return { kind: 'file', path: parseDirectory(name, value.slice('file:'.length)) };
  }
  const match = /^kubernetes:([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)\/([\x21-\x7e]+)$/.exec(value);
  if (match === null) throw new ConfigError(`${name} is '${value}': it must be like ${example}`);
  return { kind: 'kubernetes', namespace: match[1] ?? '', selector: match[3] ?? '', port };
}
