/**
 * The scan threads as streams use them: shared fairly between pools and clients, with a limit on
 * the memory of large chunks. Knows nothing of gRPC or of the content of a chunk.
 */
import { FairTurns, type Turn } from '../../base/fair-turns.js';
import type { FillRequest } from './addon.js';
import type { NativeFiller } from './pool.js';
import type { FillAnswer } from './worker.js';

/**
 * Limit for the large buffers of all streams. Small buffers are not counted: a stream has at most
 * two.
 */
const MEMORY_BYTES = 12 << 20;

export class ScanThreads {
  readonly #filler: NativeFiller;
  readonly #turns: FairTurns;
  #memory = MEMORY_BYTES;

  /** @param threads number of threads of the filler: it never receives more chunks at once */
  constructor(filler: NativeFiller, threads: number) {
    this.#filler = filler;
    this.#turns = new FairTurns(threads);
  }

  /** How many chunks wait for a thread. */
  get waiting(): number {
    return this.#turns.waiting;
  }

  /**
   * Fills a buffer that is allocated when this turn comes. Rejects with the reason of the turn's
   * signal if the signal is aborted first; a chunk that is already being filled is completed.
   */
  async fill(turn: Turn, request: FillRequest, allocate: () => ArrayBuffer): Promise<FillAnswer> {
    const held = await this.#turns.begin(turn);
    try {
      return await this.#filler.fill(request, allocate());
    } finally {
      this.#turns.end(held);
    }
  }

  /** Reserves memory for a large buffer; releaseMemory() releases it. Returns false if the limit is reached. */
  reserveMemory(bytes: number): boolean {
    if (this.#memory < bytes) return false;
    this.#memory -= bytes;
    return true;
  }

  releaseMemory(bytes: number): void {
    this.#memory += bytes;
  }
}
