/**
 * Each thread of pattern-server.ts loads this module first: it adds generated extents to what the addon of the thread scans, so
 * that streams of any length need no disk. Everything else of the addon stays as it is.
 */
import { createRequire } from 'node:module';
import { packagePath } from '../../../src/base/package-root.js';
import { type FillRequest, type FillResult, loadAddon } from '../../../src/driver/native/addon.js';
import type { PatternSource } from './pattern.js';

const { fillPattern } = createRequire(import.meta.url)(packagePath('.native-build/pattern.node')) as {
  /** The words are those of `requestOf`, and afterwards those of `answerIn`. */
  fillPattern(words: BigUint64Array, buffer: ArrayBuffer): void;
};

const addon = loadAddon();
const { fillMetadata } = addon;
addon.fillMetadata = (request, buffer) => {
  const source = request.source as FillRequest['source'] | PatternSource;
  if (source.kind !== 'pattern') return fillMetadata(request, buffer);
  const words = requestOf(source, request);
  fillPattern(words, buffer);
  return { ok: true, ...answerIn(words) };
};

function requestOf({ sizeBytes, extentBytes, strideBytes }: PatternSource, request: FillRequest): BigUint64Array {
  const { offset, rangeStart, maxEntries, maxEntriesPerMessage, maxExtents, sendEmpty } = request;
  const counts = [maxEntries, maxEntriesPerMessage, maxExtents, Number(sendEmpty)].map(BigInt);
  return BigUint64Array.of(sizeBytes, extentBytes, strideBytes, offset, rangeStart, ...counts);
}

function answerIn(words: BigUint64Array): FillResult {
  const [messages, bytes, entries, entryBytes = 0n, nextOffset = 0n, nextRangeStart = 0n, done, extents] = words;
  return {
    messages: Number(messages),
    bytes: Number(bytes),
    entries: Number(entries),
    entryBytes,
    nextOffset,
    nextRangeStart,
    done: done === 1n,
    extents: Number(extents),
    rescans: 0,
    unprovedBytes: 0n,
    nodes: 0,
  };
}
