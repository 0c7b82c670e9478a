/**
 * A workload that writes to a raw block volume at random, and a model of the device's content.
 *
 * Writes go through the page cache of the device and are never synced. The device stays open for as
 * long as the writer lives, because the last close of a block device writes it out.
 */
import { execFileSync } from 'node:child_process';
import { closeSync, openSync, readSync, writeSync } from 'node:fs';
import { blockDiscard, blockZeroOut } from './ioctls.js';
import type { Random } from './random.js';

export type BlockOperation =
  | 'write'
  | 'compressible'
  | 'rewrite'
  | 'zeros'
  | 'discard'
  | 'zero-out'
  | 'punch'
  | 'zero-range';

export const BLOCK_OPERATIONS: readonly BlockOperation[] = [
  'write',
  'write',
  'write',
  'compressible',
  'compressible',
  'rewrite',
  'zeros',
  'discard',
  'zero-out',
  'punch',
  'zero-range',
];

/** Without those that turn off compression in the file below (facts: preallocation does). */
export const COMPRESSIBLE_OPERATIONS: readonly BlockOperation[] = [
  'write',
  'compressible',
  'compressible',
  'compressible',
  'compressible',
  'rewrite',
  'zeros',
];

const SECTOR_BYTES = 512;
const LENGTHS = [512, 1024, 2048, 4096, 4096, 4096, 8192, 12288, 65536, 262144];

export class BlockWriter {
  /** What the device holds. */
  readonly model: Buffer;
  readonly #fd: number;
  #closed = false;
  readonly #operations: Readonly<Record<BlockOperation, (offset: number, length: number) => void>> = {
    write: (offset, length) => this.write(this.random.pick([0, 1, 7]) + offset, this.random.bytes(length - 8)),
    compressible: (offset, length) => this.write(offset, Buffer.alloc(length, `${this.random.below(1e9)} lines `)),
    rewrite: (offset, length) => this.write(offset, Buffer.from(this.model.subarray(offset, offset + length))),
    zeros: (offset, length) => this.write(offset, Buffer.alloc(length)),
    discard: (offset, length) => {
      blockDiscard(this.#fd, offset, length);
      // A discard promises nothing about what is read afterwards.
      readSync(this.#fd, this.model, offset, length, offset);
    },
    'zero-out': (offset, length) => {
      blockZeroOut(this.#fd, offset, length);
      this.model.fill(0, offset, offset + length);
    },
    punch: (offset, length) => this.#fallocate('--punch-hole', offset, length),
    'zero-range': (offset, length) => this.#fallocate('--zero-range', offset, length),
  };

  constructor(
    readonly devicePath: string,
    sizeBytes: number,
    private readonly random: Random,
  ) {
    this.model = Buffer.alloc(sizeBytes);
    this.#fd = openSync(devicePath, 'r+');
    readSync(this.#fd, this.model, 0, sizeBytes, 0);
  }

  /** As often as one likes. An open device keeps its volume from being unpublished. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    closeSync(this.#fd);
  }

  randomOperation(operations: readonly BlockOperation[]): void {
    const length = Math.min(this.random.pick(LENGTHS), this.model.length);
    const grain = this.random.pick([SECTOR_BYTES, 4096]);
    const places = Math.floor((this.model.length - length) / grain) + 1;
    const offset = this.random.below(places) * grain;
    this.apply(this.random.pick(operations), offset, length);
  }

  randomOperations(count: number, operations: readonly BlockOperation[]): void {
    for (let done = 0; done < count; done += 1) this.randomOperation(operations);
  }

  apply(operation: BlockOperation, offset: number, length: number): void {
    this.#operations[operation](offset, length);
  }

  write(offset: number, bytes: Buffer): void {
    writeSync(this.#fd, bytes, 0, bytes.length, offset);
    bytes.copy(this.model, offset);
  }

  #fallocate(mode: string, offset: number, length: number): void {
    execFileSync('fallocate', [mode, '-o', `${offset}`, '-l', `${length}`, this.devicePath]);
    this.model.fill(0, offset, offset + length);
  }
}
