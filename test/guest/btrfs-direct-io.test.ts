/**
 * A raw volume on btrfs whose user changes a buffer while it is written, as virtual machines and databases do, on a
 * kernel whose btrfs writes other bytes than it has made the checksum of (before 6.12.95 and 6.15).
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, constants, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { attachLoop } from '../support/loops.js';
import { dmTest } from './dm-setup.js';

const BLOCK_BYTES = 65536;
const BLOCKS = 64;
const POOL_BYTES = 256n << 20n;
const WRITE_MS = 20;

const CHANGES = `
  const bytes = new Uint8Array(require('node:worker_threads').workerData);
  require('node:worker_threads').parentPort.postMessage('running');
  for (let at = 0; ; at = (at + 4093) % bytes.length) bytes[at] += 1;
`;

/** Writes each block directly while another thread changes what is written. */
async function writeWhileChanging(device: string): Promise<void> {
  // Whole pages: btrfs writes others through the page cache.
  const { buffer } = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
  const changing = new Worker(CHANGES, { eval: true, workerData: buffer });
  const fd = openSync(device, constants.O_WRONLY | constants.O_DIRECT);
  try {
    await new Promise((resolve) => changing.once('message', resolve));
    for (let block = 0; block < BLOCKS; block += 1) {
      writeSync(fd, new Uint8Array(buffer), 0, BLOCK_BYTES, block * BLOCK_BYTES);
    }
  } finally {
    closeSync(fd);
    await changing.terminate();
  }
}

/** How many blocks give EIO, read from the disk. */
function unreadableBlocks(device: string): number {
  spawnSync('sync');
  writeFileSync('/proc/sys/vm/drop_caches', '3');
  const how = [`bs=${BLOCK_BYTES}`, 'iflag=direct', 'conv=noerror,sync'];
  const { stderr } = spawnSync('dd', [`if=${device}`, 'of=/dev/null', ...how], { encoding: 'utf8' });
  return stderr.split('error reading').length - 1;
}

dmTest('what is written to a raw volume on btrfs from a buffer that changes meanwhile can be read', async (scene) => {
  const { native, workspace, disks } = scene;
  execFileSync('modprobe', ['dm-delay']);
  const { path } = await disks.disk('pool', POOL_BYTES);
  // The disk is slow, so that there is time for a change between the checksum and the writing.
  const table = `${path} 0 0 ${path} 0 ${WRITE_MS}`;
  const slow = await scene.create('slow', { type: 'delay', table, sizeSectors: POOL_BYTES / 512n });
  const pool = workspace.path('pool');
  mkdirSync(pool);
  execFileSync('mkfs.btrfs', ['-q', slow.path]);
  execFileSync('mount', [slow.path, pool]);
  const unreadable: number[] = [];
  for (const name of ['volume', 'attached by an earlier release']) {
    const finalPath = `${pool}/${name}`;
    const names = { temporaryPath: `${finalPath}.tmp`, finalPath };
    await native.run('createSparseFile', { ...names, sizeBytes: BigInt(BLOCKS * BLOCK_BYTES) });
    const request = { backingPath: finalPath, readOnly: false, label: '' };
    const device =
      name === 'volume'
        ? (await native.run('loopAttach', request)).device.path
        : attachLoop(finalPath, '--direct-io=on');
    await writeWhileChanging(device);
    unreadable.push(unreadableBlocks(device));
    await native.run('loopDetach', { backingPath: finalPath, hint: null });
  }
  console.log(`    # of ${BLOCKS} blocks cannot be read: ${unreadable[0]}; with direct I/O: ${unreadable[1]}`);
  assert.equal(unreadable[0], 0);
});
