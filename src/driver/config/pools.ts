/**
 * Parses the settings of pools: turns the text of environment variables into values, or throws a ConfigError.
 * Reads no environment itself.
 */
import { isAbsolute, join, normalize } from 'node:path';
import { ConfigError, parseDirectory, parseSize } from '../../base/settings/values.js';

/** name=directory:/directory is in place, name=image:/directory an embedded pool, and name=/directory either of them. */
export interface ReflinkPoolConfig {
  kind: 'reflink';
  name: string;
  directory: string;
  place: PoolPlace;
}

/** `any` means in place if the file system of the directory can clone files, and otherwise an embedded pool. */
export type PoolPlace = 'directory' | 'image' | 'any';

/** name=thin:/directory: a dm-thin pool; the directory holds its ledger. */
export interface ThinPoolConfig {
  kind: 'thin';
  name: string;
  directory: string;
  /** The devices of the pool; null if the pool uses two files in the directory. */
  devices: { readonly metadata: string; readonly data: string } | null;
}

export type PoolConfig = ReflinkPoolConfig | ThinPoolConfig;

const THIN_PREFIX = 'thin:';
const NAME = 'BLOCKDELTA_POOLS';
/** dm-thin's limits for the data block size, in bytes. */
const THIN_BLOCK_STEP = 64n << 10n;
const THIN_BLOCK_MAXIMUM = 1n << 30n;

/** The first one is the default pool. */
export function parsePools(value: string | undefined, stateDirectory: string): PoolConfig[] {
  const text = value ?? `default=${join(stateDirectory, 'pools', 'default')}`;
  const pools = text.split(',').map(parsePool);
  assertDistinct(pools.map(({ name }) => name));
  assertDistinct(pools.map(({ directory }) => directory));
  assertDistinct(pools.flatMap((pool) => (pool.kind === 'thin' ? devicesOf(pool) : [])));
  return pools;
}

export function parseThinBlockSize(name: string, value: string): bigint {
  const bytes = parseSize(name, value);
  if (bytes >= THIN_BLOCK_STEP && bytes <= THIN_BLOCK_MAXIMUM && bytes % THIN_BLOCK_STEP === 0n) {
    return bytes;
  }
  throw new ConfigError(`${name} is '${value}': it must be a multiple of 64Ki from 64Ki to 1Gi`);
}

function parsePool(item: string): PoolConfig {
  const match = /^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)=(.+)$/.exec(item);
  const name = match?.[1];
  const place = match?.[3];
  if (name === undefined || place === undefined) {
    throw new ConfigError(`${NAME}: '${item}' is not name=/directory (lower-case letters, digits and '-' in the name)`);
  }
  if (place.startsWith(THIN_PREFIX)) return parseThinPool(name, place.slice(THIN_PREFIX.length));
  const meant = (['directory', 'image'] as const).find((word) => place.startsWith(`${word}:`));
  const path = meant === undefined ? place : place.slice(meant.length + 1);
  const directory = parseDirectory(NAME, path);
  return Object.freeze({ kind: 'reflink', name, directory, place: meant ?? 'any' });
}

/** /directory, or /directory;metadata=/dev/x;data=/dev/y. */
function parseThinPool(name: string, place: string): ThinPoolConfig {
  const [path = '', ...rest] = place.split(';');
  const directory = parseDirectory(NAME, path);
  if (rest.length === 0) return Object.freeze({ kind: 'thin', name, directory, devices: null });
  const given = new Map(rest.map(splitDevice));
  const metadata = given.get('metadata');
  const data = given.get('data');
  if (rest.length !== 2 || metadata === undefined || data === undefined) {
    throw new ConfigError(
      `${NAME}: pool '${name}' needs both of its devices or none: ` +
        `${name}=thin:${path};metadata=/dev/…;data=/dev/…`,
    );
  }
  const devices = Object.freeze({ metadata, data });
  return Object.freeze({ kind: 'thin', name, directory, devices });
}

function splitDevice(part: string): [key: string, path: string] {
  const begin = part.indexOf('=');
  const path = part.slice(begin + 1);
  if (begin < 0 || !isAbsolute(path) || path !== normalize(path) || path.includes('\0')) {
    throw new ConfigError(
      `${NAME}: '${part}' must be metadata= or data= and the absolute, plain path of a block device`,
    );
  }
  return [part.slice(0, begin), path];
}

function devicesOf({ devices }: ThinPoolConfig): string[] {
  return devices === null ? [] : [devices.metadata, devices.data];
}

function assertDistinct(values: string[]): void {
  const twice = values.find((value, index) => values.indexOf(value) !== index);
  if (twice !== undefined) throw new ConfigError(`${NAME}: '${twice}' is given twice`);
}
