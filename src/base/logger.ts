/**
 * JSON lines on stderr. What may be in a line is decided where it is logged (csi/redact.ts strips
 * requests); this file only knows how values become JSON.
 */
import { type DestinationStream, destination, type Logger, pino, stdSerializers } from 'pino';

export type { Logger } from 'pino';
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error';

/** @param stream where lines go; left out, stderr, written before the call returns */
export function createLogger(level: LogLevel, stream?: DestinationStream): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      serializers: { err: serializeError },
      formatters: {
        level: (label) => ({ level: label }),
        bindings: toJson,
        log: toJson,
      },
    },
    stream ?? destination({ fd: 2, sync: true }),
  );
}

function serializeError(error: unknown): unknown {
  return error instanceof Error ? toJson({ ...stdSerializers.err(error) }) : error;
}

function toJson(fields: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, jsonValue(value)]));
}

/** JSON has no bigint, and a JSON number is read back inexactly above 2^53. */
function jsonValue(value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString();
  if (Array.isArray(value)) return value.map(jsonValue);
  return isPlainObject(value) ? toJson(value) : value;
}

/** Errors and other classes have serializers of their own. */
function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
