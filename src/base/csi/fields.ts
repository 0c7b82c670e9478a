/**
 * Parsers of single request fields, from decoded values (proto.ts describes them) to the types of volume-capability.ts and
 * string-map.ts. Knows the limits that CSI sets on fields, and no RPC.
 *
 * The parameters have the types that the decoder yields. The parsers check them at run time as well, so
 * that a decoder with other settings cannot turn a value into a different one.
 *
 * Every failure is INVALID_ARGUMENT and names the field as the proto does. Messages never contain the
 * values of strings and maps, since some are secret.
 *
 * CSI checks presence before existence, and existence before values. So a handler first calls
 * `requireFields` for all required fields, then finds its objects, then parses the rest. The parsers of
 * ids, names, paths and maps check only size and characters and may run before the objects are found;
 * `requireAbsolutePath` and the capability parsers must run after it.
 */
import { normalize } from 'node:path/posix';
import { CsiError } from '../errors.js';
import type { RequestOf } from './service.js';
import type { StringMap } from './string-map.js';
import {
  ACCESS_MODES,
  type AccessMode,
  type CapacityRange,
  type MountAccess,
  type VolumeCapability,
} from './volume-capability.js';

/** CSI's limit for a string whose field sets no other. */
export const MAX_STRING_BYTES = 128;
const MAX_MAP_BYTES = 4096;
const MAX_MOUNT_FLAGS_BYTES = 4096;
/** PATH_MAX of Linux, less the NUL it counts. */
const MAX_PATH_BYTES = 4095;
/** NAME_MAX of Linux. */
const MAX_SEGMENT_BYTES = 255;

/** A field's value. Decoded requests hold no undefined, and null only for messages. */
type Optional<T> = T | null | undefined;

type CapacityRangeMessage = Partial<NonNullable<RequestOf<'CreateVolume'>['capacity_range']>>;
type CapabilityMessage = PartialFields<RequestOf<'CreateVolume'>['volume_capabilities'][number]>;
type PartialFields<T> = T extends readonly unknown[]
  ? T
  : T extends object
    ? { readonly [Field in keyof T]?: PartialFields<T[Field]> }
    : T;

interface StringLimits {
  maxBytes?: number;
}

/** Presence in the sense of CSI: not null, and not an empty string, list or map. Zero is present. */
export function requirePresent(value: unknown, field: string): void {
  if (isMissing(value)) throw CsiError.invalidArgument(`${field} is required`);
}

/** Presence of several fields of one request, checked in the given order. */
export function requireFields<Request extends object>(request: Request, ...fields: (keyof Request & string)[]): void {
  for (const field of fields) requirePresent(request[field], field);
}

/** A required string, such as an id. Whether an object has that id is not checked here. */
export function requireString(value: Optional<string>, field: string, limits: StringLimits = {}): string {
  requirePresent(value, field);
  return optionalString(value, field, limits);
}

/** An optional string; empty when it is missing. */
export function optionalString(value: Optional<string>, field: string, limits: StringLimits = {}): string {
  const text = asString(value, field);
  assertSize(limits.maxBytes ?? MAX_STRING_BYTES, Buffer.byteLength(text), field);
  return text;
}

/** The name of an object to be created: any Unicode text except the characters that CSI bans. Not a path. */
export function requireName(value: Optional<string>, field: string): string {
  const name = requireString(value, field);
  for (const character of name) {
    const codePoint = character.codePointAt(0) as number;
    if (isBannedInNames(codePoint)) {
      const digits = codePoint.toString(16).toUpperCase().padStart(4, '0');
      throw CsiError.invalidArgument(`${field} contains the control character U+${digits}`);
    }
  }
  return name;
}

export function parseBoolean(value: Optional<boolean>, field: string): boolean {
  if (value === undefined || value === null) return false;
  if (typeof value !== 'boolean') throw CsiError.invalidArgument(`${field} is not a bool`);
  return value;
}

/** A path that the kernel would accept, absolute or relative; empty when it is missing. */
export function parsePath(value: Optional<string>, field: string): string {
  const path = optionalString(value, field, { maxBytes: MAX_PATH_BYTES });
  if (path.includes('\0')) throw CsiError.invalidArgument(`${field} contains a NUL character`);
  return path;
}

/**
 * The path without double or trailing slashes and `.` segments. Rejects relative paths, the root
 * directory, and `..`, which a symbolic link on the way would lead elsewhere.
 *
 * Call it after the volume was found: callers ask about unknown volumes with relative paths and expect
 * NOT_FOUND.
 */
export function requireAbsolutePath(path: string, field: string): string {
  if (!path.startsWith('/')) throw CsiError.invalidArgument(`${field} is not an absolute path`);
  if (path.split('/').includes('..')) {
    throw CsiError.invalidArgument(`${field} contains a '..' segment`);
  }
  if (path.split('/').some((segment) => Buffer.byteLength(segment) > MAX_SEGMENT_BYTES)) {
    throw CsiError.invalidArgument(`${field} has a segment of over ${MAX_SEGMENT_BYTES} bytes`);
  }
  const clean = normalize(path).replace(/\/$/, '');
  if (clean === '') throw CsiError.invalidArgument(`${field} is the root directory`);
  return clean;
}

/** A map of strings; keys and values count towards the limit. Empty when it is missing. */
export function parseMap(given: Optional<StringMap>, field: string, maxBytes = MAX_MAP_BYTES): StringMap {
  const map = asMessage(given ?? {}, field);
  let bytes = 0;
  for (const [key, value] of Object.entries(map)) {
    if (typeof value !== 'string') {
      throw CsiError.invalidArgument(`${field} holds a value that is not a string`);
    }
    bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  }
  assertSize(maxBytes, bytes, field);
  // Spread defines its keys, so `__proto__` stays a key.
  return { ...map } as StringMap;
}

/** A secrets map. Unknown keys are allowed: callers may send one map to all RPCs. */
export function parseSecrets(value: Optional<StringMap>, field = 'secrets'): StringMap {
  const secrets = parseMap(value, field);
  if (!Object.keys(secrets).every((key) => /^[A-Za-z0-9._-]+$/.test(key))) {
    throw CsiError.invalidArgument(`${field} has a key with characters other than letters, digits and '-_.'`);
  }
  return secrets;
}

/** An int64, negative ones too; 0 when it is missing. */
export function parseInt64(value: Optional<string>, field: string): bigint {
  if (value === undefined || value === null) return 0n;
  if (typeof value !== 'string' || !/^-?[0-9]+$/.test(value)) {
    throw CsiError.invalidArgument(`${field} is not an int64`);
  }
  return BigInt(value);
}

/** An int64 that counts bytes; 0 when it is missing. */
export function parseBytes(value: Optional<string>, field: string): bigint {
  const bytes = parseInt64(value, field);
  if (bytes < 0n) throw CsiError.invalidArgument(`${field} is negative: ${bytes}`);
  return bytes;
}

/** A count such as max_entries; 0 when it is missing. */
export function parseInt32NonNegative(value: Optional<number>, field: string): number {
  const count = value ?? 0;
  if (!Number.isInteger(count)) throw CsiError.invalidArgument(`${field} is not an int32`);
  if ((count as number) < 0) throw CsiError.invalidArgument(`${field} is negative: ${count}`);
  return count as number;
}

/** Null when the range is missing. */
export function parseCapacityRange(range: Optional<CapacityRangeMessage>, field: string): CapacityRange | null {
  if (range === undefined || range === null) return null;
  const message: CapacityRangeMessage = asMessage(range, field);
  const requiredBytes = parseBytes(message.required_bytes, `${field}.required_bytes`);
  const limitBytes = parseBytes(message.limit_bytes, `${field}.limit_bytes`);
  if (requiredBytes === 0n && limitBytes === 0n) {
    throw CsiError.invalidArgument(`${field} sets neither required_bytes nor limit_bytes`);
  }
  if (limitBytes !== 0n && requiredBytes > limitBytes) {
    throw CsiError.invalidArgument(`${field}.required_bytes ${requiredBytes} is over limit_bytes ${limitBytes}`);
  }
  return { requiredBytes, limitBytes };
}

/** Rejects an invalid capability. driver/volumes/volume-rules.ts decides which capabilities are supported. */
export function parseVolumeCapability(capability: Optional<CapabilityMessage>, field: string): VolumeCapability {
  requirePresent(capability, field);
  const message = asMessage(capability, field);
  const accessMode = parseAccessMode(message.access_mode, `${field}.access_mode`);
  const isBlock = !isUnset(message.block);
  const isMount = !isUnset(message.mount);
  if (isBlock === isMount) {
    throw CsiError.invalidArgument(`${field} must set exactly one of block and mount`);
  }
  if (isBlock) return { accessType: 'block', accessMode };
  return { ...parseMountAccess(message.mount, `${field}.mount`), accessMode };
}

/** Requires at least one capability. */
export function parseVolumeCapabilities(
  list: Optional<readonly CapabilityMessage[]>,
  field: string,
): readonly [VolumeCapability, ...VolumeCapability[]] {
  requirePresent(list, field);
  const capabilities = asList(list, field).map((capability, index) =>
    parseVolumeCapability(capability, `${field}[${index}]`),
  );
  return capabilities as [VolumeCapability, ...VolumeCapability[]];
}

function parseAccessMode(value: CapabilityMessage['access_mode'], field: string): AccessMode {
  requirePresent(value, field);
  const { mode } = asMessage(value, field);
  if (isUnset(mode) || mode === 'UNKNOWN') {
    throw CsiError.invalidArgument(`${field}.mode is required`);
  }
  if (!isAccessMode(mode)) {
    throw CsiError.invalidArgument(`${field}.mode ${String(mode)} is not known to this plugin`);
  }
  return mode;
}

function isAccessMode(mode: unknown): mode is AccessMode {
  return (ACCESS_MODES as readonly unknown[]).includes(mode);
}

function parseMountAccess(value: CapabilityMessage['mount'], field: string): MountAccess {
  const mount = asMessage(value, field);
  const fsType = optionalString(mount.fs_type, `${field}.fs_type`);
  const group = optionalString(mount.volume_mount_group, `${field}.volume_mount_group`);
  const flagsField = `${field}.mount_flags`;
  const mountFlags = asList(mount.mount_flags, flagsField).map((flag) => asString(flag, flagsField));
  const bytes = mountFlags.reduce((sum, flag) => sum + Buffer.byteLength(flag), 0);
  assertSize(MAX_MOUNT_FLAGS_BYTES, bytes, flagsField);
  return { accessType: 'mount', fsType, mountFlags, volumeMountGroup: group };
}

function isUnset(value: unknown): boolean {
  return value === undefined || value === null;
}

function isMissing(value: unknown): boolean {
  if (isUnset(value) || value === '') return true;
  return typeof value === 'object' && Object.keys(value as object).length === 0;
}

function isBannedInNames(codePoint: number): boolean {
  if (codePoint >= 0x7f) return codePoint <= 0x9f;
  return codePoint < 0x20 && codePoint !== 0x09 && codePoint !== 0x0a && codePoint !== 0x0d;
}

function assertSize(maxBytes: number, bytes: number, field: string): void {
  if (bytes > maxBytes) {
    throw CsiError.invalidArgument(`${field} is ${bytes} bytes long, the limit is ${maxBytes}`);
  }
}

function asString(value: unknown, field: string): string {
  if (isUnset(value)) return '';
  if (typeof value !== 'string') throw CsiError.invalidArgument(`${field} is not a string`);
  return value;
}

function asList<T>(value: Optional<readonly T[]>, field: string): readonly T[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw CsiError.invalidArgument(`${field} is not a list`);
  return value;
}

function asMessage<T extends object>(value: Optional<T>, field: string): T {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw CsiError.invalidArgument(`${field} is not a message`);
  }
  return value;
}
