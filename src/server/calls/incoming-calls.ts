/**
 * Calls before they reach a handler: which connection they belong to, and how much memory incomplete
 * requests take.
 *
 * A few requests are read into memory at a time, and connections take turns. Until its turn, gRPC buffers
 * at most the flow control window of a request (64 KiB). A request that holds its place too long while
 * others wait, or is not complete in time, ends its connection. Knows connections by an interface, and no
 * RPC.
 */
import { Metadata, ServerInterceptingCall, ServerListenerBuilder } from '@grpc/grpc-js';
import { CsiError } from '../../base/errors.js';
import { FairTurns, type Held } from '../../base/fair-turns.js';
import { type CallStatus, statusOf } from './call-status.js';
import { type CallStream, callStreamOf } from './call-stream.js';

type InterceptedCall = ConstructorParameters<typeof ServerInterceptingCall>[0];

export interface CallConnection {
  /** Aborted when the connection is closed. */
  readonly closed: AbortSignal;
  /** Who makes a call of the connection. Throws a CsiError if the connection may not make it. */
  callerOf(metadata: Metadata): object;
  /** A call whose request is complete began, or ended. */
  callBegan(): void;
  callEnded(): void;
  /** Accepts no more calls and closes when the running ones have ended. */
  retire(reason: string): void;
}

export interface CallOrigin {
  /** The same object for all calls of one client: its connection, or what stands for it behind a router. */
  readonly caller: object;
  /** Ends a call whose client does not read, without waiting for it to receive what was written. */
  abandon(status: CallStatus): void;
  /** What carries the call; null if gRPC does not show it. */
  readonly stream: CallStream | null;
}

/** Requests that are read at a time; gRPC limits each to 4 MiB. */
const PLACES = 8;
/** How long a request may hold its place while others wait. */
const TURN_MS = 1000;
/** Incomplete requests of all connections together. */
const MAX_UNFINISHED = 1024;
/** Calls of one connection that ended while their client did not read. */
const MAX_ABANDONED = 8;
/** How often the places are checked while requests are incomplete. */
const WATCH_MS = 250;

/** The metadata of a call with its origin: the one object that an interceptor hands to a handler. */
class ReceivedMetadata extends Metadata {
  constructor(
    received: Metadata,
    readonly origin: CallOrigin,
  ) {
    super();
    this.merge(received);
  }
}

export function originOf(metadata: Metadata): CallOrigin | undefined {
  return metadata instanceof ReceivedMetadata ? metadata.origin : undefined;
}

interface Incoming {
  readonly connection: CallConnection;
  /** Its place among the requests that are being read; null while it waits. */
  place: Held | null;
  state: 'unfinished' | 'running' | 'abandoned' | 'ended';
  refuse(error: CsiError): void;
}

export class IncomingCalls {
  readonly #turns = new FairTurns(PLACES);
  readonly #unfinished = new Set<Incoming>();
  readonly #abandoned = new WeakMap<CallConnection, number>();
  #watch: NodeJS.Timeout | undefined;

  /** @param requestMs how long a request may take to become complete, from the start of its turn */
  constructor(private readonly requestMs: number) {}

  /** Wraps a call of this connection for gRPC. */
  intercept(call: InterceptedCall, connection: CallConnection): ServerInterceptingCall {
    const incoming: Incoming = {
      connection,
      place: null,
      state: 'unfinished',
      refuse: (error) => call.sendStatus(statusOf(error)),
    };
    const listener = new ServerListenerBuilder()
      .withOnReceiveMetadata((metadata, next) => {
        const caller = this.#callerOf(incoming, metadata);
        if (caller === null) return;
        const abandon = (status: CallStatus): void => {
          call.sendStatus(status);
          this.#abandon(incoming);
        };
        next(new ReceivedMetadata(metadata, { caller, stream: callStreamOf(call), abandon }));
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
          // gRPC neither starts nor reports a call that was cancelled meanwhile.
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

  /** Null, with the call refused, if its connection may not make it. */
  #callerOf(incoming: Incoming, metadata: Metadata): object | null {
    try {
      return incoming.connection.callerOf(metadata);
    } catch (thrown) {
      incoming.refuse(CsiError.from(thrown));
      this.#end(incoming);
      return null;
    }
  }

  async #receive(incoming: Incoming, start: () => void): Promise<void> {
    const { connection } = incoming;
    this.#unfinished.add(incoming);
    this.#watch ??= setInterval(() => this.#expire(), WATCH_MS).unref();
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

  /** HTTP/2 keeps the call and its buffered data until the client reads or the connection ends. */
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

  /** Refuses late requests, after the next poll for input: what arrived while the event loop was blocked counts. */
  #expire(): void {
    const now = performance.now();
    setImmediate(() => {
      const limitMs = this.#turns.waiting > 0 ? TURN_MS : this.requestMs;
      for (const incoming of this.#unfinished) {
        // The client does not cause the wait for a turn.
        const heldMs = incoming.place === null ? 0 : now - incoming.place.since;
        if (heldMs <= limitMs) continue;
        this.#refuse(incoming, 'the request was not complete in time; send it again');
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
      this.#refuse(incoming, 'too many incomplete requests on this connection; try again later');
    }
    worst.retire('too many unfinished requests');
  }

  #refuse(incoming: Incoming, message: string): void {
    incoming.refuse(CsiError.unavailable(message));
    this.#end(incoming);
  }
}
