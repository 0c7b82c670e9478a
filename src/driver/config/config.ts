/**
 * The settings of a running plugin: parsed once from the environment, validated, frozen.
 *
 * Nothing else in the plugin reads process.env. An invalid setting is a ConfigError that names the
 * variable, its value and the valid values; the process then exits before it serves.
 */

import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { RUNTIME_DIRECTORY_SETTING } from '../../base/runtime-directory.js';
import { type Environment, type ReaderOf, type Setting, settingsReader } from '../../base/settings/reader.js';
import { parseServiceSettings, SERVICE_SETTINGS } from '../../base/settings/service-settings.js';
import { parseListen } from '../../base/settings/tls.js';
import { refuseMisspelt, type UnknownSetting, unknownSettings } from '../../base/settings/unknown-settings.js';
import {
  parseAge,
  parseChoices,
  parseDirectory,
  parseEmbeddedPoolSize,
  parseNodeId,
  parseOutside,
  parseOvercommit,
  parseSize,
  parseSocketPath,
} from '../../base/settings/values.js';
import { parsePools, parseThinBlockSize } from './pools.js';

/** SETTINGS describes each setting, and the property names contain the units. Null if a setting is not set. */
export type Config = ReturnType<typeof parseConfig>;

/**
 * Every variable that the plugin reads. Parsing takes its defaults from here, and `serve --help` prints
 * this table, so that both know the same settings.
 */
export const SETTINGS = {
  ...SERVICE_SETTINGS,
  BLOCKDELTA_LISTEN_ADDRESS: {
    fallback: null,
    meaning: 'host:port on which a router reaches this node, with mutual TLS (default: none; the next four are needed)',
  },
  BLOCKDELTA_TLS_CERTIFICATE: {
    fallback: null,
    meaning: "PEM file: this node's certificate with its chain",
  },
  BLOCKDELTA_TLS_KEY: { fallback: null, meaning: 'PEM file: the private key of the certificate' },
  BLOCKDELTA_TLS_CA: {
    fallback: null,
    meaning: 'PEM file: the authorities that sign the certificates of routers',
  },
  BLOCKDELTA_TLS_PEER_NAME: {
    fallback: 'blockdelta-router',
    meaning: "DNS name that a router's certificate must carry",
  },
  BLOCKDELTA_NODE_ID: {
    fallback: null,
    meaning: 'name of this node, at most 128 printable characters (default: the host name)',
  },
  BLOCKDELTA_STATE_DIR: {
    fallback: '/var/lib/blockdelta',
    meaning: 'directory of the catalogue and of the default pool',
  },
  BLOCKDELTA_POOLS: {
    fallback: null,
    meaning:
      'name=directory:/directory on a mounted XFS or btrfs, name=image:/directory for an image there, or ' +
      'name=thin:/directory[;metadata=/dev/x;data=/dev/y] for dm-thin, with commas between; name=/directory takes ' +
      'whichever is possible; the first is the default pool (default: default=STATE_DIR/pools/default)',
  },
  BLOCKDELTA_EMBEDDED_POOL_SIZE: {
    fallback: null,
    meaning:
      'upper bound for the images of an embedded pool, such as 20Gi, at least 512Mi ' +
      '(default: what the host file system can hold)',
  },
  BLOCKDELTA_EMBEDDED_POOL_ALLOCATE: {
    fallback: 'full',
    meaning:
      'image of an embedded reflink pool: full, all blocks promised to volumes are preallocated; sparse: ' +
      'volumes lose data if other files fill the host',
  },
  BLOCKDELTA_GUARDIAN_SOCKET: {
    fallback: null,
    meaning:
      'socket of blockdelta-guardian --listen, which thaws or resumes what a plugin that is killed with its ' +
      'container has frozen or suspended (default: none, and each snapshot starts a guardian)',
  },
  BLOCKDELTA_FREEZE_LIMIT_SECONDS: {
    fallback: '60',
    meaning:
      'how long a snapshot or clone may keep a file system frozen or a device suspended, at most until the ' +
      "caller's deadline; then it is given up",
  },
  BLOCKDELTA_THIN_BLOCK_SIZE: {
    fallback: '64Ki',
    meaning: 'data block size of thin pools created from now on, a multiple of 64Ki up to 1Gi',
  },
  BLOCKDELTA_THIN_DISCARDS: {
    fallback: 'passdown',
    meaning: 'passdown: discards in thin volumes reach the data device; keep: they end at the pool',
  },
  BLOCKDELTA_THIN_WHEN_FULL: {
    fallback: 'error',
    meaning: 'writes to a thin pool without space: error at once, or queue for a minute',
  },
  BLOCKDELTA_THIN_LOW_WATER_PERCENT: {
    fallback: '10',
    meaning: 'free share of a thin pool below which the log warns, 1 to 50',
  },
  BLOCKDELTA_OVERCOMMIT: {
    fallback: '1',
    meaning: 'how many times the free space of a pool may be promised to volumes, 1 to 100, such as 2.5',
  },
  BLOCKDELTA_RESERVE_PERCENT: {
    fallback: '5',
    meaning: 'percentage of a pool that is not promised to new volumes: room for blocks that snapshots hold',
  },
  BLOCKDELTA_CHANGE_LISTS: {
    fallback: 'on',
    meaning:
      'on: reflink pools store what changed from each snapshot to the next, in the background, and answer deltas from it',
  },
  BLOCKDELTA_RETAINED_BASES_COUNT: {
    fallback: '16',
    meaning: 'how many deleted snapshots of a volume are retained as bases of deltas; 0: none',
  },
  BLOCKDELTA_RETAINED_BASES_AGE: {
    fallback: '30d',
    meaning: 'how long a deleted snapshot is retained, in hours or days, such as 12h',
  },
  BLOCKDELTA_RETAINED_BASES_SIZE: {
    fallback: '1Gi',
    meaning: 'upper bound for all retained bases of one pool, such as 256Mi',
  },
  BLOCKDELTA_LEGACY_CSI: {
    fallback: null,
    meaning: 'older interfaces served beside v1: 0.3, 0.1 or 0.3,0.1 (default: none)',
  },
  BLOCKDELTA_LEGACY_STAGING_DIR: {
    fallback: '/run/blockdelta-staging',
    meaning: 'directory in which volumes are staged for callers of CSI 0.1',
  },
  BLOCKDELTA_CONTROLLER_PUBLISH: {
    fallback: 'off',
    meaning: 'on: ControllerPublishVolume is served and enforces single-node and read-only rules',
  },
  BLOCKDELTA_MAX_VOLUMES_PER_NODE: {
    fallback: '0',
    meaning: 'how many volumes may be published on this node; 0: the orchestrator decides',
  },
  BLOCKDELTA_CGROUP_ROOT: {
    fallback: '/sys/fs/cgroup',
    meaning: 'where cgroup v2 is mounted, for read and write limits of pods',
  },
  BLOCKDELTA_MOUNT_PROPAGATION: {
    fallback: 'auto',
    meaning:
      'refuse to stage and publish where the mounts would not be seen outside of the plugin: auto, where ' +
      'it has a mount namespace of its own; required, everywhere; off, nowhere',
  },
  BLOCKDELTA_METRICS_VOLUMES: {
    fallback: 'on',
    meaning: 'off: no metrics for single volumes',
  },
  BLOCKDELTA_SCAN_THREADS: { fallback: '2', meaning: 'threads that read block maps' },
  BLOCKDELTA_DEVICE_THREADS: { fallback: '4', meaning: "a pool's threads for files and devices" },
  BLOCKDELTA_VOLUME_THREADS: {
    fallback: '12',
    meaning:
      'threads for calls that may wait for the file system or device of one volume, and as many again that only ' +
      'release volumes',
  },
} as const satisfies Readonly<Record<string, Setting>>;

const LEGACY_VERSIONS = ['0.3', '0.1'] as const;
/** A version before v1 of the specification. */
export type LegacyVersion = (typeof LEGACY_VERSIONS)[number];
/** The values of BLOCKDELTA_MOUNT_PROPAGATION. */
export const PROPAGATION = ['auto', 'required', 'off'] as const;
const ALLOCATIONS = ['full', 'sparse'] as const;
const DISCARDS = ['passdown', 'keep'] as const;
const WHEN_FULL = ['error', 'queue'] as const;

/** @throws ConfigError for the first invalid setting */
export function parseConfig(env: Environment) {
  refuseMisspelt(env, KNOWN);
  const reader = settingsReader(SETTINGS, env);
  const { given, text, parsed, count, choice, isOn } = reader;
  const service = parseServiceSettings(reader);
  const stateDirectory = parsed('BLOCKDELTA_STATE_DIR', parseDirectory);
  const pools = parsePools(given('BLOCKDELTA_POOLS'), stateDirectory);
  const legacyVersions = parseChoices('BLOCKDELTA_LEGACY_CSI', given('BLOCKDELTA_LEGACY_CSI') ?? '', LEGACY_VERSIONS);
  // CSI allows no other files beside the socket.
  const ownTrees = [stateDirectory, dirname(service.socketPath), ...pools.map((pool) => pool.directory)];
  return Object.freeze({
    ...service,
    listen: parseListen(given, SETTINGS.BLOCKDELTA_TLS_PEER_NAME.fallback),
    nodeId: parseNodeId(given('BLOCKDELTA_NODE_ID') ?? hostname()),
    stateDirectory,
    pools: Object.freeze(pools),
    embeddedPoolBytes: parseEmbeddedPoolSize(given('BLOCKDELTA_EMBEDDED_POOL_SIZE')),
    embeddedPoolAllocation: choice('BLOCKDELTA_EMBEDDED_POOL_ALLOCATE', ALLOCATIONS),
    changeLists: isOn('BLOCKDELTA_CHANGE_LISTS'),
    guardianSocket: guardianSocket(given('BLOCKDELTA_GUARDIAN_SOCKET')),
    freezeLimitMs: 1000 * count('BLOCKDELTA_FREEZE_LIMIT_SECONDS', 1, 3600),
    thin: thinSettings(reader),
    overcommitPercent: parseOvercommit(text('BLOCKDELTA_OVERCOMMIT')),
    reservePercent: BigInt(count('BLOCKDELTA_RESERVE_PERCENT', 0, 50)),
    retainedBasesPerVolume: count('BLOCKDELTA_RETAINED_BASES_COUNT', 0, 10_000),
    retainedBasesAgeMs: parsed('BLOCKDELTA_RETAINED_BASES_AGE', parseAge),
    retainedBasesPoolBytes: parsed('BLOCKDELTA_RETAINED_BASES_SIZE', parseSize),
    legacyVersions: Object.freeze(legacyVersions),
    legacyStagingDirectory: parseOutside(
      'BLOCKDELTA_LEGACY_STAGING_DIR',
      text('BLOCKDELTA_LEGACY_STAGING_DIR'),
      legacyVersions.includes('0.1') ? ownTrees : [],
    ),
    controllerPublish: isOn('BLOCKDELTA_CONTROLLER_PUBLISH'),
    maxVolumesPerNode: count('BLOCKDELTA_MAX_VOLUMES_PER_NODE', 0, 100_000),
    cgroupRoot: parsed('BLOCKDELTA_CGROUP_ROOT', parseDirectory),
    mountPropagation: choice('BLOCKDELTA_MOUNT_PROPAGATION', PROPAGATION),
    metricsOfVolumes: isOn('BLOCKDELTA_METRICS_VOLUMES'),
    scanThreads: count('BLOCKDELTA_SCAN_THREADS', 1, 64),
    deviceThreads: count('BLOCKDELTA_DEVICE_THREADS', 1, 64),
    volumeThreads: count('BLOCKDELTA_VOLUME_THREADS', 1, 64),
  });
}

/** Includes the setting of the commands that run beside the plugin, in its environment. */
const KNOWN = [...Object.keys(SETTINGS), RUNTIME_DIRECTORY_SETTING];

/** Variables with the plugin's prefix that are settings of neither the plugin nor its commands. */
export function unknownNames(env: Environment): UnknownSetting[] {
  return unknownSettings(env, KNOWN);
}

function guardianSocket(path: string | undefined): string | null {
  return path === undefined ? null : parseSocketPath('BLOCKDELTA_GUARDIAN_SOCKET', path);
}

function thinSettings({ parsed, count, choice }: ReaderOf<typeof SETTINGS>) {
  return Object.freeze({
    dataBlockBytes: parsed('BLOCKDELTA_THIN_BLOCK_SIZE', parseThinBlockSize),
    passDiscards: choice('BLOCKDELTA_THIN_DISCARDS', DISCARDS) === 'passdown',
    errorWhenFull: choice('BLOCKDELTA_THIN_WHEN_FULL', WHEN_FULL) === 'error',
    lowWaterPercent: BigInt(count('BLOCKDELTA_THIN_LOW_WATER_PERCENT', 1, 50)),
  });
}
