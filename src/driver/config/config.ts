/**
 * The settings of a running plugin: parsed once from the environment, validated, frozen.
 *
 * Nothing else in the plugin reads process.env. An invalid setting is a ConfigError that names the
 * variable, its value and the valid values; the process then exits before it serves.
 */

import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { type Environment, ON_OFF, type ReaderOf, type Setting, settingsReader } from '../../base/settings/reader.js';
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
import { RUNTIME_DIRECTORY_SETTING } from '../../base/system/runtime-directory.js';
import { parsePools, parseThinBlockSize } from './pools.js';
import { parseTransfers } from './transfers.js';

/** SETTINGS describes each setting, and the property names contain the units. Null if a setting is not set. */
export type Config = ReturnType<typeof parseConfig>;

const LEGACY_VERSIONS = ['0.3', '0.1'] as const;
/** A version before v1 of the specification. */
export type LegacyVersion = (typeof LEGACY_VERSIONS)[number];
/** The values of BLOCKDELTA_MOUNT_PROPAGATION. */
export const PROPAGATION = ['auto', 'required', 'off'] as const;
const ALLOCATIONS = ['full', 'sparse'] as const;
const DISCARDS = ['passdown', 'keep'] as const;
const WHEN_FULL = ['error', 'queue'] as const;

const PATH = 'absolute path';
const PEM = `${PATH} of a PEM file`;
const SIZE = 'bytes, or a number with Ki, Mi, Gi, Ti';

/**
 * Every variable that the plugin reads. Parsing takes its defaults and ranges from here, `serve --help` prints this table, and
 * scripts/render-docs writes it into docs/configuration.md, so that all know the same settings.
 */
export const SETTINGS = {
  ...SERVICE_SETTINGS,
  BLOCKDELTA_LISTEN_ADDRESS: {
    fallback: null,
    unset: 'none',
    range: '`host:port`, an IPv6 address in brackets',
    meaning:
      'where a router reaches the controller services of this node, with mutual TLS 1.3. It never opens without the next ' +
      'three settings',
  },
  BLOCKDELTA_TLS_CERTIFICATE: {
    fallback: null,
    unset: 'none',
    range: PEM,
    meaning:
      "this node's certificate with its chain; it must name this node (docs/router.md#certificates). The plugin reads this " +
      'file and the next two again when they change',
  },
  BLOCKDELTA_TLS_KEY: { fallback: null, unset: 'none', range: PEM, meaning: 'its private key' },
  BLOCKDELTA_TLS_CA: {
    fallback: null,
    unset: 'none',
    range: PEM,
    meaning: 'the authorities that sign certificates of routers',
  },
  BLOCKDELTA_TLS_PEER_NAME: {
    fallback: 'blockdelta-router',
    range: 'a DNS name',
    meaning: "the subject alternative name that a router's certificate must carry",
  },
  BLOCKDELTA_TRANSFER_PORTS: {
    fallback: null,
    unset: 'none',
    range: '`port` or `first-last`, 1024 to 65535, at most 64 ports',
    meaning:
      'where other nodes read snapshots of this node, as many at once as there are ports; see docs/router.md#remote-sources. ' +
      'Needs BLOCKDELTA_LISTEN_ADDRESS. Each port is open only while a transfer that the router has arranged needs it',
  },
  BLOCKDELTA_TRANSFER_RATE: {
    fallback: null,
    unset: 'no limit',
    range: SIZE,
    meaning: 'the most bytes in a second that one transfer sends',
  },
  BLOCKDELTA_NODE_ID: {
    fallback: null,
    unset: "the host's name",
    range: '1 to 128 printable ASCII characters',
    meaning:
      'the name of this node in NodeGetInfo and, hashed, in every handle; the state directory keeps it, see ' +
      'docs/configuration.md#node-identity',
  },
  BLOCKDELTA_STATE_DIR: {
    fallback: '/var/lib/blockdelta',
    range: PATH,
    meaning: 'where the catalogue and the default pool are',
  },
  BLOCKDELTA_POOLS: {
    fallback: null,
    unset: '`default=<state>/pools/default`',
    range:
      '`name=directory:/directory`, `name=image:/directory`, `name=/directory`, `name=thin:/directory` or ' +
      '`name=thin:/directory;metadata=/dev/x;data=/dev/y`, separated by commas',
    meaning:
      'the pools: on a mounted XFS or btrfs, in an image, whichever of the two is possible, or on dm-thin; see ' +
      'docs/configuration.md#pools. The first one is used when no `pool` parameter is given',
  },
  BLOCKDELTA_EMBEDDED_POOL_SIZE: {
    fallback: null,
    unset: 'what the host can hold',
    range: `${SIZE}; at least 512Mi`,
    meaning: 'upper bound for the image of an embedded pool, or for both images of a thin one; you may raise it later',
  },
  BLOCKDELTA_EMBEDDED_POOL_ALLOCATE: {
    fallback: 'full',
    range: ALLOCATIONS,
    meaning:
      'whether the host preallocates what an embedded reflink pool promises to volumes; with `sparse`, volumes lose data ' +
      'when other files fill the host. See docs/backends.md',
  },
  BLOCKDELTA_GUARDIAN_SOCKET: {
    fallback: null,
    unset: 'none',
    range: `${PATH}, at most 107 bytes`,
    meaning:
      'where `blockdelta-guardian --listen` waits, in a container of its own. It thaws or resumes volumes at once if the ' +
      "plugin's container is killed during a snapshot; see docs/install-container.md#the-guardian. Without this setting " +
      'each snapshot starts a guardian',
  },
  BLOCKDELTA_FREEZE_LIMIT_SECONDS: {
    fallback: '60',
    range: [1, 3600],
    meaning:
      "how long a snapshot or clone may keep a file system frozen or a thin volume suspended, unless the caller's deadline " +
      'comes first. Then the guardian lets writers continue, and the call is ABORTED: see docs/limits.md#snapshots',
  },
  BLOCKDELTA_THIN_BLOCK_SIZE: {
    fallback: '64Ki',
    range: 'a multiple of 64Ki, 64Ki to 1Gi',
    meaning:
      'data block of new thin pools: what the first write after a snapshot copies, and the granularity of deltas',
  },
  BLOCKDELTA_THIN_DISCARDS: {
    fallback: 'passdown',
    range: DISCARDS,
    meaning:
      'whether discards in thin volumes are passed down to the data device. With `keep`, the space returns to the pool, ' +
      'the device is not trimmed, and retained bases survive a power failure',
  },
  BLOCKDELTA_THIN_WHEN_FULL: {
    fallback: 'error',
    range: WHEN_FULL,
    meaning: 'whether a write to a thin pool without space fails at once, or after it has waited for a minute',
  },
  BLOCKDELTA_THIN_LOW_WATER_PERCENT: {
    fallback: '10',
    range: [1, 50],
    meaning: 'the log warns when less than this share of a thin pool is free',
  },
  BLOCKDELTA_OVERCOMMIT: {
    fallback: '1',
    range: '1 to 100, two decimals',
    meaning:
      'how many times the free space, less the reserve, the pool may promise to volumes; with 1, space backs every promise',
  },
  BLOCKDELTA_RESERVE_PERCENT: {
    fallback: '5',
    range: [0, 50],
    meaning:
      "share of each pool's size that is not promised to new volumes: room for blocks that volumes rewrite while " +
      'snapshots hold the old ones',
  },
  BLOCKDELTA_CHANGE_LISTS: {
    fallback: 'on',
    range: ON_OFF,
    meaning:
      'whether reflink pools store, in the background, what changed from each snapshot to the next, and answer deltas ' +
      'from that without reading extents. See docs/engineering/change-lists.md',
  },
  BLOCKDELTA_RETAINED_BASES_COUNT: {
    fallback: '16',
    range: [0, 10_000],
    meaning:
      'how many deleted snapshots of a volume may still be the base of deltas, where the pool can keep them. See ' +
      'docs/retained-bases.md',
  },
  BLOCKDELTA_RETAINED_BASES_AGE: {
    fallback: '30d',
    range: 'hours or days, `1h` to `3650d`',
    meaning: 'how long after its deletion a snapshot may still be a base',
  },
  BLOCKDELTA_RETAINED_BASES_SIZE: {
    fallback: '1Gi',
    range: SIZE,
    meaning: 'upper bound for all retained bases of one pool; above it the plugin removes the oldest',
  },
  BLOCKDELTA_LEGACY_CSI: {
    fallback: null,
    unset: 'none',
    range: '`0.3`, `0.1`, `0.3,0.1`',
    meaning: 'which interfaces older than v1 the socket also serves; see docs/engineering/legacy.md',
  },
  BLOCKDELTA_LEGACY_STAGING_DIR: {
    fallback: '/run/blockdelta-staging',
    range: `${PATH} outside of the state directory, the pools and the socket's directory`,
    meaning: 'where the plugin stages volumes for callers of CSI 0.1, which has no staging',
  },
  BLOCKDELTA_CONTROLLER_PUBLISH: {
    fallback: 'off',
    range: ON_OFF,
    meaning:
      'whether to serve ControllerPublishVolume, which enforces single-node and read-only rules; see ' +
      'docs/configuration.md#controller-publishing',
  },
  BLOCKDELTA_MAX_VOLUMES_PER_NODE: {
    fallback: '0',
    range: [0, 100_000],
    meaning: 'NodeGetInfo reports it, and ControllerPublishVolume enforces it; with 0, the orchestrator decides',
  },
  BLOCKDELTA_CGROUP_ROOT: {
    fallback: '/sys/fs/cgroup',
    range: PATH,
    meaning: 'where cgroup v2 is mounted; the plugin sets read and write limits of pods there',
  },
  BLOCKDELTA_MOUNT_PROPAGATION: {
    fallback: 'auto',
    range: PROPAGATION,
    meaning:
      'when the plugin refuses to stage and publish because only it would see the mounts; see ' +
      'docs/configuration.md#mount-propagation',
  },
  BLOCKDELTA_METRICS_VOLUMES: { fallback: 'on', range: ON_OFF, meaning: 'whether there are metrics for each volume' },
  BLOCKDELTA_SCAN_THREADS: {
    fallback: '2',
    range: [1, 64],
    meaning:
      'the most threads for changed-block scans; they start when they are needed, and end after a minute without work',
  },
  BLOCKDELTA_DEVICE_THREADS: {
    fallback: '4',
    range: [1, 64],
    meaning:
      "how many calls at once may work on a pool's files or attach its devices, each in its own thread; look-ups have one " +
      'thread more than that. Two threads of the plugin never end',
  },
  BLOCKDELTA_VOLUME_THREADS: {
    fallback: '12',
    range: [1, 64],
    meaning:
      'for how many volumes of a pool calls may wait at once for a file system or a device (growth, snapshots, clones, ' +
      'mounts), each in its own thread. As many threads again only thaw, unmount and detach. See ' +
      'docs/limits.md#calls-that-hang',
  },
} as const satisfies Readonly<Record<string, Setting>>;

/** @throws ConfigError for the first invalid setting */
export function parseConfig(env: Environment) {
  refuseMisspelt(env, KNOWN);
  const reader = settingsReader(SETTINGS, env);
  const { given, text, parsed, count, choice, isOn } = reader;
  const service = parseServiceSettings(reader);
  const stateDirectory = parsed('BLOCKDELTA_STATE_DIR', parseDirectory);
  const pools = parsePools(given('BLOCKDELTA_POOLS'), stateDirectory);
  const legacyVersions = parseChoices('BLOCKDELTA_LEGACY_CSI', given('BLOCKDELTA_LEGACY_CSI') ?? '', LEGACY_VERSIONS);
  const listen = parseListen(given, SETTINGS.BLOCKDELTA_TLS_PEER_NAME.fallback);
  // CSI allows no other files beside the socket.
  const ownTrees = [stateDirectory, dirname(service.socketPath), ...pools.map((pool) => pool.directory)];
  return Object.freeze({
    ...service,
    listen,
    transfers: parseTransfers(given, listen),
    nodeId: parseNodeId(given('BLOCKDELTA_NODE_ID') ?? hostname()),
    stateDirectory,
    pools: Object.freeze(pools),
    embeddedPoolBytes: parseEmbeddedPoolSize(given('BLOCKDELTA_EMBEDDED_POOL_SIZE')),
    embeddedPoolAllocation: choice('BLOCKDELTA_EMBEDDED_POOL_ALLOCATE', ALLOCATIONS),
    changeLists: isOn('BLOCKDELTA_CHANGE_LISTS'),
    guardianSocket: guardianSocket(given('BLOCKDELTA_GUARDIAN_SOCKET')),
    freezeLimitMs: 1000 * count('BLOCKDELTA_FREEZE_LIMIT_SECONDS'),
    thin: thinSettings(reader),
    overcommitPercent: parseOvercommit(text('BLOCKDELTA_OVERCOMMIT')),
    reservePercent: BigInt(count('BLOCKDELTA_RESERVE_PERCENT')),
    retainedBasesPerVolume: count('BLOCKDELTA_RETAINED_BASES_COUNT'),
    retainedBasesAgeMs: parsed('BLOCKDELTA_RETAINED_BASES_AGE', parseAge),
    retainedBasesPoolBytes: parsed('BLOCKDELTA_RETAINED_BASES_SIZE', parseSize),
    legacyVersions: Object.freeze(legacyVersions),
    legacyStagingDirectory: parseOutside(
      'BLOCKDELTA_LEGACY_STAGING_DIR',
      text('BLOCKDELTA_LEGACY_STAGING_DIR'),
      legacyVersions.includes('0.1') ? ownTrees : [],
    ),
    controllerPublish: isOn('BLOCKDELTA_CONTROLLER_PUBLISH'),
    maxVolumesPerNode: count('BLOCKDELTA_MAX_VOLUMES_PER_NODE'),
    cgroupRoot: parsed('BLOCKDELTA_CGROUP_ROOT', parseDirectory),
    mountPropagation: choice('BLOCKDELTA_MOUNT_PROPAGATION', PROPAGATION),
    metricsOfVolumes: isOn('BLOCKDELTA_METRICS_VOLUMES'),
    scanThreads: count('BLOCKDELTA_SCAN_THREADS'),
    deviceThreads: count('BLOCKDELTA_DEVICE_THREADS'),
    volumeThreads: count('BLOCKDELTA_VOLUME_THREADS'),
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
    lowWaterPercent: BigInt(count('BLOCKDELTA_THIN_LOW_WATER_PERCENT')),
  });
}
