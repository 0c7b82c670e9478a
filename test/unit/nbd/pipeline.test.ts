/** nbdkit, nbdcopy, qemu-nbd and qemu-img as src/tools/nbd runs them, on files: no root is needed. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import {
  chown,
  copyFile,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rm,
  stat,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Program } from '../../../src/base/process/program.js';
import type { RuntimeEntry } from '../../../src/base/system/runtime-directory.js';
import { copyRanges } from '../../../src/tools/nbd/copy.js';
import {
  checkImage,
  compareImages,
  convertImage,
  createImage,
  type MappedRange,
  mapImage,
} from '../../../src/tools/nbd/image.js';
import { readImageHeader } from '../../../src/tools/nbd/image-header.js';
import { serveImage, serveRanges } from '../../../src/tools/nbd/servers.js';
import { makeSocketDirectory } from '../../../src/tools/nbd/socket-directory.js';
import { LONG } from '../../support/long-ranges.js';
import { openRuntime } from '../../support/runtime.js';
import { temporaryDirectory } from '../../support/temporary.js';

/** Processes that were started by the main thread. */
async function childrenOf(pid: number): Promise<string[]> {
  return (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ');
}

const MIB = 1 << 20;
const SIZE = 64 * MIB;
const GRAIN = 4096;

interface Range {
  offset: number;
  size: number;
}

const directory = temporaryDirectory();
let sockets: RuntimeEntry;

before(async () => {
  sockets = makeSocketDirectory(await openRuntime(directory));
});
after(() => sockets.discard());

const at = (name: string): string => join(directory, name);

async function writeDevice(name: string, writes: readonly Range[], zeros: readonly Range[] = []) {
  const file = await open(at(name), 'r+');
  for (const { offset, size } of writes) await file.write(randomBytes(size), 0, size, offset);
  for (const { offset, size } of zeros) await file.write(Buffer.alloc(size), 0, size, offset);
  await file.close();
}

async function writeRanges(name: string, ranges: readonly Range[]): Promise<string> {
  const path = at(name);
  await writeFile(path, ranges.map(({ offset, size }) => `${offset} ${size}\n`).join(''));
  return path;
}

async function backUp(device: string, list: readonly Range[], image: string, ...below: string[]) {
  const ranges = await writeRanges(`${image}.ranges`, list);
  const chain = [image, ...below].map(at);
  await createImage({ path: at(image), sizeBytes: BigInt(SIZE), backing: below[0] ?? null, ranges: LONG });
  const source = await serveRanges({
    from: { device: at(device) },
    ranges,
    directory: sockets.path,
  });
  const target = await serveImage({ chain, directory: sockets.path });
  await copyRanges({ from: source.uri, to: target.uri, requestSize: GRAIN });
  await target.close();
  await source.close();
}

const written: Range[] = [
  { offset: 0, size: MIB },
  { offset: 10 * MIB, size: 3 * GRAIN },
  { offset: SIZE - GRAIN, size: GRAIN },
];
const changed: Range[] = [
  { offset: 4 * GRAIN, size: GRAIN },
  { offset: 20 * MIB, size: 2 * GRAIN },
];
const zeroed: Range[] = [{ offset: 10 * MIB, size: 2 * GRAIN }];

async function assertSame(device: string, ...chain: string[]): Promise<void> {
  const compared = await compareImages({ device }, { chain });
  assert.deepEqual(compared, { isSame: true, detail: 'Images are identical.' }, chain[0]);
}

test('a copy into a chain writes exactly the listed ranges of a full, an incremental and an empty image', async () => {
  await writeFile(at('first.raw'), '');
  await truncate(at('first.raw'), SIZE);
  await writeDevice('first.raw', written);
  await backUp('first.raw', written, 'full.qcow2');
  await copyFile(at('first.raw'), at('second.raw'));
  await writeDevice('second.raw', changed, zeroed);
  const delta = ['delta.qcow2', 'full.qcow2'].map(at);
  await backUp('second.raw', [...changed, ...zeroed], 'delta.qcow2', 'full.qcow2');
  await backUp('second.raw', [], 'empty.qcow2', 'delta.qcow2', 'full.qcow2');
  await assertSame(at('first.raw'), at('full.qcow2'));
  await assertSame(at('second.raw'), ...delta);
  await assertSame(at('second.raw'), at('empty.qcow2'), ...delta);
  assert.equal((await checkImage(at('empty.qcow2'))).allocatedClusters, 0);
  const { backing, sizeBytes } = await readImageHeader(at('delta.qcow2'));
  assert.deepEqual([backing, sizeBytes], ['full.qcow2', BigInt(SIZE)]);
  const allocatedBytes = (await stat(at('delta.qcow2'))).blocks * 512;
  assert.ok(allocatedBytes < MIB, `the image takes ${allocatedBytes} bytes`);
  const differing = await compareImages({ device: at('first.raw') }, { chain: delta });
  assert.equal(differing.isSame, false);
  assert.match(differing.detail, new RegExp(`offset ${4 * GRAIN}`));
});

test('a copy writes past the page cache where the file system can, and through the cache elsewhere', async (t) => {
  const memory = '/dev/shm';
  if (!existsSync(memory)) return t.skip(`there is no ${memory}`);
  const place = await mkdtemp(join(memory, 'bd-nbd-'));
  t.after(() => rm(place, { recursive: true, force: true }));
  const ranges = await writeRanges('direct.ranges', written);
  for (const path of [at('direct.qcow2'), join(place, 'memory.qcow2')]) {
    await createImage({ path, sizeBytes: BigInt(SIZE), backing: null, ranges: LONG });
    const source = await serveRanges({
      from: { device: at('first.raw') },
      ranges,
      directory: sockets.path,
    });
    const target = await serveImage({ chain: [path], directory: sockets.path, cache: 'none' });
    await copyRanges({ from: source.uri, to: target.uri, requestSize: MIB });
    await target.close();
    await source.close();
    await assertSame(at('first.raw'), path);
  }
});

test('a copy writes as root into a directory of another user, without other rights', async (t) => {
  if (process.getuid?.() !== 0) return t.skip('needs root');
  const place = at('of-nobody');
  await mkdir(place, { mode: 0o700 });
  await chown(place, 65534, 65534);
  const path = join(place, 'image.qcow2');
  await createImage({ path, sizeBytes: BigInt(SIZE), backing: null, ranges: LONG });
  const target = await serveImage({ chain: [path], directory: sockets.path });
  const rights = new Set<string>();
  for (const pid of await childrenOf(process.pid)) {
    const status = await readFile(`/proc/${pid}/status`, 'utf8');
    rights.add(/^CapEff:\t(\w+)$/m.exec(status)?.[1] ?? '');
  }
  await target.close();
  // CAP_DAC_READ_SEARCH.
  assert.deepEqual([...rights], ['0000000000000004']);
});

test('a server that has missed the signal to end gets it again', async (t) => {
  const path = at('missed.qcow2');
  await createImage({ path, sizeBytes: BigInt(SIZE), backing: null, ranges: LONG });
  const target = await serveImage({ chain: [path], directory: sockets.path });
  let isMissed = false;
  const kill = t.mock.method(Program.prototype, 'kill', function (this: Program, signal: 'SIGTERM' | 'SIGKILL') {
    if (isMissed) kill.mock.restore();
    if (isMissed) this.kill(signal);
    isMissed = true;
  });
  await target.close();
  assert.deepEqual(await target.exited, { exitCode: 0, signal: null });
});

test('a chain tells which of its images holds each part of the device', async () => {
  const found: MappedRange[] = [];
  for await (const ranges of mapImage(['delta.qcow2', 'full.qcow2'].map(at))) found.push(...ranges);
  const total = found.reduce((sum, { size }) => sum + size, 0n);
  assert.equal(total, BigInt(SIZE));
  const of = (holder: number) =>
    found.filter((each) => each.holder === holder).reduce((sum, { size }) => sum + Number(size), 0);
  assert.equal(of(0), GRAIN * 5, 'what has changed, zeros included');
  assert.equal(of(1), MIB + GRAIN * 4 - GRAIN * 3, 'what the full image has and the other has not');
});

test('a chain is restored to a file with its holes', async () => {
  const chain = ['delta.qcow2', 'full.qcow2'].map(at);
  const to = await open(at('restored.raw'), 'w+');
  await to.truncate(SIZE);
  await convertImage({ from: { chain }, to, path: at('restored.raw'), isZero: true });
  await to.close();
  assert.ok((await readFile(at('restored.raw'))).equals(await readFile(at('second.raw'))));
  const { blocks } = await stat(at('restored.raw'));
  assert.ok(blocks * 512 < 4 * MIB, `the restored file takes ${blocks * 512} bytes`);
});

test('a restore writes to a file that is locked as NFS locks what this process holds', async (t) => {
  const path = at('locked.raw');
  const to = await open(path, 'w+');
  t.after(() => to.close());
  await to.truncate(SIZE);
  // A server of NFS keeps a flock as a lock of all bytes, which every other lock of bytes meets.
  const lock = 'import fcntl, sys; f = open(sys.argv[1], "r+"); fcntl.lockf(f, fcntl.LOCK_EX); print(); input()';
  const holder = spawn('python3', ['-c', lock, path]);
  t.after(() => holder.kill('SIGKILL'));
  await once(holder.stdout, 'data');
  const chain = [at('locked.qcow2')];
  await createImage({ path: at('locked.qcow2'), sizeBytes: BigInt(SIZE), backing: null, ranges: LONG });
  await convertImage({ from: { chain }, to, path });
  assert.ok((await readFile(path)).equals(Buffer.alloc(SIZE)));
});

/** A server of all of a device, and one of a new image. */
async function servers(signal = new AbortController().signal) {
  const ranges = await writeRanges('all.ranges', [{ offset: 0, size: SIZE }]);
  const path = at('unfinished.qcow2');
  await rm(path, { force: true });
  await createImage({ path, sizeBytes: BigInt(SIZE), backing: null, ranges: LONG });
  const source = await serveRanges({
    from: { device: at('first.raw') },
    ranges,
    directory: sockets.path,
  });
  const target = await serveImage({ chain: [path], directory: sockets.path, signal });
  return { source, target, ends: { from: source.uri, to: target.uri, requestSize: GRAIN } };
}

test('a copy that is cancelled stops, and leaves no socket behind', async () => {
  const cancelled = new AbortController();
  const { source, target, ends } = await servers();
  const copied = copyRanges({ ...ends, signal: cancelled.signal });
  cancelled.abort(new Error('no longer wanted'));
  await assert.rejects(copied, /no longer wanted/);
  await target.close();
  await source.close();
  assert.deepEqual(await readdir(sockets.path), []);
});

test('a copy reports a server that ends while data is copied', async () => {
  const killed = new AbortController();
  const { source, target, ends } = await servers(killed.signal);
  killed.abort(new Error('killed'));
  assert.equal((await target.exited).signal, 'SIGKILL');
  await assert.rejects(copyRanges(ends), /nbdcopy, started to copy the data, failed with exit code 1/);
  await assert.rejects(target.close(), /qemu-nbd, started to serve the image .* was ended by SIGKILL/);
  await source.close();
});

test('a copy names a device that does not exist, and a directory whose sockets would have too long a path', async () => {
  const ranges = await writeRanges('none.ranges', []);
  const long = join(directory, 'x'.repeat(100));
  for (const [device, place, message] of [
    ['none.raw', sockets.path, /no such file .*none\.raw/],
    ['first.raw', long, /the path of the socket, .* set BLOCKDELTA_RUNTIME_DIR to a directory with a shorter path/],
  ] as const) {
    await assert.rejects(async () => {
      const source = await serveRanges({
        from: { device: at(device) },
        ranges,
        directory: place,
      });
      await source.close();
    }, message);
  }
});
