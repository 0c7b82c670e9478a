/**
 * A thin pool that runs out of data or metadata space: what continues to work, what fails and how it
 * is reported, and how the plugin recovers the pool where it can.
 */
import assert from 'node:assert/strict';
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import { newSnapshot, newVolume } from '../backend/harness.js';
import { eventually } from '../support/eventually.js';
import { refused } from '../support/refusal.js';
import { TaggedImage } from '../support/tagged-image.js';
import { BLOCK_BYTES, nightlyPoolTest, poolTest, type ThinPoolOnDisks, writeBlock } from './thin-pool-on-disks.js';

const MIB = 1n << 20n;

const DATA_BLOCKS = 128;
/** The page cache of a block device reports every failed write as EIO, here a lack of space. */
const WRITTEN_BACK = { code: 'EIO' };
/** Of the data device: its last MiB has the pool's label. */
const deviceBytes = (blocks: number): bigint => BigInt(blocks * BLOCK_BYTES) + MIB;

/** A volume of so many blocks, each of which is written durably or fails as its device does. */
async function newContent({ backend }: ThinPoolOnDisks, blocks: number) {
  const volumeId = newVolume();
  await backend.volumes.create(volumeId, BigInt(blocks * BLOCK_BYTES));
  const { devicePath } = await backend.attachments.attach(volumeId, { readOnly: false });
  const content = TaggedImage.zeros(blocks * BLOCK_BYTES);
  const write = async (first: number, end = first + 1): Promise<void> => {
    for (let block = first; block < end; block += 1) await writeBlock(content, devicePath, block);
  };
  return { volumeId, write, verify: (what: string) => content.verify(devicePath, what) };
}

async function recovered(pool: ThinPoolOnDisks): Promise<void> {
  await eventually('the pool has space', async () => {
    const { mode, usedDataBlocks, totalDataBlocks } = await pool.status();
    return mode === 'rw' && usedDataBlocks < totalDataBlocks;
  });
}

poolTest(
  'a pool without data space fails new writes only, reports it, and recovers with more space',
  async (pool) => {
    const { backend } = pool;
    const { volumeId, write, verify } = await newContent(pool, DATA_BLOCKS);
    const half = DATA_BLOCKS / 2;
    await write(0, half);
    const snapshotId = newSnapshot();
    await backend.snapshots.create([{ volumeId, snapshotId }]);
    assert.deepEqual(pool.events, []);
    // Each of them takes a block of its own now, and they are as many as there are left.
    const few = half - 4;
    await write(0, few);
    await pool.told(/^warn: .*less than/m);
    await write(few, half);

    await assert.rejects(write(half), WRITTEN_BACK);
    await write(7);
    await verify('the full volume');
    await pool.told(/^error: .*no data space/m);
    assert.equal((await backend.capacity()).freeBytes, 0n);
    await backend.check();

    await backend.snapshots.delete(snapshotId);
    await recovered(pool);
    await write(half, DATA_BLOCKS);
    await verify('the volume after the deletion');

    const late = await newContent(pool, DATA_BLOCKS);
    await assert.rejects(late.write(0), WRITTEN_BACK);
    await pool.data.grow(deviceBytes(2 * DATA_BLOCKS));
    await recovered(pool);
    await late.write(0);
    await late.verify('the late volume');
    await verify('the volume after the growth');
  },
  { dataBytes: deviceBytes(DATA_BLOCKS) },
);

const SCATTERED = 40_000;

/** One page of each data block, all over a volume; how it ended. */
function scatter(devicePath: string): string {
  const fd = openSync(devicePath, 'r+');
  try {
    const page = Buffer.alloc(4096, 9);
    for (let block = 0; block < SCATTERED; block += 1) {
      writeSync(fd, page, 0, page.length, ((block * 7919) % SCATTERED) * BLOCK_BYTES);
    }
    fdatasyncSync(fd);
    return 'all written';
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code ?? 'unknown';
  } finally {
    closeSync(fd);
  }
}

nightlyPoolTest(
  'a pool without metadata space is read-only, refuses changes and reports the remedy',
  async (pool) => {
    const { backend } = pool;
    const sizeBytes = BigInt(SCATTERED * BLOCK_BYTES);
    const [volumeId, refusal] = [newVolume(), newVolume()];
    await backend.volumes.create(volumeId, sizeBytes);
    const { devicePath } = await backend.attachments.attach(volumeId, { readOnly: false });
    assert.match(scatter(devicePath), /EIO|ENOSPC/);
    assert.equal((await pool.status()).mode, 'ro');
    // The kernel asks for a check as soon as what runs out of space is a commit.
    const remedy = /Enlarge the metadata device|run thin_check/;
    await refused(backend.check(), 'FAILED_PRECONDITION', remedy);
    await pool.told(remedy);
    await refused(backend.volumes.create(refusal, MIB), 'FAILED_PRECONDITION');
    const snapshotId = newSnapshot();
    const taking = backend.snapshots.create([{ volumeId, snapshotId }]);
    await refused(taking, 'FAILED_PRECONDITION');
    assert.deepEqual(await pool.suspendedDevices(), []);

    const ids = (await backend.list()).volumes.map(({ id }) => id);
    assert.deepEqual(ids, [volumeId]);
    await backend.attachments.detach(volumeId);
  },
  { metadataBytes: MIB / 2n, dataBytes: 16_384n * MIB, dataIsZero: true },
);

/** Thin devices of nobody, far from the plugin's ids; whatever they take is metadata. */
async function fillMetadata(pool: ThinPoolOnDisks): Promise<void> {
  for (let deviceId = 9_000_000; ; deviceId += 1) await pool.send(`create_thin ${deviceId}`);
}

poolTest(
  'a pool whose metadata is full but sound is writable again with a larger metadata device',
  async (pool) => {
    const { backend } = pool;
    await assert.rejects(fillMetadata(pool));
    const { mode, needsCheck } = await pool.status();
    assert.deepEqual({ mode, needsCheck }, { mode: 'ro', needsCheck: false });
    const volumeId = newVolume();
    const remedy = /Enlarge the metadata device/;
    await refused(backend.volumes.create(volumeId, MIB), 'FAILED_PRECONDITION', remedy);
    await pool.told(remedy);
    await pool.metadata.grow(4n * MIB);
    await eventually('the pool is writable again', async () => (await pool.status()).mode === 'rw');
    await backend.volumes.create(volumeId, MIB);
    await backend.check();
  },
  { metadataBytes: MIB / 2n, dataBytes: 16n * MIB },
);
