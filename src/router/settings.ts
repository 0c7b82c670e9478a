/**
 * The settings of `blockdelta route`, parsed once from the environment. A setting with the same meaning as a setting of `serve`
 * has the same name. Nothing else in the router reads the environment.
 */

import { type Environment, ON_OFF, type Settings, settingsReader } from '../base/settings/reader.js';
import { parseServiceSettings, SERVICE_SETTINGS, type ServiceConfig } from '../base/settings/service-settings.js';
import { parseTls, type TlsSettings } from '../base/settings/tls.js';
import { refuseMisspelt } from '../base/settings/unknown-settings.js';
import { ConfigError, parseDirectory, parseInteger } from '../base/settings/values.js';
import type { ClusterAccess } from './object-watch.js';

export type NodeSourceSettings =
  | { readonly kind: 'file'; readonly path: string }
  | {
      readonly kind: 'kubernetes';
      readonly namespace: string;
      readonly selector: string;
      /** The port on which the plugins in the pods listen. */
      readonly port: number;
      readonly access: ClusterAccess;
      /** Whether nodes with a certain taint are retired. */
      readonly taints: boolean;
    };

export interface RouteConfig extends ServiceConfig {
  readonly tls: TlsSettings;
  readonly source: NodeSourceSettings;
}

const PEM = 'absolute path of a PEM file';

/** The settings that `serve` lacks, or has with another meaning or default. */
export const OWN_SETTINGS = {
  BLOCKDELTA_ROUTE_NODES: {
    fallback: null,
    range: '`file:/path/nodes.json` or `kubernetes:NAMESPACE/LABEL-SELECTOR`',
    meaning: 'where the nodes are',
  },
  BLOCKDELTA_ROUTE_PORT: {
    fallback: '9810',
    range: [1, 65_535],
    meaning: 'port of the plugins that were found in Kubernetes',
  },
  BLOCKDELTA_ROUTE_ACCOUNT: {
    fallback: '/var/run/secrets/kubernetes.io/serviceaccount',
    range: 'absolute path',
    meaning: 'directory with `token` and `ca.crt` of the account that asks Kubernetes for pods',
  },
  BLOCKDELTA_ROUTE_TAINTS: {
    fallback: 'off',
    range: ON_OFF,
    meaning:
      'whether nodes with the taint `node.kubernetes.io/out-of-service` are retired; needs list and watch on nodes',
  },
  BLOCKDELTA_TLS_CERTIFICATE: { fallback: null, range: PEM, meaning: "the router's certificate with its chain" },
  BLOCKDELTA_TLS_KEY: { fallback: null, range: PEM, meaning: 'its private key' },
  BLOCKDELTA_TLS_CA: { fallback: null, range: PEM, meaning: 'the authorities that sign certificates of nodes' },
  BLOCKDELTA_TLS_PEER_NAME: {
    fallback: 'blockdelta-node',
    range: 'a DNS name',
    meaning: "the DNS name that a node's certificate must carry",
  },
  BLOCKDELTA_MAX_STREAMS: {
    // The router carries the streams of many nodes. A stream takes less memory here than at its node.
    fallback: '256',
    range: SERVICE_SETTINGS.BLOCKDELTA_MAX_STREAMS.range,
    meaning: `${SERVICE_SETTINGS.BLOCKDELTA_MAX_STREAMS.meaning}; each node also has its own limit`,
  },
} as const satisfies Settings;

export const ROUTE_SETTINGS = { ...SERVICE_SETTINGS, ...OWN_SETTINGS };

/**
 * @param others the settings of the plugin, which may also be set, because some operators share one file for both
 * @throws ConfigError for the first invalid setting
 */
export function parseRouteConfig(env: Environment, others: readonly string[] = []): RouteConfig {
  refuseMisspelt(env, [...Object.keys(ROUTE_SETTINGS), ...others]);
  const reader = settingsReader(ROUTE_SETTINGS, env);
  const { given, text, count, isOn } = reader;
  const taints = isOn('BLOCKDELTA_ROUTE_TAINTS');
  const port = count('BLOCKDELTA_ROUTE_PORT');
  return Object.freeze({
    ...parseServiceSettings(reader),
    tls: parseTls(given, text('BLOCKDELTA_TLS_PEER_NAME'), 'the router calls nodes over TCP'),
    source: parseSource(given('BLOCKDELTA_ROUTE_NODES'), () => ({
      port,
      taints,
      access: parseAccess(env, text('BLOCKDELTA_ROUTE_ACCOUNT')),
    })),
  });
}

type OfKubernetes = Extract<NodeSourceSettings, { kind: 'kubernetes' }>;

function parseSource(
  value: string | undefined,
  ofKubernetes: () => Pick<OfKubernetes, 'port' | 'access' | 'taints'>,
): NodeSourceSettings {
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
  const [, namespace = '', , selector = ''] = match;
  return { kind: 'kubernetes', namespace, selector, ...ofKubernetes() };
}

/** Kubernetes sets these variables in every container. */
function parseAccess(env: Environment, account: string): ClusterAccess {
  const host = env['KUBERNETES_SERVICE_HOST'] ?? '';
  if (host === '') {
    throw new ConfigError(
      'BLOCKDELTA_ROUTE_NODES names pods, and KUBERNETES_SERVICE_HOST is not set: run the router in a pod, or set it, ' +
        'KUBERNETES_SERVICE_PORT and BLOCKDELTA_ROUTE_ACCOUNT',
    );
  }
  const name = 'KUBERNETES_SERVICE_PORT';
  const port = parseInteger(name, env[name] ?? '443', 1, 65_535);
  return { host, port, accountDirectory: parseDirectory('BLOCKDELTA_ROUTE_ACCOUNT', account) };
}
