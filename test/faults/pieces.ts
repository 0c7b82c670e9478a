/**
 * A mounted volume in many pieces, which is cloned ahead of the freeze on XFS, and out of a copy of its subvolume on
 * btrfs. A process writes the numbers from 1 to the blocks of a file, one after the other: each snapshot must show
 * one point in time, at which every block holds the last number that was written to it. The writer is held still
 * while the plugin takes its steps, because what it writes meanwhile is cloned once more.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Contents, writeDurably } from '../support/contents.js';
import type { Scene } from './scene.js';

/** Cloning in pieces begins at 1000 extents on XFS and 10,000 on btrfs, where a piece has 16,384. */
const PIECES = { xfs: 2000, btrfs: 18_000 };
const BLOCK_BYTES = 4096;
const BLOCKS = 512;
const FILE = 'numbers';
/** After this a writer counts as blocked permanently, so that a failing test ends. */
const NEVER_MS = 60_000;

/** Every few numbers are made durable, so that the others wait in the page cache. */
const PROGRAM = `
  const fs = require('node:fs');
  const fd = fs.openSync(process.argv[1], 'r+');
  const block = Buffer.alloc(${BLOCK_BYTES});
  for (let number = 1; ; number += 1) {
    new Uint32Array(block.buffer, block.byteOffset).fill(number);
    fs.writeSync(fd, block, 0, ${BLOCK_BYTES}, (number % ${BLOCKS}) * ${BLOCK_BYTES});
    if (number % 8 === 0) fs.fdatasyncSync(fd);
    fs.writeSync(1, '.');
  }
`;

export async function settleInPieces(scene: Scene): Promise<void> {
  const volume = await scene.volume('xfs');
  const target = await scene.orchestrator.bringUp(volume);
  await writePieces(join(target, 'pieces'), PIECES[scene.kind === 'btrfs' ? 'btrfs' : 'xfs']);
  const zeros = Buffer.alloc(BLOCKS * BLOCK_BYTES);
  await writeDurably(join(target, FILE), 'wx', (file) => file.write(zeros));
  const contents = new Numbers(target);
  scene.atEnd(() => contents.stop());
  await contents.goOn();
  scene.residents.push({ kind: 'xfs', volume, contents, goOn: () => contents.goOn() });
}

/** Writes every second block of a new file, so that each is a piece of its own in the file below. */
async function writePieces(path: string, pieces: number): Promise<void> {
  await writeDurably(path, 'wx', async (file) => {
    execFileSync('fallocate', ['--length', String(2 * pieces * BLOCK_BYTES), path]);
    const block = Buffer.alloc(BLOCK_BYTES, 1);
    for (let index = 0; index < pieces; index += 1) {
      await file.write(block, 0, BLOCK_BYTES, 2 * index * BLOCK_BYTES);
    }
  });
}

class Numbers implements Contents {
  readonly #child: ChildProcess;
  /** The last number that was written, in the page cache at least. */
  #finished = 0;
  #atLeast = 0;

  constructor(private readonly directory: string) {
    this.#child = spawn(process.execPath, ['-e', PROGRAM, join(directory, FILE)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#child.stdout?.on('data', (chunk: Buffer) => {
      this.#finished += chunk.length;
    });
  }

  /** Resolves after two more numbers are durable: the first may have been in flight. Fails if it stays blocked. */
  async goOn(): Promise<void> {
    this.#child.kill('SIGCONT');
    const enough = this.#finished + 16;
    for (const begun = performance.now(); this.#finished < enough; await delay(5)) {
      assert.equal(this.#child.exitCode, null, `${this.directory} cannot be written to`);
      assert.ok(performance.now() - begun < NEVER_MS, `${this.directory} stays frozen`);
    }
  }

  /** Some numbers more, and no others until the writer goes on; everything on the file system is durable then. */
  async work(): Promise<void> {
    await this.goOn();
    this.#child.kill('SIGSTOP');
    execFileSync('sync', ['--file-system', this.directory]);
    this.#atLeast = this.#finished;
  }

  async verify(target: string): Promise<void> {
    const bytes = readFileSync(join(target, FILE));
    const last = lastNumber(bytes);
    for (let block = 0; block < BLOCKS; block += 1) {
      const wanted = last - ((last - block) % BLOCKS);
      const expected = new Uint32Array(BLOCK_BYTES / 4).fill(last < block ? 0 : wanted);
      const found = bytes.subarray(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES);
      const shown = `block ${block} of ${target}/${FILE} begins with ${found.readUInt32LE()}`;
      assert.ok(found.equals(new Uint8Array(expected.buffer)), `${shown}, and the last number is ${last}`);
    }
    const begun = lastNumber(readFileSync(join(this.directory, FILE)));
    const isPossible = this.#atLeast <= last && last <= begun;
    assert.ok(isPossible, `${last} is the last of ${this.#atLeast} to ${begun}`);
  }

  grow(): void {}

  copy(): Contents {
    return this;
  }

  disturb(): never {
    throw new Error('the writer disturbs enough');
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'close');
    this.#child.kill('SIGKILL');
    // If the test has failed: a process blocked on a frozen file system cannot be killed.
    const thaw = setTimeout(() => spawnSync('fsfreeze', ['--unfreeze', this.directory]), 1000);
    await ended;
    clearTimeout(thaw);
  }
}

function lastNumber(bytes: Buffer): number {
  let last = 0;
  for (let at = 0; at < bytes.length; at += BLOCK_BYTES) last = Math.max(last, bytes.readUInt32LE(at));
  return last;
}
