/**
 * Requests whose getters take memory away while the addon reads them: the addon finds where a buffer is
 * after the last field was read, so that it never writes or reads memory that is gone.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NativeFailure } from '../../../src/base/system/native-result.js';
import { loadAddon } from '../../../src/driver/native/addon.js';

const addon = loadAddon();
const fill = addon.fillMetadata as unknown as (
  request: unknown,
  buffer: ArrayBuffer,
) => NativeFailure | { ok: true; entries: number };

/** Large enough for a mapping of its own: a write after it was freed cannot go unnoticed. */
const BUFFER_BYTES = 64 << 20;

const LIMITS = {
  offset: 0n,
  rangeStart: 0n,
  maxEntries: 1_000_000,
  maxEntriesPerMessage: 8192,
  maxExtents: 1_000_000,
  sendEmpty: true,
};

const SOURCES: Readonly<Record<string, Record<string, unknown>>> = {
  lists: {
    kind: 'lists',
    sizeBytes: 4096n,
    paths: ['/nonexistent'],
    targetId: 'target',
    baseId: null,
    target: null,
    base: null,
    thin: null,
  },
  extents: { kind: 'extents', sizeBytes: 1n << 40n, target: BigUint64Array.of(0n, 4096n, 4096n, 0n), base: null },
  files: {
    kind: 'files',
    target: { path: '/nonexistent', device: 1n, inode: 1n, sizeBytes: 4096n },
    base: null,
  },
  thin: {
    kind: 'thin',
    sizeBytes: 4096n,
    metadata: '/nonexistent',
    superblock: 0n,
    target: { deviceId: 1, root: null },
    base: null,
    bookmark: null,
  },
};

function detach(buffer: ArrayBufferLike): void {
  structuredClone(null, { transfer: [buffer as ArrayBuffer] });
}

/** The same object, except that reading one of its fields does something first. */
function withGetter(object: Record<string, unknown>, field: string, act: () => void): Record<string, unknown> {
  const value = object[field];
  return Object.defineProperty({ ...object }, field, {
    get: () => {
      act();
      return value;
    },
  });
}

for (const [kind, source] of Object.entries(SOURCES)) {
  for (const field of Object.keys(source)) {
    test(`H22: a buffer that reading ${field} of a ${kind} source detaches is refused`, () => {
      const buffer = new ArrayBuffer(BUFFER_BYTES);
      const hostile = withGetter(source, field, () => {
        if (buffer.byteLength > 0) detach(buffer);
      });
      const answer = fill({ ...LIMITS, source: hostile }, buffer);
      assert.equal(answer.ok, false);
      assert.equal((answer as NativeFailure).code, 'EINVAL');
      assert.match((answer as NativeFailure).after, /buffer must have at least/);
    });
  }
}

for (const field of Object.keys(LIMITS)) {
  test(`H22: a buffer that reading ${field} detaches is refused`, () => {
    const buffer = new ArrayBuffer(BUFFER_BYTES);
    const hostile = withGetter(LIMITS, field, () => detach(buffer));
    const answer = fill(Object.defineProperty(hostile, 'source', { value: SOURCES['extents'] }), buffer);
    assert.equal((answer as NativeFailure).code, 'EINVAL');
  });
}

test('H22: extents whose memory a later field takes away are refused: an empty list would be a wrong one', () => {
  // Whole extents of 4096 bytes, 8 MiB of them, so that reading freed memory cannot go unnoticed.
  const target = new BigUint64Array(4 << 18);
  for (let index = 0; index < target.length; index += 4) {
    target[index] = BigInt(index) * 2048n;
    target[index + 1] = 4096n;
    target[index + 2] = 1n;
  }
  const source = { kind: 'extents', sizeBytes: 1n << 40n, target, base: null };
  const hostile = withGetter(source, 'base', () => {
    if (target.length > 0) detach(target.buffer);
  });
  const answer = fill({ ...LIMITS, source: hostile }, new ArrayBuffer(1 << 20));
  assert.equal((answer as NativeFailure).code, 'EINVAL');
  assert.match((answer as NativeFailure).after, /must not change/);
});
