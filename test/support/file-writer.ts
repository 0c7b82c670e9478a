/**
 * A workload that changes files at random on a mounted volume without syncing, and a model of each file.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, openSync, readdirSync, readFileSync, rmSync, truncateSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Random } from './random.js';

const FILES = 12;
const LARGEST_FILE = 3 << 20;
/** One file to work on: its name, what it holds, and how many bytes to work with. */
interface Work {
  name: string;
  held: Buffer;
  length: number;
}

export class FileWriter {
  readonly #files = new Map<string, Buffer>();
  readonly #operations: readonly ((work: Work) => void)[] = [
    (work) => this.#overwrite(work, this.random.bytes(work.length)),
    (work) => this.#overwrite(work, this.random.bytes(work.length)),
    (work) => this.#overwrite(work, this.random.bytes(work.length)),
    (work) => this.#overwrite(work, Buffer.alloc(work.length, 'text ')),
    ({ name, held, length }) => this.#write(name, held.length, this.random.bytes(length)),
    ({ name, held, length }) => this.#write(name, held.length, this.random.bytes(length)),
    ({ name }) => this.#delete(name),
    ({ name, held }) => this.#truncate(name, held, this.random.below(held.length + 1)),
    ({ name, held, length }) => this.#fallocate(name, ['--keep-size', '-l', `${held.length + 4 * length}`]),
    ({ name, held, length }) => this.#punch(name, held, length),
    () => execFileSync('fstrim', [this.directory]),
  ];

  constructor(
    readonly directory: string,
    private readonly random: Random,
  ) {}

  randomOperation(): void {
    const name = `file-${this.random.below(FILES)}`;
    const held = this.#files.get(name) ?? Buffer.alloc(0);
    const length = this.random.pick([100, 1024, 4096, 10_000, 65_536, 300_000]);
    this.random.pick(this.#operations)({ name, held, length });
  }

  /** What the files hold now. Buffers are never changed in place, so a copy of the map is a copy. */
  remember(): ReadonlyMap<string, Buffer> {
    return new Map(this.#files);
  }

  #overwrite({ name, held }: Work, bytes: Buffer): void {
    this.#write(name, this.random.below(held.length + 1), bytes);
  }

  #write(name: string, offset: number, bytes: Buffer): void {
    if (offset + bytes.length > LARGEST_FILE) {
      this.#delete(name);
      return;
    }
    const held = this.#files.get(name) ?? Buffer.alloc(0);
    const fd = openSync(join(this.directory, name), held.length === 0 ? 'w' : 'r+');
    try {
      writeSync(fd, bytes, 0, bytes.length, offset);
    } finally {
      closeSync(fd);
    }
    const content = Buffer.alloc(Math.max(held.length, offset + bytes.length));
    held.copy(content);
    bytes.copy(content, offset);
    this.#files.set(name, content);
  }

  #delete(name: string): void {
    rmSync(join(this.directory, name), { force: true });
    this.#files.delete(name);
  }

  #truncate(name: string, held: Buffer, length: number): void {
    if (!this.#files.has(name)) return;
    truncateSync(join(this.directory, name), length);
    this.#files.set(name, Buffer.from(held.subarray(0, length)));
  }

  #fallocate(name: string, options: string[]): void {
    if (!this.#files.has(name)) return;
    execFileSync('fallocate', [...options, join(this.directory, name)]);
  }

  #punch(name: string, held: Buffer, length: number): void {
    if (held.length <= length) return;
    const offset = this.random.below(held.length - length);
    this.#fallocate(name, ['--punch-hole', '-o', `${offset}`, '-l', `${length}`]);
    this.#files.set(name, Buffer.from(held).fill(0, offset, offset + length));
  }
}

/** Fails unless the directory holds exactly these files. */
export function assertFiles(directory: string, files: ReadonlyMap<string, Buffer>): void {
  const found = readdirSync(directory).filter((name) => name !== 'lost+found');
  assert.deepEqual(found.sort(), [...files.keys()].sort());
  for (const [name, content] of files) {
    assert.ok(readFileSync(join(directory, name)).equals(content), `${name} has other bytes`);
  }
}
