/**
 * A workload that writes the same number to two places, durably to the first before the second: at any time
 * the second holds the number of the first, or the one before.
 */
import assert from 'node:assert/strict';
import { closeSync, constants, openSync, readSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { Disturbance } from './disturbance.js';

/** One page, so that no snapshot holds half a number. */
const RECORD_BYTES = 4096;

export class OrderedWriter {
  /** The last number that was begun in the first place. */
  begun = 0;
  /** The last number that is durable in both. */
  finished = 0;
  #rounds: Disturbance | undefined;

  private constructor(private readonly places: readonly FileHandle[]) {}

  /** Files or devices. Resolves once both hold a number. */
  static async start([first, second]: readonly [string, string]): Promise<OrderedWriter> {
    const flags = constants.O_RDWR | constants.O_CREAT;
    const writer = new OrderedWriter([await open(first, flags), await open(second, flags)]);
    await writer.#round();
    writer.#rounds = new Disturbance(() => writer.#round());
    return writer;
  }

  async stop(): Promise<void> {
    try {
      await this.#rounds?.stop();
    } finally {
      for (const place of this.places) await place.close();
    }
  }

  async #round(): Promise<void> {
    this.begun += 1;
    const record = Buffer.alloc(RECORD_BYTES);
    record.writeUInt32LE(this.begun);
    for (const place of this.places) {
      await place.write(record, 0, RECORD_BYTES, 0);
      await place.datasync();
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
