/**
 * Limits the calls that the kernel may not answer for long: a fixed number of places, and one call at a time for each volume.
 *
 * A caller gives up at its deadline and releases its locks, but the kernel answers when it likes: until then the call keeps its
 * thread and its place. A caller that finds no place waits while a call that holds a place has only just begun, because most
 * calls end within moments. After that, the caller is refused and learns which calls hold the places. Knows no method.
 */
import { CsiError } from '../../base/errors.js';

/** Less than the time limit for opening a pool's directories, so that this refusal comes first: it says more. */
const PATIENCE_MS = 4000;
/** How many volumes of one call a message names. */
const NAMED = 3;

export interface PlacesOptions {
  /** What the calls wait for. */
  waitFor: string;
  /** What an operator can do about calls that do not end. */
  remedy: string;
  /** How long a call may take before the callers that wait for its place are refused. */
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
  /** The method, and the object that the call works on if it is for no volume. */
  what: string;
  volumes: readonly string[];
  startedAt: number;
}

export class CallPlaces {
  readonly #calls = new Set<Call>();
  /** The callbacks of callers that wait for a call to end, for its place or in outlast(). */
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

  /** The call for the volume that has not ended; null if there is none. */
  pending(volumeId: string): PendingCall | null {
    const call = this.#callFor([volumeId]);
    return call === undefined ? null : { what: call.what, forMs: this.#now() - call.startedAt };
  }

  /** Waits up to PATIENCE_MS for a call for one of the volumes to end. Returns false if there is none; ABORTED if it stays. */
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

  /** Waits until any call ends, or until that time. Returns false if that time has passed already. */
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
