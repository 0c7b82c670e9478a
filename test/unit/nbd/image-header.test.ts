/** Headers of images that qemu must not open: whoever can write the backup directory is not trusted. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { type FileHandle, open, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { StatusCode } from '../../../src/base/errors.js';
import type { GivenFile } from '../../../src/base/process/program-arguments.js';
import { createImage } from '../../../src/tools/nbd/image.js';
import { chainArgument, chainName } from '../../../src/tools/nbd/image-chain.js';
import { parseHeader, readImageHeader } from '../../../src/tools/nbd/image-header.js';
import { runProgram } from '../../../src/tools/nbd/program.js';
import { serveImage } from '../../../src/tools/nbd/servers.js';
import { LONG } from '../../support/long-ranges.js';
import { seededRandom } from '../../support/random.js';
import { temporaryDirectory } from '../../support/temporary.js';

const SIZE = 1n << 30n;
const SECRET = 'what only root may read';

const directory = temporaryDirectory();
const at = (name: string): string => join(directory, name);

before(async () => {
  await createImage({ path: at('full.qcow2'), sizeBytes: SIZE, backing: null, ranges: LONG });
  await createImage({ path: at('delta.qcow2'), sizeBytes: SIZE * 2n, backing: 'full.qcow2', ranges: LONG });
});

/** An image that qemu-img makes, with options that this room never uses. */
async function foreignImage(name: string, ...options: string[]): Promise<string> {
  const args = ['create', '-q', '-u', '-f', 'qcow2', ...options, at(name), `${SIZE}`];
  execFileSync('qemu-img', args);
  return at(name);
}

async function changed(name: string, change: (bytes: Buffer) => void): Promise<string> {
  const bytes = await readFile(at('delta.qcow2'));
  change(bytes);
  await writeFile(at(name), bytes);
  return at(name);
}

const refusal = (message: RegExp) => ({ code: StatusCode.FAILED_PRECONDITION, message });

test('the header of an image describes the image and what it is based on', async () => {
  const header = await readImageHeader(at('delta.qcow2'));
  assert.deepEqual(header, { sizeBytes: SIZE * 2n, blockBytes: 4096n, backing: 'full.qcow2' });
  const bytes = await readFile(at('delta.qcow2'));
  assert.equal(bytes.readUInt32BE(20), 17, 'clusters of 128 KiB');
  assert.equal(bytes.readBigUInt64BE(72), 16n, 'with subclusters');
});

test('programs find the images of a chain by names that are given to them, and each must be there', async () => {
  const path = await foreignImage('lost.qcow2', '-b', 'gone.qcow2', '-F', 'qcow2');
  const name = await chainName([path, at('full.qcow2')]);
  execFileSync('qemu-img', ['convert', '-O', 'raw', name, at('lost.raw')]);
  await assert.rejects(chainName([path, at('gone.qcow2')]), {
    code: StatusCode.NOT_FOUND,
    message: `there is no file ${at('gone.qcow2')}`,
  });
  await assert.rejects(chainName([path, 'full.qcow2']), /relative paths/);
  await assert.rejects(chainName(Array(201).fill(path)), refusal(/at most 200 images/));
});

for (const backing of [
  '/etc/passwd',
  '../secret.qcow2',
  'nbd:localhost:10809',
  'json:{"driver":"qcow2"}',
  'sub/full.qcow2',
]) {
  test(`a header that makes qemu open ${backing} is refused`, async () => {
    const path = await foreignImage('hostile.qcow2', '-b', backing, '-F', 'qcow2');
    const refused = refusal(/which is not the plain name of a file beside it; restore the file/);
    await assert.rejects(readImageHeader(path), refused);
    await assert.rejects(serveImage({ chain: [path], directory }), refused);
  });
}

test('a header that lets qemu guess the format of the image below is refused', async () => {
  const path = await changed('guess.qcow2', (bytes) => {
    const extension = bytes.indexOf(Buffer.from('e2792aca', 'hex'));
    bytes.writeUInt32BE(0x6803f857, extension);
  });
  await assert.rejects(readImageHeader(path), refusal(/does not say that full\.qcow2, .* is a qcow2/));
});

test('H35: a header makes a program open nothing but what it was given, also one that was exchanged after all checks', async (t) => {
  if (!readFileSync('/proc/kallsyms', 'latin1').includes('sys_landlock_restrict_self')) {
    return t.skip('this kernel has no Landlock');
  }
  writeFileSync(at('secret'), SECRET, { mode: 0o600 });
  const path = await foreignImage('exchanged.qcow2', '-b', at('secret'), '-F', 'raw');
  const convert = async (...reads: string[]): Promise<void> => {
    const given: GivenFile[] = [];
    for (const [index, each] of [at('read.raw'), ...reads].entries()) {
      const opening = () => open(each, index === 0 ? 'w+' : 'r');
      given.push({ path: each, use: index === 0 ? 'write' : 'read', open: opening });
    }
    const files = { files: given, word: ([to = '']: readonly string[]) => to };
    const args = ['convert', '-O', 'raw', { path }, files];
    await runProgram('qemu-img', args, { purpose: 'read an image' });
  };
  const head = async (): Promise<string> => {
    const file = await open(at('read.raw'));
    const { buffer, bytesRead } = await file.read(Buffer.alloc(SECRET.length));
    await file.close();
    return buffer.toString('latin1', 0, bytesRead);
  };
  await assert.rejects(convert(path), /Could not open '.*secret': Permission denied/);
  assert.equal(await head(), '');
  await convert(path, at('secret'));
  assert.equal(await head(), SECRET);
});

test('H35: a checked header belongs to the file that a program reads, whatever the name of the file leads to by then', async () => {
  writeFileSync(at('other'), SECRET);
  await createImage({ path: at('accepted.qcow2'), sizeBytes: SIZE, backing: null, ranges: LONG });
  const hostile = await foreignImage('hostile.qcow2', '-b', at('other'), '-F', 'raw');
  const accepted = chainArgument([at('accepted.qcow2')]);
  // Opened after the image, and before the program starts.
  const exchange = async (): Promise<FileHandle> => {
    renameSync(hostile, at('accepted.qcow2'));
    return open('/dev/null');
  };
  const last = { path: '/dev/null', use: 'read', open: exchange } as const;
  const word = (names: readonly string[]): string => accepted.word(names.slice(0, 1));
  const args = ['info', '--output=json', { files: [...accepted.files, last], word }];
  const { stdout } = await runProgram('qemu-img', args, { purpose: 'look' });
  assert.equal((JSON.parse(stdout) as Record<string, unknown>)['virtual-size'], Number(SIZE));
  assert.doesNotMatch(stdout, /backing-filename/);
});

test('a header whose data is in another file is refused', async () => {
  const path = await foreignImage('external.qcow2', '-o', `data_file=${at('external.raw')}`);
  await assert.rejects(readImageHeader(path), refusal(/has its data in another file/));
});

test('a header that is damaged, old, encrypted or of a future version is refused', async () => {
  const changes: [string, RegExp, (bytes: Buffer) => void][] = [
    ['magic', /is not a qcow2 image/, (bytes) => bytes.writeUInt8(0, 0)],
    ['old', /of version 2; expected 3/, (bytes) => bytes.writeUInt32BE(2, 4)],
    ['cluster', /has clusters of 2\^40 bytes/, (bytes) => bytes.writeUInt32BE(40, 20)],
    ['crypt', /is encrypted/, (bytes) => bytes.writeUInt32BE(1, 32)],
    ['future', /has unknown features \(0x110/, (bytes) => bytes.writeUInt8(1, 78)],
    ['name', /the image it is based on lies outside/, (bytes) => bytes.writeUInt32BE(1 << 20, 16)],
    ['far', /the image it is based on lies outside/, (bytes) => bytes.writeUInt8(255, 8)],
  ];
  for (const [name, message, change] of changes) {
    await assert.rejects(readImageHeader(await changed(name, change)), refusal(message), name);
  }
  await writeFile(at('short'), 'QFI');
  await assert.rejects(readImageHeader(at('short')), refusal(/is not a qcow2 image/));
});

test('a header of any bytes is read or refused, and never makes the parser fail otherwise', async () => {
  const random = seededRandom('image headers');
  const bytes = (await readFile(at('delta.qcow2'))).subarray(0, 4096);
  for (let round = 0; round < 20_000; round++) {
    const damaged = Buffer.from(bytes.subarray(0, 1 + random.below(bytes.length)));
    // The header and its extensions are in the first bytes.
    for (let count = random.below(6); count >= 0; count--) {
      damaged[random.below(Math.min(600, damaged.length))] = random.below(256);
    }
    try {
      const header = parseHeader(damaged, 'x');
      assert.ok(header.backing === null || !/[/:]/.test(header.backing));
    } catch (thrown) {
      const { code } = thrown as { code?: unknown };
      assert.equal(code, StatusCode.FAILED_PRECONDITION, `${thrown}`);
    }
  }
});
