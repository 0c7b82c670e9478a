/**
 * The content of a published raw block volume: the suite writes to it at random and durably, and keeps a
 * model of every byte. It never reads the driver's own files.
 */
import { execFile } from 'node:child_process';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import { errorCode, messageOf } from '../../base/errors.js';
import { deviceNumberOf, takesDiscards } from '../../base/system/device-attributes.js';
import type { Random } from '../random.js';
import { CheckSkipped, ConformanceFailure } from './failure.js';
import { CHUNK_BYTES, chunkOf, fullImage, type Image } from './oracle.js';

type Operation = 'write' | 'partial' | 'rewrite' | 'zeros' | 'discard';

const OPERATIONS: readonly Operation[] = ['write', 'write', 'write', 'partial', 'partial', 'rewrite', 'zeros'];
const LENGTHS = [512, 4096, 4096, 4096, 8192, 20480, 65536] as const;
const ALIGNMENT_BYTES = 4096;
/** Each discard starts a process. */
const DISCARDS_PER_ROUND = 2;
const DISCARD_BYTES = 128 * 1024;
/** Block sizes that a driver may compare or hash at once. An off-by-one error loses a byte at either edge of such a block. */
const BLOCK_SIZES = [512, 4096, CHUNK_BYTES] as const;
const READ_BYTES = 1 << 20;
const ZEROS = Buffer.alloc(CHUNK_BYTES);
/** The PATH of a user often lacks the sbin directories. */
export const PROGRAM_PATHS = { ...process.env, PATH: `${process.env['PATH']}:/usr/sbin:/sbin` };
const run = promisify(execFile);

export interface BlockEditor {
  write(offset: number, bytes: Buffer): Promise<void>;
  /** Throws CheckSkipped if the device takes no discards. What the range reads as afterwards becomes part of the model. */
  discard(offset: number, length: number): Promise<void>;
}

export class BlockContent {
  /** The chunks as they were before the first write to them. */
  readonly #initial = new Map<number, Buffer>();
  readonly #chunks = new Map<number, Buffer>();
  /** Chunks that an image refers to; they are copied before they change. */
  readonly #frozen = new Set<number>();
  /** Chunks that the current round of changes has written to. */
  readonly #changed = new Set<number>();
  /** Block sizes whose edges stayed unchanged in some round, because too few chunks had no other changes. */
  readonly #leftOut = new Set<number>();
  #sizeBytes: number;

  /** `source` is the image from which the volume was created, and so its initial content. */
  constructor(
    sizeBytes: number,
    private readonly source: Image | null = null,
  ) {
    this.#sizeBytes = sizeBytes;
    for (const [index, chunk] of source?.known ?? []) {
      this.#initial.set(index, chunk);
      this.#chunks.set(index, chunk);
      this.#frozen.add(index);
    }
  }

  /** Set after the volume was expanded. */
  set sizeBytes(size: number) {
    this.#sizeBytes = size;
  }

  /** The current content. Later writes do not change the image. */
  image(): Image {
    for (const index of this.#chunks.keys()) this.#frozen.add(index);
    return {
      sizeBytes: this.#sizeBytes,
      known: new Map(this.#chunks),
      elsewhere: this.#initialChunk,
    };
  }

  /** The content before the first write, for the chunks that were written since. */
  initialImage(): Image {
    return {
      sizeBytes: this.#sizeBytes,
      known: new Map(),
      elsewhere: this.#initialChunk,
    };
  }

  readonly #initialChunk = (index: number): Buffer | null =>
    this.#initial.get(index) ?? this.source?.elsewhere(index) ?? null;

  /**
   * Makes random changes at the published path, from byte `from` on. The changes are durable when the promise resolves.
   * They always include the first and the last byte of that range, each of which is the only change in its 4 KiB, and
   * single bytes at the edges of blocks in chunks without other changes: off-by-one errors show only where nothing else
   * changes. Discards hit chunks that earlier rounds have written, if there are any, because discarding unwritten space
   * tests nothing.
   */
  async change(path: string, random: Random, operations: number, from = 0): Promise<void> {
    this.#changed.clear();
    await this.#withDevice(path, async (device) => {
      await this.#changeInside(device, path, random, operations, from);
      for (const offset of [from, this.#sizeBytes - 1]) await this.#touch(device, offset);
      await this.#touchEdges(device, random, from);
    });
  }

  /** Changes neither the first nor the last 4 KiB of the range, and nothing at all if too little lies in between. */
  async #changeInside(
    device: FileHandle,
    path: string,
    random: Random,
    operations: number,
    from: number,
  ): Promise<void> {
    const written = this.#writtenFrom(from);
    const start = from + ALIGNMENT_BYTES;
    const bytes = this.#sizeBytes - ALIGNMENT_BYTES - start;
    if (bytes < ALIGNMENT_BYTES) return;
    for (let count = 0; count < operations; count += 1) {
      const length = Math.min(random.pick(LENGTHS), bytes);
      const slots = Math.floor((bytes - length) / ALIGNMENT_BYTES) + 1;
      const offset = start + random.below(slots) * ALIGNMENT_BYTES;
      await this.#apply(device, random.pick(OPERATIONS), offset, length, random);
    }
    for (let count = 0; count < DISCARDS_PER_ROUND; count += 1) {
      const length = Math.min(DISCARD_BYTES, bytes);
      const offset = written.length > 0 ? random.pick(written) : start;
      const inside = Math.max(start, Math.min(offset, start + bytes - length));
      await this.#discard(device, path, inside, length);
    }
  }

  /** Changes one byte at each edge of a block of each size, in chunks that this round has not changed. */
  async #touchEdges(device: FileHandle, random: Random, from: number): Promise<void> {
    const first = Math.ceil(from / CHUNK_BYTES);
    const untouched: number[] = [];
    for (let index = first; (index + 1) * CHUNK_BYTES <= this.#sizeBytes; index += 1) {
      if (!this.#changed.has(index)) untouched.push(index);
    }
    for (const size of BLOCK_SIZES) {
      for (const edge of [0, size - 1]) {
        const [index] = untouched.splice(random.below(Math.max(1, untouched.length)), 1);
        if (index === undefined) {
          this.#leftOut.add(size);
          continue;
        }
        const block = random.below(CHUNK_BYTES / size) * size;
        await this.#touch(device, index * CHUNK_BYTES + block + edge);
      }
    }
  }

  /** Notes the block sizes at whose edges some round has changed no single byte, so that nobody overrates a pass. */
  noteLeftOut({ note }: { note(text: string): void }): void {
    if (this.#leftOut.size === 0) return;
    const sizes = [...this.#leftOut].sort((a, b) => a - b).join(', ');
    note(
      `a volume of ${this.#sizeBytes} bytes has no room to change single bytes at the edges of blocks of ${sizes} bytes in every round: ` +
        'a driver that ignores such a byte may pass. Choose a larger --volume-size',
    );
  }

  /** Increments one byte, so that a second round before the next snapshot does not restore its value. */
  async #touch(device: FileHandle, offset: number): Promise<void> {
    const bytes = await this.#read(device, offset, 1);
    await this.#write(device, offset, Buffer.from(bytes.map((byte) => byte + 1)));
  }

  /** Offsets of the chunks that are not all zeros. */
  #writtenFrom(from: number): number[] {
    return [...this.#chunks]
      .filter(([index, chunk]) => index * CHUNK_BYTES >= from && !chunk.equals(ZEROS))
      .map(([index]) => index * CHUNK_BYTES);
  }

  /** Writes once. The write is durable when the promise resolves. */
  async write(path: string, offset: number, bytes: Buffer): Promise<void> {
    await this.edit(path, (editor) => editor.write(offset, bytes));
  }

  /** Changes one byte, durably. */
  async increment(path: string, offset: number): Promise<void> {
    await this.#withDevice(path, (device) => this.#touch(device, offset));
  }

  /** Makes changes through one open device. They are durable when the promise resolves, and no earlier flush is asked for. */
  async edit(path: string, change: (editor: BlockEditor) => Promise<void>): Promise<void> {
    await this.#withDevice(path, (device) =>
      change({
        write: (offset, bytes) => this.#write(device, offset, bytes),
        discard: (offset, length) =>
          this.#remember(device, offset, length, async () => {
            await discard(path, offset, length);
            return this.#read(device, offset, length);
          }),
      }),
    );
  }

  async #withDevice(path: string, use: (device: FileHandle) => Promise<void>): Promise<void> {
    const device = await open(path, 'r+');
    try {
      await use(device);
      await device.sync();
    } finally {
      await device.close();
    }
  }

  async #apply(
    device: FileHandle,
    operation: Operation,
    offset: number,
    length: number,
    random: Random,
  ): Promise<void> {
    if (operation === 'write') return this.#write(device, offset, random.bytes(length));
    if (operation === 'zeros') return this.#write(device, offset, Buffer.alloc(length));
    if (operation === 'rewrite') {
      return this.#write(device, offset, await this.#read(device, offset, length));
    }
    const start = offset + 1 + random.below(length / 2);
    return this.#write(device, start, random.bytes(1 + random.below(length / 2 - 1)));
  }

  async #write(device: FileHandle, offset: number, bytes: Buffer): Promise<void> {
    await this.#remember(device, offset, bytes.length, async () => {
      await device.write(bytes, 0, bytes.length, offset);
      return bytes;
    });
  }

  /** Discards a range, or writes zeros if the device takes no discards. */
  async #discard(device: FileHandle, path: string, offset: number, length: number): Promise<void> {
    await this.#remember(device, offset, length, async () => {
      try {
        await device.sync();
        await discard(path, offset, length);
      } catch (thrown) {
        if (!(thrown instanceof CheckSkipped)) throw thrown;
        await device.write(Buffer.alloc(length), 0, length, offset);
      }
      // A discard promises nothing about what is read afterwards.
      return this.#read(device, offset, length);
    });
  }

  /** Runs `change` and records the bytes it returns in the model. */
  async #remember(device: FileHandle, offset: number, length: number, change: () => Promise<Buffer>): Promise<void> {
    const first = Math.floor(offset / CHUNK_BYTES);
    const last = Math.floor((offset + length - 1) / CHUNK_BYTES);
    for (let index = first; index <= last; index += 1) {
      this.#changed.add(index);
      await this.#load(device, index);
    }
    const bytes = await change();
    for (let index = first; index <= last; index += 1) {
      const chunk = this.#writable(index);
      const start = index * CHUNK_BYTES;
      const from = Math.max(offset, start);
      const to = Math.min(offset + length, start + CHUNK_BYTES);
      bytes.copy(chunk, from - start, from - offset, to - offset);
    }
  }

  async #load(device: FileHandle, index: number): Promise<void> {
    if (this.#chunks.has(index)) return;
    const start = index * CHUNK_BYTES;
    const chunk = Buffer.alloc(CHUNK_BYTES);
    const length = Math.min(CHUNK_BYTES, this.#sizeBytes - start);
    (await this.#read(device, start, length)).copy(chunk);
    this.#initial.set(index, chunk);
    this.#chunks.set(index, chunk);
    this.#frozen.add(index);
  }

  #writable(index: number): Buffer {
    const chunk = this.#chunks.get(index) as Buffer;
    if (!this.#frozen.delete(index)) return chunk;
    const copy = Buffer.from(chunk);
    this.#chunks.set(index, copy);
    return copy;
  }

  async #read(device: FileHandle, offset: number, length: number): Promise<Buffer> {
    const bytes = Buffer.alloc(length);
    await readFully(device, bytes, offset, this.#sizeBytes);
    return bytes;
  }
}

/**
 * Throws CheckSkipped if the device takes no discards. A device that says that it takes them and refuses one fails the check.
 * A process of its own opens the device, so what this process has written before may reach the device later.
 */
export async function discard(path: string, offset: number, length: number): Promise<void> {
  const range = ['--offset', `${offset}`, '--length', `${length}`];
  try {
    await run('blkdiscard', ['--force', ...range, path], { env: PROGRAM_PATHS });
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') throw new CheckSkipped('blkdiscard(8) is missing', { cause });
    if (!(await takesDiscards(deviceNumberOf(await stat(path))))) {
      throw new CheckSkipped('the volumes of this driver take no discards', { cause });
    }
    const subject = `a discard of ${length} bytes at ${offset}`;
    throw new ConformanceFailure(subject, 'success, since the device says that it takes discards', messageOf(cause), {
      cause,
    });
  }
}

/** Writes the block to every second place of its size, durably. */
export async function writeComb(path: string, sizeBytes: number, block: Buffer): Promise<void> {
  const device = await open(path, 'r+');
  try {
    const step = 2 * block.length;
    for (let offset = 0; offset + block.length <= sizeBytes; offset += step) {
      await device.write(block, 0, block.length, offset);
    }
    await device.sync();
  } finally {
    await device.close();
  }
}

/** Reads the whole content of a published raw block volume. */
export async function readImage(path: string, sizeBytes: number): Promise<Image> {
  const known = new Map<number, Buffer>();
  const device = await open(path, 'r');
  try {
    for (let start = 0; start < sizeBytes; start += READ_BYTES) {
      const bytes = Buffer.alloc(READ_BYTES);
      await readFully(device, bytes.subarray(0, Math.min(READ_BYTES, sizeBytes - start)), start, sizeBytes);
      for (let offset = 0; offset < READ_BYTES; offset += CHUNK_BYTES) {
        const chunk = bytes.subarray(offset, offset + CHUNK_BYTES);
        if (!chunk.equals(ZEROS)) known.set((start + offset) / CHUNK_BYTES, chunk);
      }
    }
  } finally {
    await device.close();
  }
  return fullImage(sizeBytes, known);
}

/** Fails unless a restored or cloned volume holds the bytes of its source. */
export function expectSameBytes(subject: string, wanted: Image, found: Image): void {
  for (const index of wanted.known.keys()) {
    const before = chunkOf(wanted, index);
    const after = chunkOf(found, index);
    if (before === null || after === null || before.equals(after)) continue;
    const start = index * CHUNK_BYTES;
    throw new ConformanceFailure(
      subject,
      'the bytes of its source',
      `other bytes between ${start} and ${start + CHUNK_BYTES}`,
    );
  }
}

export async function readFully(device: FileHandle, bytes: Buffer, offset: number, sizeBytes: number): Promise<void> {
  let done = 0;
  while (done < bytes.length) {
    const bytesRead = await readAt(device, bytes.subarray(done), offset + done);
    if (bytesRead === 0) {
      throw new ConformanceFailure(
        'the published device',
        `${sizeBytes} bytes, the size that the driver answered`,
        `${await sizeOf(device, offset + done)} bytes`,
      );
    }
    done += bytesRead;
  }
}

/** Returns the number of bytes that were read; 0 at the end of the device and beyond. */
async function readAt(device: FileHandle, bytes: Buffer, offset: number): Promise<number> {
  try {
    return (await device.read(bytes, 0, bytes.length, offset)).bytesRead;
  } catch (error) {
    const found = errorCode(error) ?? String(error);
    throw new ConformanceFailure(`reading the published device at ${offset}`, 'its bytes', found, {
      cause: error,
    });
  }
}

/**
 * Finds the size of a device by reading, because stat does not report the size of a block device.
 *
 * @param beyond an offset at or after the end
 */
async function sizeOf(device: FileHandle, beyond: number): Promise<number> {
  let [low, high] = [0, beyond];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if ((await readAt(device, Buffer.alloc(1), middle)) === 0) high = middle;
    else low = middle + 1;
  }
  return low;
}
