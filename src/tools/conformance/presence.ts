/**
 * Whether somebody serves the driver's sockets. A driver that has died is found out once, when a call says
 * UNAVAILABLE, and from then on every call fails at once with the cause, so that a run ends instead of waiting
 * for each call's timeout.
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

  /** @param timeoutMs of a call: nobody may serve a socket for that long at most */
  constructor(
    private readonly socketPaths: readonly string[],
    timeoutMs: number,
  ) {
    this.#restartMs = Math.min(RESTART_MS, timeoutMs);
  }

  /** What is wrong; null as long as the driver is there, or not known to be gone. */
  get cause(): string | null {
    return this.#cause;
  }

  /** Aborted when the driver is known to be gone. */
  get signal(): AbortSignal {
    return this.#gone.signal;
  }

  /**
   * After a call that was UNAVAILABLE. Resolves when every socket accepts a connection, or none did for the time
   * that a restart may take; false in that case, for good.
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

/** Null: it accepts connections. */
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
