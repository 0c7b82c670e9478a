/**
 * A thin pool that runs out of data or metadata space: what continues to work, what fails and how it
 * is reported, and how the plugin recovers the pool where it can.
 */
import assert from 'node:assert/strict';
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import { rejectsWith } from '../support/expect-status.js';
import { BLOCK_BYTES, TaggedBlocks } from '../support/tagged-blocks.js';
import { newSnapshot, newVolume } from './thin-changes.js';
import { rigTest, type ThinRig, told, until } from './thin-rig.js';

const MIB = 1n << 20n;

const DATA_BLOCKS = 128;
/** The page cache of a block device reports every failed write as EIO, here a lack of space. */
const WRITTEN_BACK = { code: 'EIO' };
/** Of the data device: its last MiB has the pool's label. */
const deviceBytes = (blocks: number): bigint => BigInt(blocks * BLOCK_BYTES) + MIB;

rigTest(
  'a pool without data space fails new writes only, reports it, and recovers with more space',
  { dataBytes: deviceBytes(DATA_BLOCKS) },
  async (rig) => {
    const { backend } = rig;
    const blocks = DATA_BLOCKS;
    const [volumeId, snapshotId] = [newVolume(), newSnapshot()];
    await backend.createVolume(volumeId, BigInt(blocks * BLOCK_BYTES));
    const { devicePath } = await backend.attach(volumeId, { readOnly: false });
    const content = TaggedBlocks.zeros(blocks);
    const half = blocks / 2;
    for (let block = 0; block < half; block += 1) await content.write(devicePath, block, 1);
    await backend.createSnapshots([{ volumeId, snapshotId }]);
    assert.deepEqual(rig.events, []);
    // Each of them takes a block of its own now, and they are as many as there are left.
    const few = half - 4;
    for (let block = 0; block < few; block += 1) await content.write(devicePath, block, 2);
    await told(rig, /^warn: .*less than/m);
    for (let block = few; block < half; block += 1) await content.write(devicePath, block, 2);

    await assert.rejects(content.write(devicePath, half, 3), WRITTEN_BACK);
    await content.write(devicePath, 7, 4);
    await content.verify(devicePath, 'the full volume');
    await told(rig, /^error: .*no data space/m);
    assert.equal((await backend.capacity()).freeBytes, 0n);
    await backend.check();

    await backend.deleteSnapshot(snapshotId);
    await until('the pool has recovered', async () => {
      const { mode, usedDataBlocks, totalDataBlocks } = await rig.status();
      return mode === 'rw' && usedDataBlocks < totalDataBlocks;
    });
    for (let block = half; block < blocks; block += 1) await content.write(devicePath, block, 5);
    await content.verify(devicePath, 'the volume after the deletion');

    const other = newVolume();
    await backend.createVolume(other, BigInt(blocks * BLOCK_BYTES));
    const second = await backend.attach(other, { readOnly: false });
    const late = TaggedBlocks.zeros(blocks);
    await assert.rejects(late.write(second.devicePath, 0, 6), WRITTEN_BACK);
    await rig.data.grow(deviceBytes(2 * DATA_BLOCKS));
    await until('the pool has grown', async () => {
      const { mode, usedDataBlocks, totalDataBlocks } = await rig.status();
      return mode === 'rw' && usedDataBlocks < totalDataBlocks;
    });
    await late.write(second.devicePath, 0, 6);
    await late.verify(second.devicePath, 'the late volume');
    await content.verify(devicePath, 'the volume after the growth');
  },
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

rigTest(
  'a pool without metadata space is read-only, refuses changes and reports the remedy',
  { metadataBytes: MIB / 2n, dataBytes: 16_384n * MIB, dataIsZero: true },
  async (rig) => {
    const { backend } = rig;
    const sizeBytes = BigInt(SCATTERED * BLOCK_BYTES);
    const [volumeId, refused] = [newVolume(), newVolume()];
    await backend.createVolume(volumeId, sizeBytes);
    const { devicePath } = await backend.attach(volumeId, { readOnly: false });
    assert.match(scatter(devicePath), /EIO|ENOSPC/);
    assert.equal((await rig.status()).mode, 'ro');
    // The kernel asks for a check as soon as what runs out of space is a commit.
    const remedy = /Enlarge the metadata device|run thin_check/;
    await rejectsWith(backend.check(), 'FAILED_PRECONDITION', remedy);
    await told(rig, remedy);
    await rejectsWith(backend.createVolume(refused, MIB), 'FAILED_PRECONDITION');
    const snapshotId = newSnapshot();
    const cut = backend.createSnapshots([{ volumeId, snapshotId }]);
    await rejectsWith(cut, 'FAILED_PRECONDITION');
    assert.deepEqual(await rig.suspendedDevices(), []);

    const ids = (await backend.list()).volumes.map(({ id }) => id);
    assert.deepEqual(ids, [volumeId]);
    await backend.detach(volumeId);
  },
);

/** Thin devices of nobody, far from the plugin's ids; whatever they take is metadata. */
async function fillMetadata(rig: ThinRig): Promise<void> {
  const pool = await rig.poolName();
  for (let deviceId = 9_000_000; ; deviceId += 1) {
    await rig.native.run('thinMessages', { pool, messages: [`create_thin ${deviceId}`] });
  }
}

rigTest(
  'a pool whose metadata is full but sound is writable again with a larger metadata device',
  { metadataBytes: MIB / 2n, dataBytes: 16n * MIB },
  async (rig) => {
    const { backend } = rig;
    await assert.rejects(fillMetadata(rig));
    const { mode, needsCheck } = await rig.status();
    assert.deepEqual({ mode, needsCheck }, { mode: 'ro', needsCheck: false });
    const volumeId = newVolume();
    const remedy = /Enlarge the metadata device/;
    await rejectsWith(backend.createVolume(volumeId, MIB), 'FAILED_PRECONDITION', remedy);
    await told(rig, remedy);
    await rig.metadata.grow(4n * MIB);
    await until('the pool is writable again', async () => (await rig.status()).mode === 'rw');
    await backend.createVolume(volumeId, MIB);
    await backend.check();
  },
);
