/**
 * A workload that writes the same number to two places, durably to the first before the second: at any time
 * the second holds the number of the first, or the one before.
 */
import assert from 'node:assert/strict';
import { closeSync, openSync, readSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from './random.js';

/** One page, so that no snapshot holds half a number. */
const RECORD_BYTES = 4096;

export class OrderedWriter {
  /** The last number that was begun in the first place. */
  begun = 0;
  /** The last number that is durable in both. */
  finished = 0;
  #isStopped = false;
  #done: Promise<void> = Promise.resolve();

  /** Files or devices. `pauseMs`: how long it rests at most between two numbers. */
  static async start(
    paths: readonly [string, string],
    random: Random,
    pauseMs: number,
  ): Promise<OrderedWriter> {
    const writer = new OrderedWriter();
    const files = [await openForWriting(paths[0]), await openForWriting(paths[1])] as const;
    await writer.#round(files);
    writer.#done = writer.#run(files, random, pauseMs);
    // Heard by stop().
    writer.#done.catch(() => undefined);
    return writer;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#done;
  }

  async #run(
    files: readonly [FileHandle, FileHandle],
    random: Random,
    pauseMs: number,
  ): Promise<void> {
    try {
      while (!this.#isStopped) {
        await this.#round(files);
        if (pauseMs > 0) await delay(random.below(pauseMs));
      }
    } finally {
      for (const file of files) await file.close();
    }
  }

  async #round([first, second]: readonly [FileHandle, FileHandle]): Promise<void> {
    this.begun += 1;
    const record = Buffer.alloc(RECORD_BYTES);
    record.writeUInt32LE(this.begun);
    for (const file of [first, second]) {
      await file.write(record, 0, RECORD_BYTES, 0);
      await file.datasync();
    }
    this.finished = this.begun;
  }
}

/** The number in a place; 0 if none was written. */
export function readNumber(path: string): number {
  const record = Buffer.alloc(RECORD_BYTES);
  const file = openSync(path, 'r');
  readSync(file, record, 0, RECORD_BYTES, 0);
  closeSync(file);
  return record.readUInt32LE();
}

/** The numbers of two places in one group snapshot. */
export function assertOneMoment(
  [first, second]: readonly [number, number],
  window: { finishedBefore: number; begunAfter: number },
): void {
  const shown = `${first} in the first place and ${second} in the second`;
  assert.ok(second === first || second === first - 1, `${shown}: not one point in time`);
  assert.ok(second >= window.finishedBefore, `${shown}: ${window.finishedBefore} was durable`);
  assert.ok(first <= window.begunAfter, `${shown}: ${window.begunAfter} was not begun`);
}

async function openForWriting(path: string): Promise<FileHandle> {
  try {
    return await open(path, 'r+');
  } catch {
    return open(path, 'w+');
  }
}
