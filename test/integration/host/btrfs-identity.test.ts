import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  closeSync,
  copyFileSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { after, before } from 'node:test';
import { giveIdentity } from '../../../src/host/btrfs-identity.js';
import { makeFileSystem, mountOptions } from '../../../src/host/filesystem.js';
import { btrfsIdentity } from '../../../src/host/superblock.js';
import { rejectsWith } from '../../support/expect-status.js';
import { mount, unmount } from '../../support/mounts.js';
import { test as rootTest } from '../../support/running-plugin.js';
import { skipUnlessRoot, Workspace } from '../../support/workspace.js';

const SIZE = 128n << 20n;
let workspace: Workspace;
let next = 0;
before(() => {
  if (skipUnlessRoot === false) workspace = new Workspace('btrfs-identity');
});
after(() => workspace?.dispose());

const attach = (image: string): string =>
  execFileSync('losetup', ['--show', '-f', '--direct-io=on', image], { encoding: 'utf8' }).trim();
const directory = (name: string): string => {
  mkdirSync(workspace.path(name), { recursive: true });
  return workspace.path(name);
};
const sync = (path: string): void => void execFileSync('sync', ['-f', path]);
const mounted = (source: string, target: string, flags: string[] = []): Promise<unknown> =>
  mount({ source, target, fsType: 'btrfs', options: mountOptions('btrfs', flags, false) });

/**
 * A mounted btrfs, and a copy of it on a device of its own. Between `prepare` and the end of the copying, which takes
 * long on a busy machine, the source must not commit by itself: it would be copied half before and half after.
 */
async function sourceAndCopy(
  prepare: (target: string) => void,
): Promise<{ source: string; target: string; copy: string; image: string }> {
  next += 1;
  const image = workspace.path(`image-${next}`);
  execFileSync('truncate', ['-s', String(SIZE), image]);
  const source = attach(image);
  await makeFileSystem('btrfs', source, SIZE);
  const target = directory(`source-${next}`);
  await mounted(source, target, ['commit=300']);
  prepare(target);
  copyFileSync(image, `${image}.copy`);
  return { source, target, copy: attach(`${image}.copy`), image: `${image}.copy` };
}

rootTest('a copy with its own id is mounted beside its source, each with its data', async () => {
  const { target, copy } = await sourceAndCopy((path) => {
    writeFileSync(`${path}/data`, 'cut');
    sync(path);
  });
  writeFileSync(`${target}/data`, 'later');
  const uuid = randomUUID();
  const beside = directory(`beside-${next}`);
  // Again is nothing: btrfstune itself would refuse an id that is in use.
  for (let time = 0; time < 3; time += 1) await giveIdentity(copy, uuid, beside);
  assert.equal((await btrfsIdentity(copy)).uuid, uuid);
  await mounted(copy, beside);
  assert.equal(readFileSync(`${beside}/data`, 'utf8'), 'cut');
  assert.equal(readFileSync(`${target}/data`, 'utf8'), 'later');
  await unmount(beside);
  await unmount(target);
  await mounted(copy, beside);
  assert.equal(readFileSync(`${beside}/data`, 'utf8'), 'cut');
  await unmount(beside);
  execFileSync('btrfs', ['check', copy], { stdio: 'pipe' });
});

rootTest('a copy with a log keeps the content of the log', async () => {
  const { target, copy } = await sourceAndCopy((path) => {
    const descriptor = openSync(`${path}/data`, 'w');
    writeSync(descriptor, 'a'.repeat(100_000));
    sync(path);
    writeSync(descriptor, 'b'.repeat(100_000), 0);
    fsyncSync(descriptor);
    closeSync(descriptor);
  });
  await unmount(target);
  assert.equal((await btrfsIdentity(copy)).hasLog, true, 'without a log this proves nothing');
  const uuid = randomUUID();
  await giveIdentity(copy, uuid, target);
  assert.deepEqual(await btrfsIdentity(copy), { uuid, hasLog: false });
  execFileSync('btrfs', ['check', copy], { stdio: 'pipe' });
  await mounted(copy, target);
  assert.equal(readFileSync(`${target}/data`, 'utf8'), 'b'.repeat(100_000));
  await unmount(target);
});

rootTest(
  'a change of id interrupted by a power failure is refused, and the message says what to do',
  async () => {
    const { target, copy, image } = await sourceAndCopy(sync);
    await unmount(target);
    markChanging(image);
    const given = giveIdentity(copy, randomUUID(), target);
    await rejectsWith(given, 'FAILED_PRECONDITION', /restore it again/);
  },
);

rootTest('a device in use is not changed, and the message says what is wrong', async () => {
  const { target, copy } = await sourceAndCopy(sync);
  const { uuid } = await btrfsIdentity(copy);
  await mounted(copy, directory('busy'));
  const given = giveIdentity(copy, randomUUID(), target);
  await rejectsWith(given, 'ABORTED', /still held; try again/);
  assert.equal((await btrfsIdentity(copy)).uuid, uuid);
  await unmount(workspace.path('busy'));
  await unmount(target);
});

/** As btrfstune's first write leaves the superblock: the flag CHANGING_FSID_V2, and a checksum that fits. */
function markChanging(image: string): void {
  const place = 65536;
  const whole = readFileSync(image);
  const block = whole.subarray(place, place + 4096);
  block.writeBigUInt64LE(block.readBigUInt64LE(56) | (1n << 36n), 56);
  block.fill(0, 0, 32);
  block.writeUInt32LE(crc32c(block.subarray(32)), 0);
  const descriptor = openSync(image, 'r+');
  writeSync(descriptor, block, 0, block.length, place);
  fsyncSync(descriptor);
  closeSync(descriptor);
}

function crc32c(bytes: Buffer): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return ~crc >>> 0;
}
