/**
 * Calls before they reach a handler: the connection of each call, and the memory that incomplete requests take.
 *
 * Only a few requests are read into memory at a time, and connections take turns. While a request waits for its turn, gRPC
 * buffers at most its flow control window (64 KiB). A request that holds its place too long while others wait, or that is not
 * complete in time, ends its connection. Knows connections through an interface, and no RPC.
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
  /** The client that makes a call. Throws a CsiError if the connection may not make this call. */
  callerOf(metadata: Metadata): object;
  /** Reports that a call whose request is complete has begun. callEnded() reports its end. */
  callBegan(): void;
  callEnded(): void;
  /** Accepts no more calls, and closes the connection when the running calls have ended. */
  retire(reason: string): void;
}

export interface CallOrigin {
  /** The same object for all calls of one client: its connection, or an object for one client behind a router. */
  readonly caller: object;
  /** Ends a call whose client does not read. Does not wait until the client has received what was written. */
  abandon(status: CallStatus): void;
  /** The HTTP/2 stream that carries the call; null if gRPC does not reveal it. */
  readonly stream: CallStream | null;
}

/** How many requests are read at a time, and in one turn of the event loop. gRPC limits each request to 4 MiB. */
const PLACES = 8;
/** How long a request may hold its place while others wait. */
const TURN_MS = 1000;
/** Limit of incomplete requests of all connections together. */
const MAX_UNFINISHED = 1024;
/** Limit of calls of one connection that ended while their client did not read. */
const MAX_ABANDONED = 8;
/** How often the places are checked while requests are incomplete. */
const WATCH_MS = 250;

/** The metadata of a call with the call's origin: the only object that an interceptor can hand to a handler. */
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
  /** The place of the request among those that are being read; null while the request waits. */
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

  /** Finds the caller. Refuses the call and returns null if its connection may not make the call. */
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
    const { place } = incoming;
    // HTTP/2 passes on all calls of one read at once. Calls of other connections may arrive before the next ones begin.
    if (place !== null) setImmediate(() => this.#turns.end(place));
  }

  /** Refuses late requests. Polls for input first, so that data which arrived while the event loop was blocked counts. */
  #expire(): void {
    const now = performance.now();
    setImmediate(() => {
      const limitMs = this.#turns.waiting > 0 ? TURN_MS : this.requestMs;
      for (const incoming of this.#unfinished) {
        // The client does not cause the wait for a turn.
        const heldMs = incoming.place === null ? 0 : now - incoming.place.since;
        if (heldMs <= limitMs) continue;
        const reason = 'a request was not complete in time';
        this.#retire(incoming.connection, reason, 'the request was not complete in time; send it again');
      }
    });
  }

  /** Retires the connection with the most unfinished requests. */
  #retireWorst(): void {
    const counts = new Map<CallConnection, number>();
    for (const { connection } of this.#unfinished) {
      counts.set(connection, (counts.get(connection) ?? 0) + 1);
    }
    const [worst] = [...counts].sort(([, a], [, b]) => b - a)[0] ?? [];
    if (worst === undefined) return;
    this.#retire(
      worst,
      'too many unfinished requests',
      'too many incomplete requests on this connection; try again later',
    );
  }

  /** Refuses all requests of the connection that are not complete: they would end with it without a status. */
  #retire(connection: CallConnection, reason: string, message: string): void {
    for (const incoming of this.#unfinished) {
      if (incoming.connection !== connection) continue;
      incoming.refuse(CsiError.unavailable(message));
      this.#end(incoming);
    }
    connection.retire(reason);
  }
}
