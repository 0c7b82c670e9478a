/**
 * The mutable parameters of a volume: the settings of its block device, and the I/O limits of the pod that
 * uses it, which can change while the volume is in use.
 *
 * Defines names, types, defaults and ranges, and parses a parameter map. Touches no device:
 * host/block-settings.ts and host/io-limits.ts apply the settings.
 */
import { CsiError, printable } from '../../base/errors.js';
import type { VolumeRecord } from '../catalogue/records.js';
import type { IoLimits } from '../host/io-limits.js';

export const IO_SCHEDULERS = ['none', 'mq-deadline', 'kyber', 'bfq'] as const;
export type IoScheduler = (typeof IO_SCHEDULERS)[number];

/** A setting is null if nobody requested it; the device then gets the default. */
export interface DeviceSettings {
  readonly readAheadKiB: number | null;
  readonly ioScheduler: IoScheduler | null;
  readonly loopDirectIo: boolean | null;
  readonly limits: IoLimits;
}

/** What ControllerModifyVolume needs from the node that serves the volume. */
export interface SettingsApplier {
  /**
   * Applies all mutable parameters of the record to the volume's device, and the limits to the pods that use the volume. Throws
   * if a setting among `changed` or a limit cannot be set; other device settings that are not possible here are skipped. The
   * caller reverts a failed change by applying the earlier record. Does nothing if the volume is not attached.
   */
  apply(volume: VolumeRecord, changed: readonly string[]): Promise<void>;
}

export interface MutableParameter {
  readonly name: string;
  readonly type: string;
  readonly default: string;
  readonly range: string;
}

/** The maximum of int64, CSI's type for sizes. The kernel's io.max accepts unsigned 64-bit numbers. */
const LIMIT_MAX = 2n ** 63n - 1n;
const READ_AHEAD_MAX_KIB = 16384;
const RATE = { type: 'whole number or max', default: 'max', range: `1 to ${LIMIT_MAX}, or max` };

export const MUTABLE_PARAMETERS = [
  {
    name: 'readAheadKiB',
    type: 'whole number',
    default: "the kernel's, at least 128",
    range: `0 to ${READ_AHEAD_MAX_KIB}`,
  },
  {
    name: 'ioScheduler',
    type: 'name',
    default: 'none',
    range: `${IO_SCHEDULERS.join(', ')}, if the node's kernel has it`,
  },
  {
    name: 'loopDirectIo',
    type: 'boolean',
    default: 'true where it is safe',
    range: 'true or false',
  },
  { name: 'readBytesPerSecond', ...RATE },
  { name: 'writeBytesPerSecond', ...RATE },
  { name: 'readOperationsPerSecond', ...RATE },
  { name: 'writeOperationsPerSecond', ...RATE },
] as const satisfies readonly MutableParameter[];

type Name = (typeof MUTABLE_PARAMETERS)[number]['name'];

export function isMutableParameter(key: string): key is Name {
  return MUTABLE_PARAMETERS.some(({ name }) => name === key);
}

/** INVALID_ARGUMENT for an unknown key, with a list of the known ones, and for a value out of range. */
export function parseDeviceSettings(map: Readonly<Record<string, string>>, field: string): DeviceSettings {
  const unknown = Object.keys(map).find((key) => !isMutableParameter(key));
  if (unknown !== undefined) {
    const known = MUTABLE_PARAMETERS.map(({ name }) => name).join(', ');
    throw CsiError.invalidArgument(`${field}['${printable(unknown)}'] is unknown; known parameters are ${known}`);
  }
  const read = <T>(key: Name, parse: (text: string) => T | undefined): T | null => {
    const text = Object.hasOwn(map, key) ? map[key] : undefined;
    if (text === undefined) return null;
    const value = parse(text);
    if (value === undefined) throw outOfRange(field, key, text);
    return value;
  };
  return {
    readAheadKiB: read('readAheadKiB', parseReadAhead),
    ioScheduler: read('ioScheduler', (text) => IO_SCHEDULERS.find((name) => name === text)),
    loopDirectIo: read('loopDirectIo', parseBoolean),
    limits: {
      readBytesPerSecond: read('readBytesPerSecond', parseRate),
      writeBytesPerSecond: read('writeBytesPerSecond', parseRate),
      readOperationsPerSecond: read('readOperationsPerSecond', parseRate),
      writeOperationsPerSecond: read('writeOperationsPerSecond', parseRate),
    },
  };
}

export function hasLimits({ limits }: DeviceSettings): boolean {
  return Object.values(limits).some((limit) => limit !== null);
}

function parseReadAhead(text: string): number | undefined {
  const number = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  return number <= READ_AHEAD_MAX_KIB ? number : undefined;
}

function parseBoolean(text: string): boolean | undefined {
  if (text === 'true') return true;
  return text === 'false' ? false : undefined;
}

/** Null for `max`, which means no limit; undefined if the text is not a rate. */
function parseRate(text: string): bigint | null | undefined {
  if (text === 'max') return null;
  const rate = /^[1-9]\d{0,18}$/.test(text) ? BigInt(text) : 0n;
  return rate > 0n && rate <= LIMIT_MAX ? rate : undefined;
}

function outOfRange(field: string, key: Name, text: string): CsiError {
  const { type, range } = MUTABLE_PARAMETERS.find(({ name }) => name === key) ?? RATE;
  return CsiError.invalidArgument(`${field}['${key}'] is '${printable(text)}': it must be a ${type}, ${range}`);
}
