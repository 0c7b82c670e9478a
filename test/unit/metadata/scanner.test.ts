import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { MAX_ENTRIES_PER_MESSAGE, scan } from '../../../src/driver/metadata/scanner.js';
import type { FillRequest, FillResult, ScanSource } from '../../../src/driver/native/addon.js';
import type { NativeFiller } from '../../../src/driver/native/pool.js';
import { ScanThreads } from '../../../src/driver/native/scan-threads.js';
import type { FillAnswer } from '../../../src/driver/native/worker.js';
import { patientTurn } from '../../support/turn.js';

const SOURCE: ScanSource = { kind: 'extents', sizeBytes: 1000n, target: new BigUint64Array(), base: null };

/** Answers with a byte that counts the chunks, `chunks` times, 100 bytes further each time. */
class FakeFiller implements NativeFiller {
  readonly requests: FillRequest[] = [];
  readonly buffers = new Set<ArrayBuffer>();
  running = 0;
  #inUse = new Set<ArrayBuffer>();

  constructor(
    private readonly chunks: number,
    private readonly change: (result: FillResult, index: number) => object = () => ({}),
  ) {}

  async fill(request: FillRequest, buffer: ArrayBuffer): Promise<FillAnswer> {
    const index = this.requests.length;
    this.requests.push(request);
    this.buffers.add(buffer);
    assert.ok(!this.#inUse.has(buffer), 'a buffer is filled once at a time');
    this.#inUse.add(buffer);
    this.running += 1;
    assert.equal(this.running, 1, 'one chunk of a scan is filled at a time');
    await delay(1);
    this.running -= 1;
    this.#inUse.delete(buffer);
    new Uint8Array(buffer)[0] = index;
    const result = {
      ok: true as const,
      messages: 1,
      bytes: 1,
      entries: 1,
      entryBytes: 1n,
      nextOffset: request.offset + 100n,
      nextRangeStart: request.offset + 90n,
      done: index === this.chunks - 1,
      extents: 1,
      rescans: 0,
      unprovedBytes: 0n,
      nodes: 0,
    };
    return { result: { ...result, ...this.change(result, index) }, buffer };
  }
}

const options = { startingOffset: 40n, maxResults: 0, turn: patientTurn() };

const scanned = (filler: NativeFiller, more: Partial<typeof options> = {}) =>
  scan(new ScanThreads(filler, 1), SOURCE, { ...options, ...more });

async function messagesOf(filler: NativeFiller, maxResults = 0): Promise<number[]> {
  const messages: number[] = [];
  for await (const { result } of scanned(filler, { maxResults })) messages.push(result.messages);
  return messages;
}

test('a scan continues where the last chunk ended, with the range that was open there', async () => {
  const filler = new FakeFiller(4);
  const seen: number[] = [];
  for await (const { bytes } of scanned(filler)) seen.push(bytes[0] ?? -1);
  assert.deepEqual(seen, [0, 1, 2, 3]);
  assert.deepEqual(
    filler.requests.map(({ offset, rangeStart }) => `${offset} ${rangeStart}`),
    ['40 40', '140 130', '240 230', '340 330'],
  );
});

test('nothing is read ahead before the first chunks were taken, then one chunk; large ones come late', async () => {
  const filler = new FakeFiller(30);
  let taken = 0;
  for await (const _chunk of scanned(filler)) {
    await delay(5);
    const ahead = taken < 5 ? 0 : 1;
    taken += 1;
    assert.ok(filler.requests.length <= taken + ahead, 'more chunks ahead than that');
  }
  assert.equal(taken, 30);
  const sizes = filler.requests.map(({ maxEntries }) => maxEntries);
  const small = new Array<number>(22).fill(8192);
  assert.deepEqual(sizes, [1024, 4096, 4096, ...small, ...new Array<number>(5).fill(65536)]);
  assert.equal(filler.buffers.size, 6);
});

test('the bytes of a chunk stay as they are until the next one is asked for', async () => {
  const filler = new FakeFiller(20);
  let index = 0;
  for await (const { bytes } of scanned(filler)) {
    await delay(3);
    assert.equal(bytes[0], index);
    index += 1;
  }
});

test('a consumer that leaves ends the scan, and the chunk ahead may fail unheard', async () => {
  const filler = new FakeFiller(100, (_result, index) => (index >= 1 ? failure('EIO') : {}));
  for await (const _chunk of scanned(filler)) break;
  await delay(10);
  assert.ok(filler.requests.length <= 2);
});

test('a failed chunk comes as a SystemError after the chunks before it', async () => {
  const filler = new FakeFiller(100, (_result, index) => (index === 2 ? failure('SCAN_MUTABLE') : {}));
  let taken = 0;
  const all = async (): Promise<void> => {
    for await (const _chunk of scanned(filler)) taken += 1;
  };
  await assert.rejects(all(), { code: 'SCAN_MUTABLE', syscall: 'test', path: '/x' });
  assert.ok(taken >= 1 && taken <= 2);
  const dead: NativeFiller = { fill: () => Promise.reject(new Error('the thread has died')) };
  await assert.rejects(messagesOf(dead), /the thread has died/);
});

test('chunks without messages are not handed on, except that the last one always is', async () => {
  const filler = new FakeFiller(5, (_result, index) => (index === 2 ? {} : { messages: 0, bytes: 0 }));
  assert.deepEqual(await messagesOf(filler), [1, 0]);
});

test('an empty message may be sent by the first chunk that sends, and by none after it', async () => {
  const filler = new FakeFiller(4, (_result, index) => (index === 1 ? {} : { messages: 0, bytes: 0 }));
  await messagesOf(filler);
  const mayBeEmpty = filler.requests.map(({ sendEmpty }) => sendEmpty);
  assert.deepEqual(mayBeEmpty, [true, true, false, false]);
});

test('max_results bounds each message, and never raises the bound of the plugin, which is lower at first', async () => {
  const bounds: [number, number][] = [
    [0, MAX_ENTRIES_PER_MESSAGE],
    [1, 1],
    [7, 7],
    [2000, 2000],
    [MAX_ENTRIES_PER_MESSAGE + 1, MAX_ENTRIES_PER_MESSAGE],
    [2 ** 31 - 1, MAX_ENTRIES_PER_MESSAGE],
  ];
  for (const [maxResults, expected] of bounds) {
    const filler = new FakeFiller(8);
    await messagesOf(filler, maxResults);
    const found = filler.requests.map((request) => request.maxEntriesPerMessage);
    const atFirst = new Array<number>(5).fill(Math.min(1024, expected));
    assert.deepEqual(found, [...atFirst, expected, expected, expected]);
  }
});

function failure(code: string): object {
  return { ok: false, code, errno: 5, syscall: 'test', path: '/x', before: 'as expected', after: '' };
}
