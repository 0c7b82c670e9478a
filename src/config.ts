/**
 * The settings of a running plugin: parsed once from the environment, validated, frozen.
 *
 * Nothing else in the plugin reads process.env. A wrong setting is a ConfigError that names the
 * variable, what was found and what would be right; the process then exits before it serves.
 */
import { hostname } from 'node:os';
import { isAbsolute, join, normalize } from 'node:path';

export type Mode = 'all' | 'controller' | 'node';
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error';

export interface PoolConfig {
  name: string;
  /** A directory; its file system decides between reflinked files in place and an embedded pool. */
  directory: string;
}

export interface Config {
  readonly endpoint: string;
  /** The path behind unix://. */
  readonly socketPath: string;
  readonly socketMode: number;
  readonly nodeId: string;
  readonly driverName: string;
  readonly mode: Mode;
  readonly stateDirectory: string;
  readonly pools: readonly PoolConfig[];
  /** Upper bound for the image of an embedded pool; null: whatever the host file system can hold. */
  readonly embeddedPoolBytes: bigint | null;
  readonly logLevel: LogLevel;
  readonly shutdownGraceMs: number;
  readonly scanThreads: number;
  readonly deviceThreads: number;
}

export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

type Environment = Readonly<Record<string, string | undefined>>;

interface Setting {
  /** What an unset variable stands for; null: it has no value then. */
  readonly fallback: string | null;
  readonly meaning: string;
}

/**
 * Every variable the plugin reads. Parsing takes its defaults from here and `serve --help` prints
 * it, so neither can know a setting that the other does not.
 */
export const SETTINGS = {
  CSI_ENDPOINT: {
    fallback: null,
    meaning: 'socket to serve on, unix:///directory/name.sock (required)',
  },
  BLOCKDELTA_SOCKET_MODE: { fallback: '0600', meaning: 'permissions of the socket, octal' },
  BLOCKDELTA_NODE_ID: {
    fallback: null,
    meaning: 'name of this node, at most 128 printable characters (default: the host name)',
  },
  BLOCKDELTA_DRIVER_NAME: { fallback: 'blockdelta.csi', meaning: 'name of the plugin' },
  BLOCKDELTA_MODE: {
    fallback: 'all',
    meaning:
      'services to run: all; controller or node leave the other out, for tests and routers: ' +
      'one process holds a state directory, so a node runs all',
  },
  BLOCKDELTA_STATE_DIR: {
    fallback: '/var/lib/blockdelta',
    meaning: 'directory of the catalogue and of the default pool',
  },
  BLOCKDELTA_POOLS: {
    fallback: null,
    meaning:
      'name=/directory,name=/directory; the first is the default pool ' +
      '(default: default=STATE_DIR/pools/default)',
  },
  BLOCKDELTA_EMBEDDED_POOL_SIZE: {
    fallback: null,
    meaning:
      'bound of the image made for a pool without reflinks, such as 20Gi, at least 512Mi ' +
      '(default: what the file system holds)',
  },
  BLOCKDELTA_LOG_LEVEL: { fallback: 'info', meaning: 'trace, debug, info, warn or error' },
  BLOCKDELTA_SHUTDOWN_GRACE_SECONDS: {
    fallback: '20',
    meaning: 'time for calls in flight to end after SIGTERM',
  },
  BLOCKDELTA_SCAN_THREADS: { fallback: '2', meaning: 'threads that read block maps' },
  BLOCKDELTA_DEVICE_THREADS: { fallback: '4', meaning: 'threads that work on devices and files' },
} as const satisfies Readonly<Record<string, Setting>>;

type SettingName = keyof typeof SETTINGS;
type NameWithDefault = {
  [N in SettingName]: (typeof SETTINGS)[N]['fallback'] extends string ? N : never;
}[SettingName];

/** The longest socket path that Node binds without cutting it short (sun_path less its NUL). */
export const SOCKET_PATH_MAX = 107;
const NODE_ID_MAX = 128;
/** Below this an embedded pool is of no use (backends/reflink/embedded-pool.ts). */
const EMBEDDED_POOL_MINIMUM = '512Mi';
const MODES = ['all', 'controller', 'node'] as const;
const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error'] as const;

/** @throws ConfigError for the first setting that is wrong. An empty variable is an unset one. */
export function parseConfig(env: Environment): Config {
  const given = (name: SettingName) => env[name] || undefined;
  const text = (name: NameWithDefault) => given(name) ?? SETTINGS[name].fallback;
  const count = (name: NameWithDefault, minimum: number, maximum: number) =>
    parseInteger(name, text(name), minimum, maximum);

  const socketPath = parseEndpoint(given('CSI_ENDPOINT'));
  const stateDirectory = parseDirectory('BLOCKDELTA_STATE_DIR', text('BLOCKDELTA_STATE_DIR'));
  return Object.freeze({
    endpoint: `unix://${socketPath}`,
    socketPath,
    socketMode: parseSocketMode(text('BLOCKDELTA_SOCKET_MODE')),
    nodeId: parseNodeId(given('BLOCKDELTA_NODE_ID') ?? hostname()),
    driverName: parseDriverName(text('BLOCKDELTA_DRIVER_NAME')),
    mode: parseChoice('BLOCKDELTA_MODE', text('BLOCKDELTA_MODE'), MODES),
    stateDirectory,
    pools: Object.freeze(parsePools(given('BLOCKDELTA_POOLS'), stateDirectory)),
    embeddedPoolBytes: parseEmbeddedPoolSize(given('BLOCKDELTA_EMBEDDED_POOL_SIZE')),
    logLevel: parseChoice('BLOCKDELTA_LOG_LEVEL', text('BLOCKDELTA_LOG_LEVEL'), LOG_LEVELS),
    shutdownGraceMs: 1000 * count('BLOCKDELTA_SHUTDOWN_GRACE_SECONDS', 0, 3600),
    scanThreads: count('BLOCKDELTA_SCAN_THREADS', 1, 64),
    deviceThreads: count('BLOCKDELTA_DEVICE_THREADS', 1, 64),
  });
}

function parseEndpoint(value: string | undefined): string {
  if (value === undefined) {
    throw new ConfigError(
      'CSI_ENDPOINT is not set. Set it to the socket to serve on, ' +
        'for example CSI_ENDPOINT=unix:///run/blockdelta/csi.sock',
    );
  }
  if (!value.startsWith('unix://')) {
    throw new ConfigError(`CSI_ENDPOINT is '${value}': only unix:// endpoints are served`);
  }
  const path = value.slice('unix://'.length);
  if (!isAbsolute(path) || path !== normalize(path)) {
    throw new ConfigError(
      `CSI_ENDPOINT is '${value}': the path behind unix:// must be absolute and plain`,
    );
  }
  if (!path.endsWith('.sock')) {
    throw new ConfigError(`CSI_ENDPOINT is '${value}': the socket's name must end in .sock`);
  }
  const bytes = Buffer.byteLength(path);
  if (bytes > SOCKET_PATH_MAX) {
    throw new ConfigError(
      `CSI_ENDPOINT: the socket path is ${bytes} bytes long; the kernel takes ${SOCKET_PATH_MAX}. Use a shorter directory`,
    );
  }
  return path;
}

function parseDirectory(name: string, value: string): string {
  if (!isAbsolute(value) || value.includes('\0')) {
    throw new ConfigError(`${name} is '${value}': it must be an absolute path`);
  }
  const path = normalize(value).replace(/\/+$/, '');
  if (path === '')
    throw new ConfigError(`${name} is '${value}': it must not be the root directory`);
  return path;
}

function parseSocketMode(value: string): number {
  if (!/^0?[0-7]{3}$/.test(value)) {
    throw new ConfigError(
      `BLOCKDELTA_SOCKET_MODE is '${value}': it must be three octal digits such as 0600`,
    );
  }
  return Number.parseInt(value, 8);
}

function parseNodeId(value: string): string {
  const bytes = Buffer.byteLength(value);
  if (bytes === 0 || bytes > NODE_ID_MAX || !/^[\x21-\x7e]+$/.test(value)) {
    throw new ConfigError(
      `BLOCKDELTA_NODE_ID is '${value}': it must be 1 to ${NODE_ID_MAX} printable ASCII characters without spaces`,
    );
  }
  return value;
}

/** csi-sanity wants letters at both ends, the specification a domain name of at most 63 characters. */
function parseDriverName(value: string): string {
  if (value.length > 63 || !/^[A-Za-z]([A-Za-z0-9.-]*[A-Za-z])?$/.test(value) || value.length < 2) {
    throw new ConfigError(
      `BLOCKDELTA_DRIVER_NAME is '${value}': it must be a domain name of 2 to 63 characters, a letter first and last`,
    );
  }
  return value;
}

function parseChoice<T extends string>(name: string, value: string, choices: readonly T[]): T {
  const found = choices.find((choice) => choice === value);
  if (found === undefined)
    throw new ConfigError(`${name} is '${value}': it must be one of ${choices.join(', ')}`);
  return found;
}

function parseInteger(name: string, value: string, minimum: number, maximum: number): number {
  const number = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN;
  if (!(number >= minimum && number <= maximum)) {
    throw new ConfigError(
      `${name} is '${value}': it must be a whole number from ${minimum} to ${maximum}`,
    );
  }
  return number;
}

const SIZE_UNITS: Readonly<Record<string, bigint>> = {
  '': 1n,
  Ki: 1n << 10n,
  Mi: 1n << 20n,
  Gi: 1n << 30n,
  Ti: 1n << 40n,
};

function parseEmbeddedPoolSize(value: string | undefined): bigint | null {
  if (value === undefined) return null;
  const name = 'BLOCKDELTA_EMBEDDED_POOL_SIZE';
  const bytes = parseSize(name, value);
  if (bytes < parseSize(name, EMBEDDED_POOL_MINIMUM)) {
    throw new ConfigError(`${name} is '${value}': it must be at least ${EMBEDDED_POOL_MINIMUM}`);
  }
  return bytes;
}

function parseSize(name: string, value: string): bigint {
  const match = /^([1-9]\d{0,14})(Ki|Mi|Gi|Ti)?$/.exec(value);
  const unit = SIZE_UNITS[match?.[2] ?? ''];
  if (match === null || unit === undefined) {
    throw new ConfigError(
      `${name} is '${value}': it must be bytes, or a number with Ki, Mi, Gi or Ti, such as 20Gi`,
    );
  }
  return BigInt(match[1] ?? '0') * unit;
}

/** name=/directory,name=/directory; the first one is the default pool. */
function parsePools(value: string | undefined, stateDirectory: string): PoolConfig[] {
  if (value === undefined) {
    return [
      Object.freeze({ name: 'default', directory: join(stateDirectory, 'pools', 'default') }),
    ];
  }
  const pools = value.split(',').map((item) => {
    const match = /^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)=(.+)$/.exec(item);
    const name = match?.[1];
    const directory = match?.[3];
    if (name === undefined || directory === undefined) {
      throw new ConfigError(
        `BLOCKDELTA_POOLS: '${item}' is not name=/directory (lower-case letters, digits and '-' in the name)`,
      );
    }
    return Object.freeze({ name, directory: parseDirectory('BLOCKDELTA_POOLS', directory) });
  });
  assertDistinct(pools.map((pool) => pool.name));
  assertDistinct(pools.map((pool) => pool.directory));
  return pools;
}

function assertDistinct(values: string[]): void {
  const twice = values.find((value, index) => values.indexOf(value) !== index);
  if (twice !== undefined) throw new ConfigError(`BLOCKDELTA_POOLS: '${twice}' is given twice`);
}
