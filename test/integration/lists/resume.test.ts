/**
 * Lists longer than what the plugin works on at once: complete, cut into messages, resumed and interrupted. The
 * conformance suite has the same of short ones.
 */
import assert from 'node:assert/strict';
import { closeSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { tailFrom } from '../../../src/tools/conformance/ranges.js';
import { type Message, type Range, rangesIn } from '../../support/csi-client.js';
import { eventually } from '../../support/eventually.js';
import { cloneRange } from '../../support/ioctls.js';
import { seededRandom } from '../../support/random.js';
import { encodeMessage } from '../../support/raw-call.js';
import { refused, statusOf } from '../../support/refusal.js';
import { runPlugin, test } from '../../support/running-plugin.js';

const MIB = 1 << 20;
/** More entries than any chunk the plugin works with at once. */
const LARGE_BYTES = 144 * MIB;
const STRIDE = 2048;
const PIECE = 1024;

type Rpc = 'GetMetadataAllocated' | 'GetMetadataDelta';
type Pair = Awaited<ReturnType<typeof makePair>>;

const random = seededRandom('resume');
const running = runPlugin('resume', {
  pools: { main: 'xfs-1k' },
  async prepare() {
    large = await makePair(LARGE_BYTES);
  },
});
const { orchestrator } = running;
let large: Pair;

/** An empty snapshot, and one with a piece of data in every stride; and what both lists of the pair must be. */
async function makePair(sizeBytes: number) {
  const volume = await orchestrator.create('large', { sizeBytes });
  const base = await orchestrator.snapshot(volume);
  const megabyte = openSync(running.poolPath('main', 'megabyte'), 'w+');
  for (let offset = 0; offset < MIB; offset += STRIDE) {
    writeSync(megabyte, Buffer.alloc(PIECE, 'x'), 0, PIECE, offset);
  }
  ftruncateSync(megabyte, MIB);
  // Cloned all over the volume, which makes many extents and writes nothing.
  const file = openSync(running.poolPath('main', 'volumes', volume.id), 'r+');
  for (let offset = 0; offset < sizeBytes; offset += MIB) {
    cloneRange({ fd: megabyte, offset: 0 }, { fd: file, offset }, MIB);
  }
  for (const fd of [megabyte, file]) closeSync(fd);
  const target = await orchestrator.snapshot(volume);
  const ranges = Array.from({ length: sizeBytes / STRIDE }, (_, index) => ({
    offset: BigInt(index * STRIDE),
    size: BigInt(PIECE),
  }));
  return { base, target, ranges };
}

/** Both RPCs on a pair have the same list, since the base is empty. */
function requests({ base, target }: Pair): [Rpc, Message][] {
  return [
    ['GetMetadataAllocated', { snapshot_id: target }],
    ['GetMetadataDelta', { base_snapshot_id: base, target_snapshot_id: target }],
  ];
}

interface Part {
  ranges: Range[];
  /** The entries of each message. */
  entries: number[];
}

/** Reads to the end, or at least `wanted` entries, and cancels. */
async function read(rpc: Rpc, request: Message, wanted = Infinity): Promise<Part> {
  const stream = running.client.open(rpc, request);
  const part: Part = { ranges: [], entries: [] };
  try {
    for await (const message of stream as AsyncIterable<Message>) {
      const ranges = rangesIn(message);
      assert.ok(encodeMessage(`${rpc}Response`, message).length < 3.5 * MIB);
      assert.equal(message['block_metadata_type'], 'VARIABLE_LENGTH');
      assert.equal(message['volume_capacity_bytes'], String(LARGE_BYTES));
      part.entries.push(ranges.length);
      part.ranges.push(...ranges);
      if (part.ranges.length >= wanted) break;
    }
  } finally {
    stream.on('error', () => undefined);
    stream.cancel();
  }
  return part;
}

test('SM8: a long list is complete, in messages of at most 8192 entries and less than 3.5 MiB', async () => {
  assert.ok(large.ranges.length > 1024 + 65_536);
  for (const [rpc, request] of requests(large)) {
    const { ranges, entries } = await read(rpc, request);
    assert.equal(Math.max(...entries), 8192);
    assert.deepEqual(ranges, large.ranges);
  }
});

test('a long list is the same with most results in a message, and in pieces', async () => {
  for (const [rpc, request] of requests(large)) {
    const whole = await read(rpc, { ...request, max_results: 100_000 });
    assert.ok(whole.entries.every((count) => count > 0 && count <= 100_000));
    assert.deepEqual(whole.ranges, large.ranges);
    const ranges: Range[] = [];
    for (let round = 0; round < 9; round += 1) {
      const { offset, size } = ranges.at(-1) ?? { offset: 0n, size: 0n };
      const starting_offset = String(offset + size);
      const part = { ...request, starting_offset, max_results: random.pick([0, 3, 100]) };
      const wanted = round < 8 ? 1 + random.below(25_000) : Infinity;
      ranges.push(...(await read(rpc, part, wanted)).ranges);
    }
    assert.deepEqual(ranges, large.ranges);
  }
});

test('a long list begins exactly at its starting_offset, aligned or not', async () => {
  const borders = [1n, 1024n, 65_536n, 66_560n].map((entry) => entry * BigInt(STRIDE));
  const near = borders.flatMap((offset) => [-1n, 0n, 1n, 1024n].map((by) => offset + by));
  const anywhere = Array.from({ length: 4 }, () => BigInt(random.below(LARGE_BYTES)));
  for (const [rpc, request] of requests(large)) {
    for (const offset of [...near, ...anywhere, BigInt(LARGE_BYTES - 1)]) {
      const part = { ...request, starting_offset: String(offset) };
      // The tail of a large list says nothing new: what is near the offset matters.
      const { ranges } = await read(rpc, part, 2500);
      const wanted = tailFrom(large.ranges, offset).slice(0, ranges.length);
      assert.deepEqual(ranges, wanted, `${rpc} from ${offset}`);
    }
  }
});

test('SM28 and DS4: a snapshot is not deleted while it is streamed, and can be deleted once the client has gone', async () => {
  const stream = running.client.open('GetMetadataDelta', {
    base_snapshot_id: large.base,
    target_snapshot_id: large.target,
    max_results: 100,
  });
  stream.on('error', () => undefined);
  // One message is taken and no more. A client's library reads some ahead, so the messages are many and
  // small: the plugin has to wait with most of the list unsent, for longer than a call waits for a lock.
  await new Promise((taken) => stream.once('data', (message) => taken(stream.pause() && message)));
  for (const id of [large.base, large.target]) {
    await refused(orchestrator.deleteSnapshot(id), 'FAILED_PRECONDITION', /being read/);
  }
  assert.equal((await running.client.allocated(large.base)).ranges.length, 0);
  stream.cancel();
  const isDeleted = async () => (await statusOf(orchestrator.deleteSnapshot(large.base))) === 'OK';
  await eventually('the snapshot can be deleted', isDeleted);
  const retained = await running.client.delta(large.base, large.target);
  assert.ok(retained.ranges.length > 0);
});
