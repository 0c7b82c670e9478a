/** Writes to a published raw block volume, and records the blocks that it writes between calls of takeWritten. */
import { type FileHandle, open } from 'node:fs/promises';
import type { Random } from '../random.js';

export const BLOCK_BYTES = 4096;
const PIECE_BYTES = 1 << 20;

export class BlockWriter {
  #written = new Set<number>();

  private constructor(
    private readonly file: FileHandle,
    private readonly sizeBytes: number,
    private readonly random: Random,
  ) {}

  static async open(device: string, sizeBytes: number, random: Random): Promise<BlockWriter> {
    return new BlockWriter(await open(device, 'r+'), sizeBytes, random);
  }

  /** Writes every byte, in order and durably. */
  async fill(): Promise<void> {
    const piece = this.#content(PIECE_BYTES);
    for (let offset = 0; offset < this.sizeBytes; offset += PIECE_BYTES) {
      piece.writeDoubleLE(offset, 0);
      await this.file.write(piece, 0, Math.min(PIECE_BYTES, this.sizeBytes - offset), offset);
    }
    await this.file.sync();
  }

  /** Writes `count` different blocks at random places, durably. Each block gets content that no block had before. */
  async writeBlocks(count: number): Promise<void> {
    const blocks = Math.floor(this.sizeBytes / BLOCK_BYTES);
    const content = this.#content(BLOCK_BYTES);
    const chosen = new Set<number>();
    while (chosen.size < Math.min(count, blocks)) chosen.add(this.random.below(blocks));
    for (const block of chosen) {
      content.writeDoubleLE(this.random.unit(), 0);
      content.writeDoubleLE(block, 8);
      await this.file.write(content, 0, BLOCK_BYTES, block * BLOCK_BYTES);
      this.#written.add(block);
    }
    await this.file.sync();
  }

  /** Writes every other block durably, starting with the first. */
  async writeEverySecond(): Promise<void> {
    const content = this.#content(BLOCK_BYTES);
    for (let offset = 0; offset + BLOCK_BYTES <= this.sizeBytes; offset += 2 * BLOCK_BYTES) {
      content.writeDoubleLE(offset, 0);
      await this.file.write(content, 0, BLOCK_BYTES, offset);
    }
    await this.file.sync();
  }

  /** The blocks written since the last call, in ascending order. */
  takeWritten(): number[] {
    const written = [...this.#written].sort((a, b) => a - b);
    this.#written = new Set();
    return written;
  }

  /** Reads the whole volume once, in order. A driver that compares bytes does at least this. */
  async readAll(): Promise<void> {
    const piece = Buffer.alloc(PIECE_BYTES);
    for (let offset = 0; offset < this.sizeBytes; offset += PIECE_BYTES) {
      await this.file.read(piece, 0, PIECE_BYTES, offset);
    }
  }

  async close(): Promise<void> {
    await this.file.close();
  }

  #content(bytes: number): Buffer {
    const content = Buffer.alloc(bytes);
    for (let at = 0; at + 4 <= bytes; at += 4) content.writeUInt32LE(this.random.below(2 ** 32), at);
    return content;
  }
}
