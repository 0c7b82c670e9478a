/** An embedded pool on a host that others fill up: space claimed by volumes stays available to them. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, statfsSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach } from 'node:test';
import type { PoolEvent } from '../../src/driver/backends/backend.js';
import type { ReflinkPoolOptions } from '../../src/driver/backends/reflink/pool-directory.js';
import type { ReflinkBackend } from '../../src/driver/backends/reflink/reflink-backend.js';
import { newSnapshot, newVolume } from '../backend/harness.js';
import { ReflinkFixture } from '../backend/reflink-fixture.js';
import { eventually } from '../support/eventually.js';
import { isNightly } from '../support/nightly.js';
import { refused } from '../support/refusal.js';
import { test } from '../support/running-plugin.js';
import { skipUnlessRoot, Workspace } from '../support/workspace.js';

const MIB = 1n << 20n;
const HOST_MIB = isNightly ? 20480 : 2048;
/** The largest volume, and the bytes by which each thing that is written differs from the one before. */
const MOST = 450n * MIB;
const SHIFT = 4096;

// Not on the host, which is full.
const workspace = new Workspace('full-host-random');
const random = workspace.path('random');
before(() => {
  if (skipUnlessRoot !== false) return;
  const count = `count=${MOST / MIB + 1n}`;
  execFileSync('dd', ['if=/dev/urandom', `of=${random}`, 'bs=1M', count, 'status=none']);
});
after(() => workspace.dispose());

const host = new ReflinkFixture('full-host', 'ext4', HOST_MIB, beforeEach);
const events: PoolEvent[] = [];
beforeEach(() => {
  events.length = 0;
});

const directory = (): string => join(host.directory, 'pool');
const image = (): string => join(directory(), 'pool.img');
const mountPoint = (): string => join(directory(), 'mount');

async function open(options: Partial<ReflinkPoolOptions> = {}): Promise<ReflinkBackend> {
  mkdirSync(directory(), { recursive: true });
  const onEvent = (event: PoolEvent): unknown => events.push(event);
  const given = { directory: directory(), place: 'image', reservePercent: 5n, onEvent } as const;
  return host.open({ ...given, ...options });
}

/** A foreign file takes every block that the host has left, root's reserve included. */
function fillUp(): string {
  const filler = join(host.directory, 'somebody-elses');
  let mebibytes = 0;
  for (const step of [256, 16, 1]) {
    const taken = () => spawnSync('fallocate', ['-o', `${mebibytes}MiB`, '-l', `${step}MiB`, filler]).status === 0;
    while (taken()) mebibytes += step;
  }
  const args = ['if=/dev/zero', `of=${filler}`, 'bs=4K', 'oflag=append', 'conv=notrunc'];
  assert.notEqual(spawnSync('dd', args, { stdio: 'ignore' }).status, 0, 'the host is full');
  execFileSync('sync', ['-f', filler]);
  assert.equal(statfsSync(host.directory).bavail, 0, 'the host is full');
  return filler;
}

function allocated(path: string): bigint {
  return BigInt(statSync(path).blocks) * 512n;
}

/** What was written to a device: where it begins in the random file, and how much it is. */
interface Written {
  from: number;
  sizeBytes: bigint;
}

let writes = 0;
/** Writes random bytes to the whole device, other ones each time. */
function writeAll(device: string, sizeBytes: bigint, isFlushed = true): Written {
  writes += 1;
  const from = writes * SHIFT;
  const flush = isFlushed ? ['conv=fsync'] : [];
  const range = [`skip=${from}`, `count=${sizeBytes}`, 'iflag=skip_bytes,count_bytes'];
  const to = [`of=${device}`, 'bs=1M', 'status=none', ...flush];
  execFileSync('dd', [`if=${random}`, ...range, ...to]);
  return { from, sizeBytes };
}

function assertHolds(path: string, { from, sizeBytes }: Written): void {
  execFileSync('cmp', [`--ignore-initial=${from}:0`, `--bytes=${sizeBytes}`, random, path]);
}

/** What the storage has, as opposed to the page cache. */
function assertStored(device: string, written: Written): void {
  execFileSync('blockdev', ['--flushbufs', device]);
  assertHolds(device, written);
}

/** A new volume that is attached. */
async function attached(backend: ReflinkBackend, sizeBytes: bigint) {
  const volumeId = newVolume();
  await backend.volumes.create(volumeId, sizeBytes);
  const { devicePath } = await backend.attachments.attach(volumeId, { readOnly: false });
  return { volumeId, devicePath };
}

test('H15: a volume keeps everything written to it after others have filled the host', async () => {
  const backend = await open();
  // More than the image has at first, so that it has grown.
  const { volumeId, devicePath } = await attached(backend, MOST);
  fillUp();
  const first = writeAll(devicePath, MOST, false);
  assertStored(devicePath, first);
  await backend.attachments.detach(volumeId);
  await backend.stop();
  const again = await open();
  const { devicePath: next } = await again.attachments.attach(volumeId, { readOnly: false });
  assertHolds(next, first);
  assertStored(next, writeAll(next, MOST));
  await again.attachments.detach(volumeId);
});

test('H15: an embedded pool allocates on the host what its volumes may claim, and grows with it', async () => {
  const backend = await open();
  const first = await backend.capacity();
  assert.ok(allocated(image()) <= 513n * MIB, `${allocated(image())} at the start`);
  assert.ok(first.availableBytes > (BigInt(HOST_MIB) * MIB * 6n) / 10n, `${first.availableBytes}`);
  // One after the other: of volumes that are made at once, some count twice for a moment, and the image grows for that.
  for (let made = 0; made < 4; made += 1) await backend.volumes.create(newVolume(), 200n * MIB);
  const { availableBytes } = await backend.capacity();
  const fallen = first.availableBytes - availableBytes;
  assert.ok(fallen >= 780n * MIB, `${fallen}`);
  assert.ok(allocated(image()) >= 800n * MIB, 'promises are held');
  assert.ok(allocated(image()) <= 1000n * MIB, `${allocated(image())} for 800 MiB`);
  // What is said to be left can be promised, to the last byte, and no more.
  const last = newVolume();
  await backend.volumes.create(last, availableBytes);
  fillUp();
  await refused(backend.volumes.create(newVolume(), 600n * MIB), 'RESOURCE_EXHAUSTED', /host/);
  const expanded = backend.volumes.expand(last, availableBytes + 600n * MIB);
  await refused(expanded, 'RESOURCE_EXHAUSTED', /host/);
});

test('H15: neither discards nor deletions give blocks of the image back to the host', async () => {
  const backend = await open();
  const { volumeId, devicePath } = await attached(backend, 300n * MIB);
  writeAll(devicePath, 300n * MIB);
  const before = allocated(image());
  execFileSync('blkdiscard', [devicePath]);
  await backend.attachments.detach(volumeId);
  const trim = () => spawnSync('fstrim', [mountPoint()], { stdio: 'ignore' });
  trim();
  await backend.volumes.delete(volumeId);
  trim();
  execFileSync('sync', ['-f', mountPoint()]);
  // More is possible: ext4 counts its extent tree, which grows as blocks are written for the first time.
  assert.ok(allocated(image()) >= before, `${allocated(image())} of ${before} are left`);
});

test('H15: a start allocates blocks that were punched out of the image', async () => {
  const first = await open();
  const before = allocated(image());
  await first.stop();
  const hole = ['--punch-hole', '--offset', '400MiB', '--length', '50MiB', image()];
  execFileSync('fallocate', hole);
  assert.ok(allocated(image()) < before);
  await (await open()).stop();
  assert.ok(allocated(image()) >= before);
});

test('H15: a sparse image is allocated in full, and keeps its content', async () => {
  const sparse = await open({ embeddedPoolAllocation: 'sparse', embeddedPoolBytes: 1024n * MIB });
  assert.match(events[0]?.message ?? '', /is sparse .*lose/);
  assert.ok(allocated(image()) < 100n * MIB);
  const { volumeId, devicePath } = await attached(sparse, 100n * MIB);
  const written = writeAll(devicePath, 100n * MIB);
  events.length = 0;
  const full = await open({ embeddedPoolBytes: 1024n * MIB });
  assert.deepEqual(events, []);
  assert.ok(allocated(image()) >= 1024n * MIB);
  assertStored(devicePath, written);
  assert.ok((await full.capacity()).availableBytes > 0n);
  await full.attachments.detach(volumeId);
});

test('H15: a sparse image that does not fit on the host is reported, and offers no more capacity', async () => {
  const sparse = await open({ embeddedPoolAllocation: 'sparse' });
  const volumeId = newVolume();
  await sparse.volumes.create(volumeId, 64n * MIB);
  await sparse.stop();
  const filler = fillUp();
  events.length = 0;
  const full = await open();
  assert.match(events[0]?.message ?? '', /does not hold all .*lost .*free space/);
  const { availableBytes, lacksBacking } = await full.capacity();
  assert.deepEqual({ availableBytes, lacksBacking }, { availableBytes: 0n, lacksBacking: true });
  const small = full.volumes.create(newVolume(), 16n * MIB);
  await refused(small, 'RESOURCE_EXHAUSTED', /lacks \d+ bytes/);
  await full.attachments.attach(volumeId, { readOnly: false });
  await full.attachments.detach(volumeId);
  await full.stop();
  rmSync(filler);
  const again = await open();
  assert.ok((await again.capacity()).availableBytes > 0n);
});

test('H15: a start completes a growth that was killed between its steps', async () => {
  const first = await open();
  const before = await first.capacity();
  const sizeBytes = 768n * MIB;
  // Behind the end of the file; in the file, not in the device; in the device, not in the pool.
  execFileSync('fallocate', ['--keep-size', '--length', '640MiB', image()]);
  const second = await open();
  assert.ok((await second.capacity()).availableBytes + 64n * MIB > before.availableBytes);
  await host.native.run('allocateFile', { path: image(), sizeBytes });
  await open();
  assert.ok(statfsSync(mountPoint()).blocks * 4096 > 650 * Number(MIB));
  truncateSync(image(), Number(896n * MIB));
  await host.native.run('loopResize', { backingPath: image() });
  const last = await open();
  assert.ok(statfsSync(mountPoint()).blocks * 4096 > 780 * Number(MIB));
  assert.ok(allocated(image()) >= 896n * MIB);
  await last.volumes.create(newVolume(), 500n * MIB);
});

test('H15: volumes can overwrite blocks shared with snapshots and copies while the host has space', async () => {
  const backend = await open();
  const [copyId, snapshotId] = [newVolume(), newSnapshot()];
  const sizeBytes = 200n * MIB;
  const { volumeId, devicePath } = await attached(backend, sizeBytes);
  const first = writeAll(devicePath, sizeBytes);
  await backend.snapshots.create([{ volumeId, snapshotId }]);
  for (let round = 0; round < 2; round += 1) {
    writeAll(devicePath, sizeBytes);
    await backend.snapshots.create([{ volumeId, snapshotId: newSnapshot() }]);
  }
  await backend.volumes.create(copyId, sizeBytes, { snapshotId });
  const copy = await backend.attachments.attach(copyId, { readOnly: false });
  assertHolds(copy.devicePath, first);
  writeAll(devicePath, sizeBytes);
  // The pool looks after itself: nobody asks it for anything from here on.
  await eventually('the pool has grown', () => {
    const { bavail, bsize } = statfsSync(mountPoint(), { bigint: true });
    return bavail * bsize > sizeBytes + 50n * MIB;
  });
  assertStored(copy.devicePath, writeAll(copy.devicePath, sizeBytes));
  assertHolds(join(mountPoint(), 'snapshots', snapshotId), first);
  await backend.attachments.detach(copyId);
  await backend.attachments.detach(volumeId);
});

test('H15: a pool filled by snapshots fails writes, and loses nothing silently', async () => {
  const backend = await open({ embeddedPoolBytes: 512n * MIB });
  const snapshotId = newSnapshot();
  const sizeBytes = 250n * MIB;
  const { volumeId, devicePath } = await attached(backend, sizeBytes);
  const written = writeAll(devicePath, sizeBytes);
  await backend.snapshots.create([{ volumeId, snapshotId }]);
  assert.throws(() => writeAll(devicePath, sizeBytes), /No space|Input\/output/);
  const snapshot = join(mountPoint(), 'snapshots', snapshotId);
  assert.equal(BigInt(statSync(snapshot).size), sizeBytes);
  assertHolds(snapshot, written);
  await backend.attachments.detach(volumeId);
});
