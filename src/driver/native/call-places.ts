/**
 * Places for calls that the kernel may not answer for long: so many at once, and one for each volume.
 *
 * Callers give up at their deadlines, and their locks go with them, but the kernel answers when it likes: until then a
 * call keeps its thread and its place. Whoever finds no place waits while a call that holds one has only just begun,
 * because most end within moments; then it is refused, and learns what holds the places. Knows no method.
 */
import { CsiError } from '../../base/errors.js';

/** Less than the time for opening a pool's directories: the refusal comes first, and says more. */
const PATIENCE_MS = 4000;
/** How many volumes of one call a message names. */
const NAMED = 3;

export interface PlacesOptions {
  /** What the calls wait for. */
  waitFor: string;
  /** What an operator can do about calls that do not end. */
  remedy: string;
  /** How long a call may take before those that wait for its place are refused. */
  patienceMs?: number;
  /** A clock that never goes back, ms. */
  now?: () => number;
}

export interface PendingCall {
  /** The method. */
  what: string;
  /** How long it has run. */
  forMs: number;
}

interface Call {
  /** The method, and what it works on if that is no volume. */
  what: string;
  volumes: readonly string[];
  startedAt: number;
}

export class CallPlaces {
  readonly #calls = new Set<Call>();
  /** Calls without a place: they look again when another one ends. */
  readonly waiting = new Set<() => void>();
  readonly #now: () => number;

  constructor(
    private readonly places: number,
    private readonly options: PlacesOptions,
  ) {
    this.#now = options.now ?? (() => performance.now());
  }

  /**
   * Runs `work` in a place. A call for several volumes, such as those of a group, takes one place. ABORTED if a call for
   * one of the volumes has not ended, or if all places are held by calls that do not end.
   */
  async hold<T>(what: string, volumes: readonly string[], work: () => Promise<T>): Promise<T> {
    for (;;) {
      const earlier = this.#callFor(volumes);
      if (earlier !== undefined) throw this.#refusal('an earlier call has not ended', [earlier]);
      if (this.#calls.size < this.places) break;
      const youngest = Math.max(...[...this.#calls].map(({ startedAt }) => startedAt));
      if (await this.#anEnd(youngest + (this.options.patienceMs ?? PATIENCE_MS))) continue;
      throw this.#refusal(`busy with ${this.#calls.size} calls`, [...this.#calls]);
    }
    const call = { what, volumes, startedAt: this.#now() };
    this.#calls.add(call);
    try {
      return await work();
    } finally {
      this.#calls.delete(call);
      for (const lookAgain of [...this.waiting]) lookAgain();
    }
  }

  /** The call for the volume that has not ended; null: there is none. */
  pending(volumeId: string): PendingCall | null {
    const call = this.#callFor([volumeId]);
    return call === undefined ? null : { what: call.what, forMs: this.#now() - call.startedAt };
  }

  /** Waits a moment for the end of a call for one of the volumes. False: there is none. ABORTED if it does not end. */
  async outlast(volumes: readonly string[]): Promise<boolean> {
    const call = this.#callFor(volumes);
    if (call === undefined) return false;
    const until = this.#now() + PATIENCE_MS;
    while (this.#calls.has(call)) {
      if (!(await this.#anEnd(until))) throw this.#refusal('an earlier call has not ended', [call]);
    }
    return true;
  }

  #callFor(volumes: readonly string[]): Call | undefined {
    return [...this.#calls].find((call) => call.volumes.some((id) => volumes.includes(id)));
  }

  /** Waits for the end of a call. False: the time is over. */
  async #anEnd(until: number): Promise<boolean> {
    const leftMs = until - this.#now();
    if (leftMs <= 0) return false;
    await new Promise<void>((resolve) => {
      const lookAgain = (): void => {
        clearTimeout(timer);
        this.waiting.delete(lookAgain);
        resolve();
      };
      const timer = setTimeout(lookAgain, leftMs);
      this.waiting.add(lookAgain);
    });
    return true;
  }

  #refusal(why: string, calls: readonly Call[]): CsiError {
    const { waitFor, remedy } = this.options;
    const described = calls.map(({ what, volumes, startedAt }) => {
      const seconds = Math.floor((this.#now() - startedAt) / 1000);
      const named = [...volumes.slice(0, NAMED), ...(volumes.length > NAMED ? ['others'] : [])];
      return `${what}${named.length > 0 ? ` of ${named.join(', ')}` : ''} for ${seconds} s`;
    });
    return CsiError.aborted(
      `${why} (${described.join('; ')}), which wait for ${waitFor}: ${remedy}; try again afterwards`,
    );
  }
}
