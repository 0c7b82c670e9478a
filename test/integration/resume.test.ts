/** Interrupted and resumed, bounded and refused streams: starting_offset, max_results, lineage. */
import assert from 'node:assert/strict';
import { closeSync, ftruncateSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Message, Range } from '../support/csi-client.js';
import { rejectsWith } from '../support/expect-status.js';
import { cloneRange } from '../support/ioctls.js';
import { assertSound, assertWellFormed } from '../support/metadata-check.js';
import { Plugin } from '../support/plugin.js';
import { type Random, seededRandom } from '../support/random.js';
import { endOf, from, merged, pattern } from '../support/ranges.js';
import { readSnapshot, type TestSnapshot, TestVolume, volumePath } from '../support/test-volume.js';
import { makePoolFileSystem, skipUnlessRoot, Workspace } from '../support/workspace.js';

const MIB = 1 << 20;
const SMALL_BYTES = 16 * MIB;
/** More entries than any chunk the plugin works with at once. */
const LARGE_BYTES = 144 * MIB;
const STRIDE = 2048;
const PIECE = 1024;

type Rpc = 'GetMetadataAllocated' | 'GetMetadataDelta';
interface Pair {
  volume: TestVolume;
  base: TestSnapshot;
  target: TestSnapshot;
  /** What both lists of the pair must be. */
  ranges: Range[];
}

let workspace: Workspace;
let pool: string;
let plugin: Plugin;
let small: Pair;
let large: Pair;
let random: Random;
const options = { skip: skipUnlessRoot };

before(async () => {
  if (skipUnlessRoot !== false) return;
  random = seededRandom('resume');
  workspace = new Workspace('resume');
  pool = makePoolFileSystem(workspace, 'xfs-1k');
  plugin = await Plugin.start(workspace, { pools: `main=${pool}` });
  small = await makePair(SMALL_BYTES);
  large = await makePair(LARGE_BYTES);
});

after(async () => {
  if (skipUnlessRoot !== false) return;
  await plugin?.stop();
  workspace.dispose();
});

/** An empty snapshot, and one with a piece of data in every stride. */
async function makePair(sizeBytes: number): Promise<Pair> {
  const volume = await TestVolume.create(plugin.client, workspace, { sizeBytes });
  const base = await volume.snapshot();
  const megabyte = openSync(join(pool, 'megabyte'), 'w+');
  for (let offset = 0; offset < MIB; offset += STRIDE) {
    writeSync(megabyte, Buffer.alloc(PIECE, 'x'), 0, PIECE, offset);
  }
  ftruncateSync(megabyte, MIB);
  // Cloned all over the volume, which makes many extents and writes nothing.
  const file = openSync(volumePath(pool, volume.id), 'r+');
  for (let offset = 0; offset < sizeBytes; offset += MIB) {
    cloneRange({ fd: megabyte, offset: 0 }, { fd: file, offset }, MIB);
  }
  for (const fd of [megabyte, file]) closeSync(fd);
  const target = await volume.snapshot();
  return { volume, base, target, ranges: pattern(sizeBytes, STRIDE, PIECE) };
}

/** Both RPCs on a pair have the same list, since the base is empty. */
function requests({ base, target }: Pair): [Rpc, Message][] {
  return [
    ['GetMetadataAllocated', { snapshot_id: target.id }],
    ['GetMetadataDelta', { base_snapshot_id: base.id, target_snapshot_id: target.id }],
  ];
}

/** Reads at least `wanted` entries and cancels. */
async function readPart(rpc: Rpc, request: Message, wanted: number): Promise<Range[]> {
  const stream = plugin.client.open(rpc, request);
  const ranges: Range[] = [];
  try {
    for await (const message of stream as AsyncIterable<Message>) {
      for (const { byte_offset, size_bytes } of message['block_metadata']) {
        ranges.push({ offset: BigInt(byte_offset), size: BigInt(size_bytes) });
      }
      if (ranges.length >= wanted) break;
    }
  } finally {
    stream.on('error', () => undefined);
    stream.cancel();
  }
  return ranges;
}

for (const maxResults of [1, 2, 3, 7, 100, 8192, 100_000]) {
  test(
    `SM7: with max_results ${maxResults} no message has more entries and none is lost`,
    options,
    async () => {
      for (const pair of maxResults < 100 ? [small] : [small, large]) {
        for (const [rpc, request] of requests(pair)) {
          const stream = plugin.client.open(rpc, { ...request, max_results: maxResults });
          const ranges: Range[] = [];
          for await (const message of stream as AsyncIterable<Message>) {
            const blocks = message['block_metadata'] as Message[];
            assert.ok(blocks.length > 0 && blocks.length <= maxResults);
            for (const { byte_offset, size_bytes } of blocks) {
              ranges.push({ offset: BigInt(byte_offset), size: BigInt(size_bytes) });
            }
          }
          assert.deepEqual(ranges, pair.ranges);
        }
      }
    },
  );
}

test('SM8: a list of more entries than one chunk is complete', options, async () => {
  assert.ok(large.ranges.length > 1024 + 65_536);
  for (const [rpc, request] of requests(large)) {
    const answer = await plugin.client.metadata(rpc, request);
    assertWellFormed(answer, LARGE_BYTES);
    assert.deepEqual(answer.ranges, large.ranges);
  }
});

test(
  'SM21: a stream interrupted and resumed after its last entry covers the same bytes',
  options,
  async () => {
    for (const [pair, pieces] of [
      [small, 300],
      [large, 25_000],
    ] as const) {
      for (const [rpc, request] of requests(pair)) {
        const ranges: Range[] = [];
        let offset = 0n;
        for (let round = 0; round < 8; round += 1) {
          const part = {
            ...request,
            starting_offset: String(offset),
            max_results: random.pick([0, 3, 100]),
          };
          ranges.push(...(await readPart(rpc, part, 1 + random.below(pieces))));
          offset = endOf(ranges.at(-1) ?? { offset, size: 0n });
        }
        const rest = { ...request, starting_offset: String(offset) };
        ranges.push(...(await plugin.client.metadata(rpc, rest)).ranges);
        assert.deepEqual(merged(ranges), pair.ranges);
      }
    }
  },
);

test(
  'SM17 and SM22: a stream starts exactly at its starting_offset, aligned or not',
  options,
  async () => {
    const borders = [1024n, 65_536n, 66_560n].map((entry) => entry * BigInt(STRIDE));
    const near = borders.flatMap((offset) => [offset - 1n, offset, offset + 1n, offset + 1024n]);
    const anywhere = Array.from({ length: 4 }, () => BigInt(random.below(LARGE_BYTES)));
    for (const [pair, offsets] of [
      [small, [0n, 1n, 511n, 1023n, 1024n, 1025n, 2047n, 2048n, BigInt(SMALL_BYTES - 1)]],
      [large, [...near, ...anywhere]],
    ] as const) {
      for (const [rpc, request] of requests(pair)) {
        for (const offset of offsets) {
          const part = { ...request, starting_offset: String(offset) };
          // The tail of a large list says nothing new: what is near the offset matters.
          const found = await readPart(rpc, part, 2500);
          const wanted = from(pair.ranges, offset).slice(0, found.length);
          assert.deepEqual(found, wanted, `${rpc} from ${offset}`);
        }
      }
    }
  },
);

test('resuming at random offsets inside entries covers the same bytes', options, async () => {
  for (const [rpc, request] of requests(small)) {
    for (let round = 0; round < 40; round += 1) {
      const offset = BigInt(random.below(SMALL_BYTES));
      const part = { ...request, starting_offset: String(offset), max_results: random.below(50) };
      const { ranges } = await plugin.client.metadata(rpc, part);
      assert.deepEqual(ranges, from(small.ranges, offset));
    }
  }
});

test(
  'SM5: a stream from the end of the volume is one message with the capacity and no entries',
  options,
  async () => {
    for (const [rpc, request] of requests(small)) {
      const part = { ...request, starting_offset: String(SMALL_BYTES) };
      const answer = await plugin.client.metadata(rpc, part);
      assert.deepEqual([answer.messages, answer.ranges], [1, []]);
      assertWellFormed(answer, SMALL_BYTES);
    }
  },
);

test('SM25: an empty list is one message with the capacity and no entries', options, async () => {
  const empty = await plugin.client.allocated(small.base.id);
  const again = await small.volume.snapshot();
  const same = await plugin.client.delta(small.target.id, again.id);
  for (const answer of [empty, same]) {
    assert.deepEqual([answer.messages, answer.ranges], [1, []]);
    assertWellFormed(answer, SMALL_BYTES);
  }
  await small.volume.deleteSnapshot(again.id);
});

test(
  'SM3, SM4 and SM6: offsets outside the volume are OUT_OF_RANGE and negative counts INVALID_ARGUMENT',
  options,
  async () => {
    for (const [rpc, request] of requests(small)) {
      const ask = (fields: Message): Promise<unknown> =>
        plugin.client.metadata(rpc, { ...request, ...fields });
      for (const offset of [
        String(SMALL_BYTES + 1),
        '-1',
        String(2n ** 63n - 1n),
        String(-(2n ** 63n)),
      ]) {
        await rejectsWith(ask({ starting_offset: offset }), 'OUT_OF_RANGE', /starting_offset/);
      }
      for (const count of [-1, -(2 ** 31)]) {
        await rejectsWith(ask({ max_results: count }), 'INVALID_ARGUMENT', /max_results/);
      }
    }
  },
);

test(
  'SM10 and SM11: snapshots of different volumes or in the wrong order are INVALID_ARGUMENT',
  options,
  async () => {
    const { client } = plugin;
    await rejectsWith(client.delta(small.target.id, small.base.id), 'INVALID_ARGUMENT', /older/);
    await rejectsWith(client.delta(small.base.id, small.base.id), 'INVALID_ARGUMENT');
    await rejectsWith(
      client.delta(small.base.id, large.target.id),
      'INVALID_ARGUMENT',
      /one volume/,
    );
  },
);

test(
  'SM1 and SM2: missing ids are INVALID_ARGUMENT and unknown ones NOT_FOUND',
  options,
  async () => {
    const { client } = plugin;
    const unknown = [
      small.volume.id,
      'nonsense',
      small.base.id.replace(/.$/, (last) => (last === '0' ? '1' : '0')),
    ];
    await rejectsWith(client.allocated(''), 'INVALID_ARGUMENT', /snapshot_id/);
    await rejectsWith(client.delta('', small.target.id), 'INVALID_ARGUMENT', /base_snapshot_id/);
    await rejectsWith(client.delta(small.base.id, ''), 'INVALID_ARGUMENT', /target_snapshot_id/);
    for (const id of unknown) {
      await rejectsWith(client.allocated(id), 'NOT_FOUND');
      await rejectsWith(client.delta(id, small.target.id), 'NOT_FOUND');
      await rejectsWith(client.delta(small.base.id, id), 'NOT_FOUND');
    }
  },
);

test(
  'SM28 and DS4: a snapshot is not deleted while it is streamed, and can be deleted once the client has gone',
  options,
  async () => {
    const stream = plugin.client.open('GetMetadataDelta', {
      base_snapshot_id: large.base.id,
      target_snapshot_id: large.target.id,
      max_results: 100,
    });
    stream.on('error', () => undefined);
    // One message is taken and no more. A client's library reads some ahead, so the messages are many and
    // small: the plugin has to wait with most of the list unsent, for longer than a call waits for a lock.
    await new Promise((taken) =>
      stream.once('data', (message) => taken(stream.pause() && message)),
    );
    for (const { id } of [large.base, large.target]) {
      await rejectsWith(large.volume.deleteSnapshot(id), 'FAILED_PRECONDITION', /being read/);
    }
    assert.equal((await plugin.client.allocated(large.base.id)).ranges.length, 0);
    stream.cancel();
    for (let round = 0; ; round += 1) {
      try {
        await large.volume.deleteSnapshot(large.base.id);
        break;
      } catch (thrown) {
        if (round === 100) throw thrown;
        await delay(50);
      }
    }
    const retained = await plugin.client.delta(large.base.id, large.target.id);
    assert.ok(retained.ranges.length > 0);
  },
);

test(
  'DV4: snapshots of a deleted volume are listed, and their lists are served',
  options,
  async () => {
    const { client } = plugin;
    await small.volume.delete();
    const listed = await client.controller.ListSnapshots({ source_volume_id: small.volume.id });
    assert.equal(listed['entries'].length, 2);
    assert.deepEqual((await client.delta(small.base.id, small.target.id)).ranges, small.ranges);
    assert.deepEqual((await client.allocated(small.target.id)).ranges, small.ranges);
  },
);

test('a mounted volume is scanned like a raw block volume', options, async () => {
  const volume = await TestVolume.create(plugin.client, workspace, {
    sizeBytes: 32 * MIB,
    fsType: 'ext4',
  });
  await volume.publish();
  const base = await volume.snapshot();
  writeFileSync(join(volume.targetPath, 'file'), Buffer.alloc(3 * MIB, 'x'));
  const target = await volume.snapshot();
  const before = readSnapshot(pool, base);
  const delta = await plugin.client.delta(base.id, target.id);
  const tally = assertSound(before, readSnapshot(pool, target, before), delta, 'ext4');
  assert.ok(tally.differing * 512 >= 3 * MIB);
  await volume.unpublish();
});
