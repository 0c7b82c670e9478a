/**
 * The scan threads as streams see them: shared fairly between pools and clients, and with a bound on the
 * memory of large chunks. Knows nothing of gRPC, nor of what a chunk is.
 */
import { FairTurns, type Turn } from '../base/fair-turns.js';
import type { FillRequest } from './addon.js';
import type { NativeFiller } from './pool.js';
import type { FillAnswer } from './worker.js';

/** For large buffers of all streams together. Small ones are not counted: a stream has two at most. */
const MEMORY_BYTES = 12 << 20;

export class ScanThreads {
  readonly #filler: NativeFiller;
  readonly #turns: FairTurns;
  #memory = MEMORY_BYTES;

  /** @param threads how many the filler has: it is never given more chunks at once */
  constructor(filler: NativeFiller, threads: number) {
    this.#filler = filler;
    this.#turns = new FairTurns(threads);
  }

  /**
   * Fills a buffer, which is made when the turn has come. Rejects with the reason of the turn's signal if
   * that is aborted before; a chunk that is being filled then is filled to its end.
   */
  async fill(turn: Turn, request: FillRequest, allocate: () => ArrayBuffer): Promise<FillAnswer> {
    const held = await this.#turns.begin(turn);
    try {
      return await this.#filler.fill(request, allocate());
    } finally {
      this.#turns.end(held);
    }
  }

  /** Whether there is memory left for large buffers; giveMemory() gives it back. */
  takeMemory(bytes: number): boolean {
    if (this.#memory < bytes) return false;
    this.#memory -= bytes;
    return true;
  }

  giveMemory(bytes: number): void {
    this.#memory += bytes;
  }
}
