/**
 * Parses single settings: from the text of an environment variable to a value, or a ConfigError that
 * names the variable, its value and what is valid. Reads no environment itself.
 */
import { isIPv6 } from 'node:net';
import { isAbsolute, normalize } from 'node:path';

export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** The longest socket path that Node binds without truncating it (sun_path less its NUL). */
export const SOCKET_PATH_MAX = 107;
const NODE_ID_MAX = 128;
/** The smallest useful embedded pool (reflink/embedded-pool.ts and thin/pool/embedded-devices.ts in driver/backends). */
const EMBEDDED_POOL_MINIMUM = '512Mi';

export function parseEndpoint(value: string | undefined): string {
  if (value === undefined) {
    throw new ConfigError(
      'CSI_ENDPOINT is not set. Set it to the socket to serve on, ' +
        'for example CSI_ENDPOINT=unix:///run/blockdelta/csi.sock',
    );
  }
  const path = value.startsWith('/') ? value : value.slice('unix://'.length);
  if (path !== value && !value.startsWith('unix://')) {
    throw new ConfigError(
      `CSI_ENDPOINT is '${value}': only unix:// endpoints, or absolute paths of sockets, are served`,
    );
  }
  if (!isAbsolute(path) || path !== normalize(path)) {
    throw new ConfigError(`CSI_ENDPOINT is '${value}': the path must be absolute and normalized`);
  }
  if (!path.endsWith('.sock')) {
    throw new ConfigError(`CSI_ENDPOINT is '${value}': the socket's name must end in .sock`);
  }
  assertSocketPath('CSI_ENDPOINT', path);
  return path;
}

export function parseSocketPath(name: string, value: string): string {
  const path = parseDirectory(name, value);
  assertSocketPath(name, path);
  return path;
}

function assertSocketPath(name: string, path: string): void {
  const bytes = Buffer.byteLength(path);
  if (bytes <= SOCKET_PATH_MAX) return;
  throw new ConfigError(
    `${name}: the socket path is ${bytes} bytes long; the kernel accepts ${SOCKET_PATH_MAX}. Use a shorter directory`,
  );
}

export function parseDirectory(name: string, value: string): string {
  if (!isAbsolute(value) || value.includes('\0')) {
    throw new ConfigError(`${name} is '${value}': it must be an absolute path`);
  }
  const path = normalize(value).replace(/\/+$/, '');
  if (path === '') throw new ConfigError(`${name} is '${value}': it must not be the root directory`);
  return path;
}

/** A directory outside of all these trees, in which the plugin must not stage or publish anything. */
export function parseOutside(name: string, value: string, trees: readonly string[]): string {
  const path = parseDirectory(name, value);
  const around = trees.find((tree) => path === tree || path.startsWith(`${tree}/`));
  if (around === undefined) return path;
  throw new ConfigError(`${name} is '${value}': it must not be in ${around}, which the plugin keeps for other things`);
}

export function parseSocketMode(value: string): number {
  if (!/^0?[0-7]{3}$/.test(value)) {
    throw new ConfigError(`BLOCKDELTA_SOCKET_MODE is '${value}': it must be three octal digits such as 0600`);
  }
  return Number.parseInt(value, 8);
}

export function parseNodeId(value: string): string {
  const bytes = Buffer.byteLength(value);
  if (bytes === 0 || bytes > NODE_ID_MAX || !/^[\x21-\x7e]+$/.test(value)) {
    throw new ConfigError(
      `BLOCKDELTA_NODE_ID is '${value}': it must be 1 to ${NODE_ID_MAX} printable ASCII characters without spaces`,
    );
  }
  return value;
}

/** CSI requires a domain name of at most 63 characters, and csi-sanity requires letters at both ends. */
export function parseDriverName(value: string): string {
  if (value.length > 63 || !/^[A-Za-z]([A-Za-z0-9.-]*[A-Za-z])?$/.test(value) || value.length < 2) {
    throw new ConfigError(
      `BLOCKDELTA_DRIVER_NAME is '${value}': it must be a domain name of 2 to 63 characters, a letter first and last`,
    );
  }
  return value;
}

export function parseChoice<T extends string>(name: string, value: string, choices: readonly T[]): T {
  const found = choices.find((choice) => choice === value);
  if (found === undefined) throw new ConfigError(`${name} is '${value}': it must be one of ${choices.join(', ')}`);
  return found;
}

/** Some of the choices, separated by commas, each at most once; none if the text is empty. */
export function parseChoices<T extends string>(name: string, value: string, choices: readonly T[]): T[] {
  if (value === '') return [];
  const found = value.split(',').map((part) => parseChoice(name, part.trim(), choices));
  const twice = found.find((choice, index) => found.indexOf(choice) !== index);
  if (twice !== undefined) throw new ConfigError(`${name} is '${value}': ${twice} is there twice`);
  return found;
}

export function parseInteger(name: string, value: string, minimum: number, maximum: number): number {
  const number = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN;
  if (!(number >= minimum && number <= maximum)) {
    throw new ConfigError(`${name} is '${value}': it must be a whole number from ${minimum} to ${maximum}`);
  }
  return number;
}

/** Returns percent. Two decimals of the setting count. */
export function parseOvercommit(value: string): bigint {
  const match = /^(\d{1,3})(?:\.(\d{1,2}))?$/.exec(value);
  const percent = BigInt(`${match?.[1] ?? 0}${(match?.[2] ?? '').padEnd(2, '0')}`);
  if (percent < 100n || percent > 10_000n) {
    throw new ConfigError(`BLOCKDELTA_OVERCOMMIT is '${value}': it must be a number from 1 to 100, such as 2.5`);
  }
  return percent;
}

/** CSI's format: an optional prefix in the form of a DNS name, and a name, 63 characters each. */
export function parseTopologyKey(value: string): string {
  const slash = value.indexOf('/');
  const prefix = slash < 0 ? 'x' : value.slice(0, slash);
  const name = value.slice(slash + 1);
  const isPrefix = prefix.length <= 63 && /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(prefix);
  const isName = name.length <= 63 && /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/.test(name);
  if (isPrefix && isName) return value;
  throw new ConfigError(
    `BLOCKDELTA_TOPOLOGY_KEY is '${value}': it must be like blockdelta.csi/node, at most 63 ` +
      'characters on each side of the slash, letters or digits at both ends',
  );
}

const SIZE_UNITS: Readonly<Record<string, bigint>> = {
  '': 1n,
  Ki: 1n << 10n,
  Mi: 1n << 20n,
  Gi: 1n << 30n,
  Ti: 1n << 40n,
};

export function parseEmbeddedPoolSize(value: string | undefined): bigint | null {
  if (value === undefined) return null;
  const name = 'BLOCKDELTA_EMBEDDED_POOL_SIZE';
  const bytes = parseSize(name, value);
  if (bytes < parseSize(name, EMBEDDED_POOL_MINIMUM)) {
    throw new ConfigError(`${name} is '${value}': it must be at least ${EMBEDDED_POOL_MINIMUM}`);
  }
  return bytes;
}

export function parseSize(name: string, value: string): bigint {
  const match = /^([1-9]\d{0,14})(Ki|Mi|Gi|Ti)?$/.exec(value);
  const unit = SIZE_UNITS[match?.[2] ?? ''];
  if (match === null || unit === undefined) {
    throw new ConfigError(`${name} is '${value}': it must be bytes, or a number with Ki, Mi, Gi or Ti, such as 20Gi`);
  }
  return BigInt(match[1] ?? '0') * unit;
}

const HOUR_MS = 3_600_000;
const AGE_MAX_HOURS = 3650 * 24;

/** In milliseconds. */
export function parseAge(name: string, value: string): number {
  const match = /^([1-9]\d{0,4})([hd])$/.exec(value);
  const hours = Number(match?.[1] ?? 0) * (match?.[2] === 'd' ? 24 : 1);
  if (hours === 0 || hours > AGE_MAX_HOURS) {
    throw new ConfigError(
      `${name} is '${value}': it must be a number of hours or days up to ten years, such as 12h or 30d`,
    );
  }
  return hours * HOUR_MS;
}

/** A TCP address to listen on. */
export interface HostPort {
  /** A name or an IP address, without brackets. */
  host: string;
  /** 0 if the kernel chooses the port. */
  port: number;
}

/** host:port, with an IPv6 address in brackets. */
export function parseHostPort(name: string, value: string): HostPort {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})$/.exec(value);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3] ?? Number.NaN);
  if (host === undefined || !(port <= 65_535) || (match?.[1] !== undefined && !isIPv6(host))) {
    throw new ConfigError(`${name} is '${value}': it must be host:port, such as 127.0.0.1:9811 or [::1]:9811`);
  }
  return { host, port };
}
