/** What the suite writes to a raw block volume, and what it says of a device that it cannot read in full. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { BlockContent, discard, readImage } from '../../src/tools/conformance/block-content.js';
import { Random } from '../../src/tools/random.js';
import { attachLoop, detachLoop, sparseFile } from '../support/loops.js';
import { Workspace } from '../support/workspace.js';

const MIB = 1 << 20;
const DEVICE_BYTES = 3 * MIB + 512;
const workspace = new Workspace('conformance-content');
after(() => workspace.dispose());

const fileOf = (name: string, sizeBytes: number): string => sparseFile(workspace.path(name), sizeBytes);

test('a device that is too small is named with its own size, wherever it was read', async () => {
  const path = fileOf('small', DEVICE_BYTES);
  const wanted = new RegExp(`^the published device: expected ${8 * MIB} bytes, .*, found ${DEVICE_BYTES} bytes$`);
  await assert.rejects(readImage(path, 8 * MIB), { message: wanted });
  const content = new BlockContent(8 * MIB);
  await assert.rejects(content.change(path, new Random(1, 'grown'), 20, 6 * MIB), { message: wanted });
});

test('a device that cannot be read is named with the place and the error', async () => {
  // A directory can be opened and not read, as any user.
  await assert.rejects(readImage(workspace.path(), MIB), {
    name: 'ConformanceFailure',
    message: 'reading the published device at 0: expected its bytes, found EISDIR',
  });
});

test('a device that says that it takes discards and refuses one fails; one that takes none is skipped', async () => {
  const file = fileOf('discards', MIB);
  await assert.rejects(discard(file, 0, 4096), {
    name: 'CheckSkipped',
    message: 'the volumes of this driver take no discards',
  });
  const device = attachLoop(file);
  try {
    await discard(device, 0, 4096);
    await assert.rejects(discard(device, 2 * MIB, 4096), {
      name: 'ConformanceFailure',
      message:
        /^a discard of 4096 bytes at 2097152: expected success, since the device says that it takes discards, found /,
    });
  } finally {
    detachLoop(device);
  }
});

/** The offsets of bytes that differ. */
function differences(before: Buffer, after: Buffer): number[] {
  return [...after.keys()].filter((at) => before[at] !== after[at]);
}

for (const sizeBytes of [4096, 8192, 12_288, 100_352, 4 * MIB]) {
  test(`the first and the last of ${sizeBytes} bytes change in each round, and nothing else near them`, async () => {
    for (const seed of [1, 2, 3]) {
      const path = fileOf(`rounds-${sizeBytes}-${seed}`, sizeBytes);
      const content = new BlockContent(sizeBytes);
      const random = new Random(seed, 'rounds');
      const none = readFileSync(path);
      await content.change(path, random, 20);
      const first = readFileSync(path);
      await content.change(path, random, 20);
      const second = readFileSync(path);
      for (const [before, after] of [
        [none, first],
        [first, second],
        [none, second],
      ] as const) {
        const near = differences(before, after).filter((at) => at < 4096 || at >= sizeBytes - 4096);
        assert.deepEqual(near, [0, sizeBytes - 1], `seed ${seed}`);
      }
    }
  });
}

async function notesAfterRound(sizeBytes: number, operations: number): Promise<string[]> {
  const content = new BlockContent(sizeBytes);
  const path = fileOf(`notes-${sizeBytes}`, sizeBytes);
  await content.change(path, new Random(1, 'notes'), operations);
  const notes: string[] = [];
  content.noteLeftOut({ note: (text) => notes.push(text) });
  return notes;
}

test('blocks at whose edges no single byte was changed, for want of room, are noted', async () => {
  assert.deepEqual(await notesAfterRound(16 * MIB, 20), []);
  // Of eight chunks, four have no other changes: one for each edge of the two smaller blocks.
  const [some, ...others] = await notesAfterRound(8 * 65_536, 0);
  assert.match(some ?? '', /^a volume of 524288 bytes has no room .* of blocks of 65536 bytes in/);
  assert.deepEqual(others, []);
  assert.match((await notesAfterRound(65_536, 0))[0] ?? '', / of blocks of 512, 4096, 65536 bytes/);
});
