/**
 * The kinds of volumes, and the expected content of one: a workload writes it durably, and it is verified through a
 * published path.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { type FileHandle, open, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { blockCapability, mountCapability } from './csi-client.js';
import { Disturbance } from './disturbance.js';
import { MIB, type VolumeSpec } from './orchestrator.js';
import type { Random } from './random.js';

export type VolumeKind = 'block' | 'ext4' | 'xfs' | 'btrfs';

/** The smallest of each, and what it is expanded to. */
export const SIZES: Readonly<Record<VolumeKind, readonly [number, number]>> = {
  block: [8 * MIB, 12 * MIB],
  ext4: [24 * MIB, 40 * MIB],
  xfs: [300 * MIB, 348 * MIB],
  btrfs: [256 * MIB, 320 * MIB],
};

export function specOf(kind: VolumeKind): VolumeSpec {
  const capability = kind === 'block' ? blockCapability() : mountCapability(kind);
  return { capability, sizeBytes: SIZES[kind][0] };
}

export function emptyContents(kind: VolumeKind): Contents {
  return kind === 'block' ? BlockContents.empty(SIZES.block[0]) : new FileContents();
}

export interface Contents {
  /** Makes changes at the target path. They are durable and part of the model when it resolves. */
  work(target: string, random: Random): Promise<void>;
  /** Fails unless the target matches the model. */
  verify(target: string): Promise<void>;
  /** The volume was made larger. */
  grow(sizeBytes: number): void;
  /** The same contents, which later work on this one does not change. */
  copy(): Contents;
  /** An endless workload whose writes are not modelled. */
  disturb(target: string): Disturbance;
}

const digest = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

/** With these flags of open(2). */
export async function writeDurably(
  path: string,
  flags: string,
  write: (file: FileHandle) => Promise<unknown>,
): Promise<void> {
  const file = await open(path, flags);
  try {
    await write(file);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Files of a mounted file system. */
export class FileContents implements Contents {
  readonly #digests: Map<string, string>;

  constructor(digests: ReadonlyMap<string, string> = new Map()) {
    this.#digests = new Map(digests);
  }

  async work(target: string, random: Random): Promise<void> {
    const name = `file-${random.below(6)}`;
    const bytes = random.bytes(1 + random.below(30_000));
    // A file whose rewriting fails half way holds neither the old nor the new bytes.
    this.#digests.delete(name);
    await writeDurably(join(target, name), 'w', (file) => file.write(bytes));
    this.#digests.set(name, digest(bytes));
    await writeDurably(target, 'r', async () => undefined);
  }

  async verify(target: string): Promise<void> {
    const found = await readdir(target);
    for (const [name, wanted] of this.#digests) {
      assert.ok(found.includes(name), `${target} has lost ${name}`);
      assert.equal(digest(await readFile(join(target, name))), wanted, `${name} in ${target}`);
    }
  }

  grow(): void {}

  copy(): FileContents {
    return new FileContents(this.#digests);
  }

  disturb(target: string): Disturbance {
    const path = join(target, 'disturbance');
    return new Disturbance(async (round) => {
      if (round % 16 === 15) await rm(path, { force: true });
      const bytes = Buffer.alloc(65536, round);
      await writeDurably(path, 'a', (file) => file.write(bytes));
    });
  }
}

const BLOCK_BYTES = 4096;

/** A raw block device, all of its bytes. */
export class BlockContents implements Contents {
  #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  static empty(sizeBytes: number): BlockContents {
    return new BlockContents(Buffer.alloc(sizeBytes));
  }

  async work(target: string, random: Random): Promise<void> {
    const blocks = 1 + random.below(16);
    const offset = random.below(this.#bytes.length / BLOCK_BYTES - blocks) * BLOCK_BYTES;
    const bytes = random.bytes(blocks * BLOCK_BYTES);
    await writeDurably(target, 'r+', (file) => file.write(bytes, 0, bytes.length, offset));
    bytes.copy(this.#bytes, offset);
  }

  async verify(target: string): Promise<void> {
    const found = await readFile(target);
    assert.ok(found.equals(this.#bytes), `${target} has other bytes than were written`);
  }

  /** By zeros. */
  grow(sizeBytes: number): void {
    this.#bytes = Buffer.concat([this.#bytes], sizeBytes);
  }

  copy(): BlockContents {
    return new BlockContents(Buffer.from(this.#bytes));
  }

  disturb(target: string): Disturbance {
    // The same bytes again: traffic that changes nothing.
    return new Disturbance(async (round) => {
      const offset = (round % (this.#bytes.length / BLOCK_BYTES)) * BLOCK_BYTES;
      const bytes = this.#bytes.subarray(offset, offset + BLOCK_BYTES);
      await writeDurably(target, 'r+', (file) => file.write(bytes, 0, bytes.length, offset));
    });
  }
}
