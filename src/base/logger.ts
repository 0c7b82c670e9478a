/**
 * Logs JSON lines to stderr, without characters that a terminal acts on. Callers decide what a line may contain
 * (server/calls/redact.ts strips requests); this file only knows how values become JSON.
 */
import { type DestinationStream, destination, type Logger, pino, stdSerializers } from 'pino';

import { plainJson } from './plain-text.js';

export type { Logger } from 'pino';
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** @param stream destination of the lines; default: stderr, written before the call returns */
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
      hooks: { streamWrite: plainJson },
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

/** JSON has no bigint, and readers lose precision in numbers above 2^53, so bigints become strings. */
function jsonValue(value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString();
  if (Array.isArray(value)) return value.map(jsonValue);
  return isPlainObject(value) ? toJson(value) : value;
}

/** False for errors and other classes, which have their own serializers. */
function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
