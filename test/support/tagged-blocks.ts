/**
 * What a small block device must hold: one value a block, so that the model of a device is a few bytes
 * and a comparison names the block. Every access opens and closes the device: the last close drops what
 * the page cache holds, so the device itself is read and written, and nothing keeps it busy.
 */
import assert from 'node:assert/strict';
import { type FileHandle, open } from 'node:fs/promises';
import { blockDiscard } from './ioctls.js';

/** As large as the smallest block of a thin pool. */
export const BLOCK_BYTES = 65536;

export class TaggedBlocks {
  constructor(readonly values: Uint8Array) {}

  static zeros(blocks: number): TaggedBlocks {
    return new TaggedBlocks(new Uint8Array(blocks));
  }

  copy(blocks = this.values.length): TaggedBlocks {
    const copy = TaggedBlocks.zeros(blocks);
    copy.values.set(this.values);
    return copy;
  }

  /** Durable when it resolves; rejects with what the disk said. */
  async write(devicePath: string, block: number, value: number): Promise<void> {
    await withDevice(devicePath, 'r+', async (device) => {
      await device.write(Buffer.alloc(BLOCK_BYTES, value), 0, BLOCK_BYTES, block * BLOCK_BYTES);
      await device.sync();
    });
    this.values[block] = value;
  }

  /** Thin devices read zeros where whole blocks were discarded. */
  async discard(devicePath: string, block: number): Promise<void> {
    await withDevice(devicePath, 'r+', async (device) => {
      blockDiscard(device.fd, block * BLOCK_BYTES, BLOCK_BYTES);
      await device.sync();
    });
    this.values[block] = 0;
  }

  async verify(devicePath: string, what: string): Promise<void> {
    const found = await readTags(devicePath);
    assert.deepEqual([...found], [...this.values], `the blocks of ${what}`);
  }

  /** Which blocks differ, a missing one being zeros. */
  changedSince(base: TaggedBlocks): Set<number> {
    const blocks = [...this.values.keys()];
    return new Set(blocks.filter((block) => this.values[block] !== (base.values[block] ?? 0)));
  }
}

/** The value of each block. Fails if one holds several. */
export async function readTags(devicePath: string): Promise<Uint8Array> {
  const content = await withDevice(devicePath, 'r', (device) => device.readFile());
  const blocks = Array.from({ length: content.length / BLOCK_BYTES }, (_, index) =>
    content.subarray(index * BLOCK_BYTES, (index + 1) * BLOCK_BYTES),
  );
  return Uint8Array.from(blocks, (block, index) => {
    const value = block[0] ?? 0;
    assert.ok(
      block.equals(Buffer.alloc(BLOCK_BYTES, value)),
      `block ${index} holds several values`,
    );
    return value;
  });
}

async function withDevice<T>(
  path: string,
  flags: string,
  use: (device: FileHandle) => Promise<T>,
): Promise<T> {
  const device = await open(path, flags);
  try {
    return await use(device);
  } finally {
    await device.close();
  }
}
