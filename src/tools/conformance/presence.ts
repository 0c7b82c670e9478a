/**
 * Finds out whether somebody serves the driver's sockets. A dead driver is detected once, when a call ends with
 * UNAVAILABLE. From then on every call fails at once with the cause, so that a run ends instead of waiting for each
 * call's timeout.
 */
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '../../base/errors.js';

/** A driver in a container is started again within seconds, and a caller keeps trying meanwhile. */
const RESTART_MS = 10_000;
const PAUSE_MS = 200;

export class Presence {
  readonly #gone = new AbortController();
  #asking: Promise<boolean> | null = null;
  #cause: string | null = null;

  readonly #restartMs: number;

  /** @param timeoutMs the timeout of a call, which also limits how long a socket may stay unserved */
  constructor(
    private readonly socketPaths: readonly string[],
    timeoutMs: number,
  ) {
    this.#restartMs = Math.min(RESTART_MS, timeoutMs);
  }

  /** Why the driver is gone; null while the driver is not known to be gone. */
  get cause(): string | null {
    return this.#cause;
  }

  /** Aborted when the driver is known to be gone. */
  get signal(): AbortSignal {
    return this.#gone.signal;
  }

  /**
   * Call this after UNAVAILABLE. Resolves to true when every socket accepts a connection. Resolves to false when a
   * socket has accepted none for the time that a restart may take, and always from then on.
   */
  isThere(): Promise<boolean> {
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = null;
    });
    return this.#asking;
  }

  async #ask(): Promise<boolean> {
    const deadline = Date.now() + this.#restartMs;
    while (this.#cause === null) {
      const problem = await this.#problem();
      if (problem === null) return true;
      if (Date.now() > deadline) {
        this.#cause = `nothing has served ${problem} for ${this.#restartMs / 1000} s`;
        this.#gone.abort();
      } else {
        await delay(PAUSE_MS);
      }
    }
    return false;
  }

  async #problem(): Promise<string | null> {
    for (const path of new Set(this.socketPaths)) {
      const code = await refusalOf(path);
      if (code !== null) return `${path} (${code})`;
    }
    return null;
  }
}

/** Resolves to null if the socket accepts connections, and otherwise to the error. */
function refusalOf(path: string): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(null);
    });
    socket.once('error', (error) => {
      socket.destroy();
      resolve(errorCode(error) ?? error.message);
    });
  });
}
