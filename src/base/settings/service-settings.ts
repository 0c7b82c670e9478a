/** The settings that the plugin and the router have in common, and what they mean. */
import { CSI_LEVELS } from '../csi/capabilities.js';
import { LOG_LEVELS } from '../logger.js';
import type { ReaderOf, Setting } from './reader.js';
import { parseDriverName, parseEndpoint, parseHostPort, parseSocketMode, parseTopologyKey } from './values.js';

export const SERVICE_SETTINGS = {
  CSI_ENDPOINT: {
    fallback: null,
    range: '`unix:///DIRECTORY/NAME.sock`, a path of at most 107 bytes',
    meaning: 'the socket to serve on; its directory must exist',
  },
  BLOCKDELTA_SOCKET_MODE: { fallback: '0600', range: 'three octal digits', meaning: 'file mode of the socket' },
  BLOCKDELTA_DRIVER_NAME: {
    fallback: 'blockdelta.csi',
    range: 'domain name, 2 to 63 characters, a letter first and last',
    meaning:
      "the plugin's name in GetPluginInfo; a router needs the name of its nodes, which refuse calls for another one",
  },
  BLOCKDELTA_TOPOLOGY_KEY: {
    fallback: null,
    unset: '`<driver name>/node`',
    range: 'prefix/name, 63 characters each',
    meaning: "key of a node's topology segment; the same on all nodes and on the router",
  },
  BLOCKDELTA_CSI_LEVEL: {
    fallback: '1.12',
    range: CSI_LEVELS,
    meaning:
      'the CSI version whose capabilities are advertised; a router advertises only those that all answering nodes have. See ' +
      'docs/configuration.md#csi-level',
  },
  BLOCKDELTA_LOG_LEVEL: { fallback: 'info', range: LOG_LEVELS, meaning: 'lowest level of the JSON lines on stderr' },
  BLOCKDELTA_METRICS_ADDRESS: {
    fallback: null,
    unset: 'off',
    range: '`host:port`, an IPv6 address in brackets; with port 0 the kernel chooses one, and the start line names it',
    meaning: 'where `/metrics`, `/healthz` and `/readyz` are served; see docs/metrics.md',
  },
  BLOCKDELTA_SHUTDOWN_GRACE_SECONDS: {
    fallback: '20',
    range: [0, 3600],
    meaning: 'how long calls in flight may continue after SIGTERM',
  },
  BLOCKDELTA_MAX_CONNECTIONS: {
    fallback: '128',
    range: [8, 10_000],
    meaning:
      'connections at once, to the socket and from routers; at the limit the plugin closes an idle one for a new one. A low ' +
      'limit of open files reduces the number. See docs/limits.md#connections for this limit and the next three',
  },
  BLOCKDELTA_MAX_CALLS: {
    fallback: '1000',
    range: [16, 100_000],
    meaning: 'calls in flight at once; further calls are UNAVAILABLE',
  },
  BLOCKDELTA_MAX_STREAMS: {
    fallback: '64',
    range: [1, 10_000],
    meaning:
      'GetMetadataAllocated and GetMetadataDelta streams at once; at the limit a new stream may replace another, ' +
      'first one whose client does not read',
  },
  BLOCKDELTA_STREAM_STALL_SECONDS: {
    fallback: '60',
    range: [1, 86_400],
    meaning: 'how long the client of such a stream may take no message before the stream ends',
  },
} as const satisfies Readonly<Record<string, Setting>>;

/** SERVICE_SETTINGS explains each setting; the names of the fields end with their units. */
export type ServiceConfig = Readonly<ReturnType<typeof parseServiceSettings>>;

/**
 * The driver's name, and the key of the topology in which a node's volumes are.
 *
 * @throws ConfigError
 */
export function parseDriverIdentity({ given, text }: Pick<ReaderOf<typeof SERVICE_SETTINGS>, 'given' | 'text'>) {
  const driverName = parseDriverName(text('BLOCKDELTA_DRIVER_NAME'));
  const topologyKey = parseTopologyKey(given('BLOCKDELTA_TOPOLOGY_KEY') ?? `${driverName.toLowerCase()}/node`);
  return { driverName, topologyKey };
}

/** @throws ConfigError for the first invalid setting */
export function parseServiceSettings(reader: ReaderOf<typeof SERVICE_SETTINGS>) {
  const { given, text, count, choice } = reader;
  const socketPath = parseEndpoint(given('CSI_ENDPOINT'));
  const metrics = given('BLOCKDELTA_METRICS_ADDRESS');
  return {
    endpoint: `unix://${socketPath}`,
    socketPath,
    socketMode: parseSocketMode(text('BLOCKDELTA_SOCKET_MODE')),
    ...parseDriverIdentity(reader),
    csiLevel: choice('BLOCKDELTA_CSI_LEVEL', CSI_LEVELS),
    logLevel: choice('BLOCKDELTA_LOG_LEVEL', LOG_LEVELS),
    metricsAddress: metrics === undefined ? null : parseHostPort('BLOCKDELTA_METRICS_ADDRESS', metrics),
    shutdownGraceMs: 1000 * count('BLOCKDELTA_SHUTDOWN_GRACE_SECONDS'),
    maxConnections: count('BLOCKDELTA_MAX_CONNECTIONS'),
    maxCalls: count('BLOCKDELTA_MAX_CALLS'),
    maxStreams: count('BLOCKDELTA_MAX_STREAMS'),
    streamStallMs: 1000 * count('BLOCKDELTA_STREAM_STALL_SECONDS'),
  };
}
