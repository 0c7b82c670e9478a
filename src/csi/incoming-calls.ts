/**
 * Calls before they reach a handler: whose they are, and how much of unfinished requests is held.
 *
 * A request is read into memory only in its turn, a few at a time and connections in turn; until then
 * gRPC holds at most its flow control window (64 KiB) of it. A request that keeps its place too long
 * while others wait, or does not become complete in time at all, ends its connection: what is half
 * sent gives way to what is whole. Knows connections by an interface, and no RPC.
 */
import { type Metadata, ServerInterceptingCall, ServerListenerBuilder } from '@grpc/grpc-js';
import { CsiError } from '../base/errors.js';
import { FairTurns, type Held } from '../base/fair-turns.js';
import { type CallStatus, statusOf } from './handler.js';

type InterceptedCall = ConstructorParameters<typeof ServerInterceptingCall>[0];

/** What this file needs of a connection. */
export interface CallConnection {
  /** Aborted when the connection is gone. */
  readonly closed: AbortSignal;
  /** A call with a whole request began, or ended. */
  callBegan(): void;
  callEnded(): void;
  /** Takes no more calls and ends when those that run have ended. */
  retire(reason: string): void;
}

/** Where a call came from, for its handler. */
export interface CallOrigin {
  readonly connection: object;
  /** Ends a call whose client does not read, without waiting until it has what was written. */
  abandon(status: CallStatus): void;
}

/** Requests that are read at a time; each may be as large as gRPC lets it be (4 MiB). */
const PLACES = 8;
/** How long one may keep its place while others wait. */
const TURN_MS = 1000;
/** Requests that are not complete, of all connections together. */
const MAX_UNFINISHED = 1024;
/** Of one connection: calls that ended while their client did not read. */
const MAX_ABANDONED = 8;
/** How often places are looked at while requests are unfinished. */
const WATCH_MS = 250;

/** By the metadata of the call: the one object that an interceptor and a handler both see. */
const origins = new WeakMap<Metadata, CallOrigin>();

export function originOf(metadata: Metadata): CallOrigin | undefined {
  return origins.get(metadata);
}

interface Incoming {
  readonly connection: CallConnection;
  /** Its place among those that are read; null while it waits. */
  place: Held | null;
  state: 'unfinished' | 'running' | 'abandoned' | 'ended';
  refuse(error: CsiError): void;
}

export class IncomingCalls {
  readonly #requestMs: number;
  readonly #turns = new FairTurns(PLACES);
  readonly #unfinished = new Set<Incoming>();
  readonly #abandoned = new WeakMap<CallConnection, number>();
  #watch: NodeJS.Timeout | undefined;

  /** @param requestMs how long a request may take to become complete, from its turn on */
  constructor(requestMs: number) {
    this.#requestMs = requestMs;
  }

  /** The call as gRPC shall see it. */
  intercept(call: InterceptedCall, connection: CallConnection): ServerInterceptingCall {
    const incoming: Incoming = {
      connection,
      place: null,
      state: 'unfinished',
      refuse: (error) => call.sendStatus(statusOf(error)),
    };
    const listener = new ServerListenerBuilder()
      .withOnReceiveMetadata((metadata, next) => {
        origins.set(metadata, {
          connection,
          abandon: (status) => {
            call.sendStatus(status);
            this.#abandon(incoming);
          },
        });
        next(metadata);
      })
      .withOnReceiveHalfClose((next) => {
        this.#complete(incoming);
        next();
      })
      .withOnCancel(() => this.#end(incoming))
      .build();
    return new ServerInterceptingCall(call, {
      start: (next) => {
        let isStarted = false;
        const start = (): void => {
          next({
            ...listener,
            onReceiveMetadata: (metadata, pass) => {
              isStarted = true;
              listener.onReceiveMetadata?.(metadata, pass);
            },
          });
          // gRPC does not start a call that was cancelled meanwhile, nor tell of it.
          if (!isStarted) this.#end(incoming);
        };
        void this.#receive(incoming, start);
      },
      sendStatus: (status, next) => {
        this.#end(incoming);
        next(status);
      },
    });
  }

  async #receive(incoming: Incoming, start: () => void): Promise<void> {
    const { connection } = incoming;
    this.#unfinished.add(incoming);
    this.#watch ??= setInterval(() => this.#look(), WATCH_MS).unref();
    if (this.#unfinished.size > MAX_UNFINISHED) this.#retireWorst();
    let held: Held;
    try {
      held = await this.#turns.begin({ group: '', peer: connection, signal: connection.closed });
    } catch {
      this.#end(incoming);
      return;
    }
    if (incoming.state !== 'unfinished') {
      this.#turns.end(held);
      return;
    }
    incoming.place = held;
    start();
  }

  #complete(incoming: Incoming): void {
    if (incoming.state !== 'unfinished') return;
    this.#leave(incoming);
    incoming.state = 'running';
    incoming.connection.callBegan();
  }

  #end(incoming: Incoming): void {
    const { state, connection } = incoming;
    incoming.state = 'ended';
    if (state === 'unfinished') this.#leave(incoming);
    if (state === 'running') connection.callEnded();
    if (state === 'abandoned') this.#countAbandoned(connection, -1);
  }

  /** HTTP/2 keeps the call with what it has taken of it until the client reads, or the connection ends. */
  #abandon(incoming: Incoming): void {
    const { connection } = incoming;
    this.#end(incoming);
    incoming.state = 'abandoned';
    if (this.#countAbandoned(connection, 1) > MAX_ABANDONED) {
      connection.retire('its client does not read');
    }
  }

  #countAbandoned(connection: CallConnection, change: number): number {
    const count = (this.#abandoned.get(connection) ?? 0) + change;
    this.#abandoned.set(connection, count);
    return count;
  }

  #leave(incoming: Incoming): void {
    this.#unfinished.delete(incoming);
    if (this.#unfinished.size === 0) {
      clearInterval(this.#watch);
      this.#watch = undefined;
    }
    if (incoming.place !== null) this.#turns.end(incoming.place);
  }

  /** After the next poll for input, so that what came while this process was held up counts. */
  #look(): void {
    const now = performance.now();
    setImmediate(() => {
      const limitMs = this.#turns.waiting > 0 ? TURN_MS : this.#requestMs;
      for (const incoming of this.#unfinished) {
        // While it waits for its turn the delay is not the client's.
        const heldMs = incoming.place === null ? 0 : now - incoming.place.since;
        if (heldMs <= limitMs) continue;
        this.#refuse(incoming, 'the request was not complete in time; send it again, whole');
        incoming.connection.retire('a request was not complete in time');
      }
    });
  }

  /** The connection with the most unfinished requests. */
  #retireWorst(): void {
    const counts = new Map<CallConnection, number>();
    for (const { connection } of this.#unfinished) {
      counts.set(connection, (counts.get(connection) ?? 0) + 1);
    }
    const [worst] = [...counts].sort(([, a], [, b]) => b - a)[0] ?? [];
    if (worst === undefined) return;
    for (const incoming of this.#unfinished) {
      if (incoming.connection !== worst) continue;
      this.#refuse(incoming, 'too many requests are being sent at once; try again later');
    }
    worst.retire('too many unfinished requests');
  }

  #refuse(incoming: Incoming, message: string): void {
    incoming.refuse(CsiError.unavailable(message));
    this.#end(incoming);
  }
}
