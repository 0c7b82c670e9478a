/**
 * A thin pool whose space runs out, of data or of metadata: what goes on working, what fails and how it
 * is told, and what brings it back.
 */
import assert from 'node:assert/strict';
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import { rejectsWith } from '../support/expect-status.js';
import { BLOCK_BYTES, TaggedBlocks } from '../support/tagged-blocks.js';
import { newSnapshot, newVolume } from '../support/thin-changes.js';
import { type RigOptions, ThinRig, until } from '../support/thin-rig.js';
import { guestTest } from './guest.js';

const MIB = 1n << 20n;

function spaceTest(title: string, options: RigOptions, run: (rig: ThinRig) => Promise<void>): void {
  guestTest(title, async () => {
    const rig = await ThinRig.make('space', options);
    try {
      await run(rig);
    } finally {
      await rig.dispose();
    }
  });
}

const DATA_BLOCKS = 128;
/** Of the data device: its last MiB has the pool's label. */
const deviceBytes = (blocks: number): bigint => BigInt(blocks * BLOCK_BYTES) + MIB;

spaceTest(
  'a pool without data space fails new writes only, tells it, and comes back with space',
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
    for (let block = 0; block < half; block += 1) await content.write(devicePath, block, 2);
    await until('the low-water mark is told', () =>
      /^warn: .*less than/m.test(rig.events.join('\n')),
    );

    await assert.rejects(content.write(devicePath, half, 3), { code: 'ENOSPC' });
    await content.write(devicePath, 7, 4);
    await content.verify(devicePath, 'the full volume');
    await until('the full pool is told', () =>
      /^error: .*no data space/m.test(rig.events.join('\n')),
    );
    assert.equal((await rig.status()).mode, 'out_of_data_space');
    assert.equal((await backend.capacity()).freeBytes, 0n);
    await backend.check();

    await backend.deleteSnapshot(snapshotId);
    await until('the pool is well again', async () => (await rig.status()).mode === 'rw');
    for (let block = half; block < blocks; block += 1) await content.write(devicePath, block, 5);
    await content.verify(devicePath, 'the volume after the deletion');

    const other = newVolume();
    await backend.createVolume(other, BigInt(blocks * BLOCK_BYTES));
    const second = await backend.attach(other, { readOnly: false });
    const late = TaggedBlocks.zeros(blocks);
    await assert.rejects(late.write(second.devicePath, 0, 6), { code: 'ENOSPC' });
    await rig.data.grow(deviceBytes(2 * DATA_BLOCKS));
    await until('the pool has grown', async () => (await rig.status()).mode === 'rw');
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
      if (block % 4000 === 3999) fdatasyncSync(fd);
    }
    return 'all written';
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code ?? 'unknown';
  } finally {
    closeSync(fd);
  }
}

spaceTest(
  'a pool without metadata space is read-only, tells the remedy, and comes back with space',
  { metadataBytes: MIB / 2n, dataBytes: 16_384n * MIB, dataIsZero: true },
  async (rig) => {
    const { backend } = rig;
    const sizeBytes = BigInt(SCATTERED * BLOCK_BYTES);
    const [volumeId, refused] = [newVolume(), newVolume()];
    await backend.createVolume(volumeId, sizeBytes);
    const { devicePath } = await backend.attach(volumeId, { readOnly: false });
    assert.match(scatter(devicePath), /EIO|ENOSPC/);
    assert.equal((await rig.status()).mode, 'ro');
    await rejectsWith(backend.check(), 'FAILED_PRECONDITION', /Enlarge the metadata device/);
    await rejectsWith(backend.createVolume(refused, MIB), 'FAILED_PRECONDITION');
    const snapshotId = newSnapshot();
    const cut = backend.createSnapshots([{ volumeId, snapshotId }]);
    await rejectsWith(cut, 'FAILED_PRECONDITION');
    assert.deepEqual(await rig.suspendedDevices(), []);
    await until('the remedy is told', () => /^error: .*Enlarge/m.test(rig.events.join('\n')));

    await rig.metadata.grow(8n * MIB);
    await until('the pool is well again', async () => (await rig.status()).mode === 'rw');
    await backend.check();
    await backend.createVolume(refused, MIB);
    await backend.createSnapshots([{ volumeId, snapshotId }]);
    const ids = (await backend.list()).volumes.map(({ id }) => id);
    assert.deepEqual(ids.sort(), [volumeId, refused].sort());
    await backend.detach(volumeId);
    await backend.stop();
    rig.assertSound();
  },
);
