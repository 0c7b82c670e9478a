/** Ranges of a file copied into images, with the real programs: no root is needed. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, open, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { copyIntoImage } from '../../../src/backup/copy-image.js';
import { type RangesFile, writeRanges } from '../../../src/backup/ranges-file.js';
import type { Entry } from '../../../src/client/list.js';
import { compareImages } from '../../../src/nbd/image.js';
import { openRuntime } from '../../support/runtime.js';

const SIZE = 3 * (1 << 20) + 512;
const signal = new AbortController().signal;

let directory: string;
const at = (name: string): string => join(directory, name);
before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'bd-copy-'));
});
after(() => rm(directory, { recursive: true, force: true }));

async function ranges(sizeBytes: number, ...entries: [number, number][]): Promise<RangesFile> {
  async function* list(): AsyncGenerator<Entry[]> {
    yield entries.map(([offset, size]) => ({ offset: BigInt(offset), size: BigInt(size) }));
  }
  const options = { path: at('ranges'), grainBytes: 4096n, sizeBytes: BigInt(sizeBytes) };
  return writeRanges(list(), options);
}

async function write(path: string, offset: number, bytes: Buffer): Promise<void> {
  const file = await open(path, 'r+');
  await file.write(bytes, 0, bytes.length, offset);
  await file.close();
}

async function isSame(device: string, image: string): Promise<boolean> {
  const a = { path: device, format: 'raw' } as const;
  return (await compareImages(a, { path: image, format: 'qcow2' })).isSame;
}

test('a full image, an incremental one with new zeros, one of no change, and one of a grown volume', async () => {
  const device = at('device');
  const runtime = openRuntime(at('runtime'));
  await writeFile(device, randomBytes(SIZE));
  const copy = async (name: string, backing: string | null, size: number, list: RangesFile) => {
    const sizeBytes = BigInt(size);
    await copyIntoImage({
      device,
      ranges: list,
      path: at(name),
      sizeBytes,
      backing,
      runtime,
      signal,
    });
    assert.ok(await isSame(device, at(name)), name);
  };
  await copy('full.qcow2', null, SIZE, await ranges(SIZE, [0, SIZE]));

  await write(device, 0, Buffer.alloc(4096));
  await write(device, SIZE - 512, randomBytes(512));
  await write(device, 1 << 20, randomBytes(9000));
  const changed = await ranges(SIZE, [0, 4096], [1 << 20, 9000], [SIZE - 512, 512]);
  await copy('delta.qcow2', 'full.qcow2', SIZE, changed);

  await copy('same.qcow2', 'delta.qcow2', SIZE, await ranges(SIZE));

  const larger = 2 * SIZE;
  await truncate(device, larger);
  await write(device, larger - 4096, randomBytes(4096));
  await copy('grown.qcow2', 'same.qcow2', larger, await ranges(larger, [larger - 4096, 4096]));
});

test('a device that cannot be read leaves no server behind, and the failure names it', async () => {
  const list = await ranges(SIZE, [0, 4096]);
  const runtime = openRuntime(at('runtime'));
  const options = { ranges: list, path: at('none.qcow2'), sizeBytes: BigInt(SIZE), backing: null };
  await assert.rejects(
    copyIntoImage({ ...options, device: at('nothing'), runtime, signal }),
    /nothing/,
  );
});
