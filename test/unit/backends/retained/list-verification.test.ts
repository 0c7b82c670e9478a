/**
 * A list is verified before the snapshot that it replaces is removed, whoever made it: the addon, with each part of a list
 * broken in turn.
 */
import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ListDirectory, type ListedPair, listName } from '../../../../src/driver/backends/retained/list-directory.js';
import { type BrokenList, brokenLists, PAGE_BYTES, seal } from '../../../support/broken-lists.js';
import { nativeHere } from '../../../support/native-here.js';
import { temporaryDirectory } from '../../../support/temporary.js';

const ENDS = { baseId: 'older', targetId: 'newer' };
const SIZE_BYTES = 64n << 20n;
const TIMES = { targetTime: 9, baseTime: 4 };
const UNITS = 8;
const UNIT_BYTES = 512n;
const ENTRIES_A_PAGE = 2000;
const PAGES = 3;

/** Of two devices of a thin pool, whose files nobody needs: every other 4 KiB has changed. */
function wholeList(): Buffer {
  const file = Buffer.alloc((1 + PAGES) * PAGE_BYTES);
  const entryBytes = BigInt(UNITS) * UNIT_BYTES;
  for (let number = 0; number <= PAGES; number += 1) {
    const page = file.subarray(number * PAGE_BYTES, (number + 1) * PAGE_BYTES);
    page.writeBigUInt64LE(BigInt(number), 8);
    page.writeBigUInt64LE(0x1234n, 16);
    if (number === 0) writeHead(page, entryBytes);
    else {
      const first = BigInt((number - 1) * ENTRIES_A_PAGE) * 2n * entryBytes;
      page.writeUInt16LE(ENTRIES_A_PAGE, 4);
      page.writeUInt16LE(2 * ENTRIES_A_PAGE, 6);
      page.writeBigUInt64LE(first, 24);
      page.writeBigUInt64LE(first + BigInt(2 * ENTRIES_A_PAGE - 1) * entryBytes, 32);
      page.fill(UNITS, 40, 40 + 2 * ENTRIES_A_PAGE);
      page[40] = 0;
    }
    seal(page);
  }
  return file;
}

function writeHead(page: Buffer, entryBytes: bigint): void {
  page.write('blockdelta list', 24);
  page.writeUInt32LE(1, 40);
  page.writeUInt32LE(1, 44);
  page.writeBigUInt64LE(BigInt(PAGES), 48);
  page.writeBigUInt64LE(BigInt(PAGES * ENTRIES_A_PAGE), 56);
  page.writeBigUInt64LE(BigInt(PAGES * ENTRIES_A_PAGE) * entryBytes, 64);
  for (const [id, time, offset] of [
    [ENDS.targetId, TIMES.targetTime, 72],
    [ENDS.baseId, TIMES.baseTime, 168],
  ] as const) {
    page.write(id, offset);
    page.writeBigUInt64LE(BigInt(time), offset + 72);
    page.writeBigUInt64LE(SIZE_BYTES, offset + 80);
  }
  page.writeUInt32LE(1, 264);
}

const directory = temporaryDirectory();
const path = join(directory, listName(ENDS));
const lists = new ListDirectory(
  nativeHere(),
  (work) => work(directory),
  () => directory,
);
const identity = { sizeBytes: SIZE_BYTES, ...ENDS, target: null, base: null, thin: TIMES };

/** What makes that file in the place of the list. */
const pairOf = (bytes: Buffer): ListedPair => ({
  identity,
  build: async ({ finalPath }) => {
    writeFileSync(finalPath, bytes);
    return { done: true, progress: new BigUint64Array(), extents: 0, rescans: 0, fileBytes: 0n };
  },
});

/** A request does not know the size of a deleted device; where lists are joined it is compared. */
const isKnown = ({ part }: BrokenList): boolean => !part.startsWith('size of the base');
const BROKEN = brokenLists(wholeList()).filter(isKnown);

test('H34: a list that is whole is kept', async () => {
  const pair = pairOf(wholeList());
  await lists.build(ENDS, pair);
  assert.ok(await lists.isSound(ENDS, pair));
});

test('H34: a list that was left is not kept if any part of it is broken', async () => {
  assert.ok(BROKEN.length > 100);
  for (const { part, bytes } of BROKEN) {
    writeFileSync(path, bytes);
    assert.equal(await lists.isSound(ENDS, pairOf(bytes)), false, part);
  }
});

test('H34: a list that was built now is an error if any part of it is broken, and does not stay', async () => {
  for (const { part, bytes } of BROKEN) {
    await assert.rejects(lists.build(ENDS, pairOf(bytes)), { code: 'EIO', path }, part);
    assert.deepEqual(readdirSync(directory), [], part);
  }
});
