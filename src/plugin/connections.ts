/**
 * The connections to the plugin's socket: how many there may be, which of them give way, and how they
 * end. gRPC is given one when its client has said something.
 *
 * Idle connections are kept: sidecars hold one for hours and end themselves when it is closed. Only when
 * the limit is reached does the one give way that is of least use: first those that never made a call, the
 * oldest of them first, then the one whose last call is the longest ago. Whoever is closed that way is
 * told (GOAWAY), so that its client connects again. Knows nothing of services.
 */
import { setMaxListeners } from 'node:events';
import { createServer, type Server as Listener, type Socket } from 'node:net';
import {
  type Server as GrpcServer,
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptor,
} from '@grpc/grpc-js';
import type { Logger } from 'pino';
import { type CallConnection, IncomingCalls } from '../csi/incoming-calls.js';

/** How long a last answer has to reach a client whose connection is being ended. */
const POLITE_MS = 200;

type Injector = ReturnType<GrpcServer['createConnectionInjector']>;

export interface ConnectionsOptions {
  /** How many there may be at once. */
  limit: number;
  logger: Logger;
  /** How long a new client may be silent, and how long a request may take to become complete. */
  requestMs?: number;
}

const REQUEST_MS = 20_000;

export class Connections {
  readonly #limit: number;
  readonly #log: Logger;
  readonly #requestMs: number;
  readonly #incoming: IncomingCalls;
  readonly #open = new Map<number, Connection>();
  #listener: Listener | null = null;
  #count = 0;
  #closed: (() => void) | null = null;

  constructor({ limit, logger, requestMs }: ConnectionsOptions) {
    this.#limit = limit;
    this.#log = logger;
    this.#requestMs = requestMs ?? REQUEST_MS;
    this.#incoming = new IncomingCalls(this.#requestMs);
  }

  get size(): number {
    return this.#open.size;
  }

  /** For the gRPC server that is given the connections: it counts the calls of each. */
  readonly interceptor: ServerInterceptor = (_method, call) => {
    const connection = this.#open.get(call.getConnectionInfo().remotePort ?? 0);
    if (connection === undefined) return new ServerInterceptingCall(call);
    return this.#incoming.intercept(call, connection);
  };

  /** Resolves when the socket is there; rejects if it cannot be bound. */
  async listen(path: string, grpc: GrpcServer): Promise<void> {
    const listener = createServer((socket) => this.#accept(socket, grpc));
    await new Promise<void>((resolve, reject) => {
      listener.once('error', reject);
      listener.listen(path, () => {
        listener.off('error', reject);
        resolve();
      });
    });
    // Such as no file descriptors left: the next client may have more luck.
    listener.on('error', (error) => this.#log.warn({ err: error }, 'a client was not accepted'));
    this.#listener = listener;
  }

  /** Accepts no more, and ends those without calls at once, the others after their last call. */
  stop(): void {
    this.#listener?.close();
    this.#listener = null;
    for (const connection of this.#open.values()) connection.retire();
  }

  /** Resolves when all are gone. */
  closed(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#closed = resolve;
    });
  }

  /** Ends those that are left, whatever they do. */
  destroy(): void {
    for (const connection of this.#open.values()) connection.destroy();
  }

  #accept(socket: Socket, grpc: GrpcServer): void {
    socket.on('error', () => undefined);
    if (this.#open.size >= this.#limit && !this.#makeRoom()) {
      this.#log.warn(
        { limit: this.#limit },
        'a client was turned away: all connections are in use',
      );
      socket.destroy();
      return;
    }
    this.#count += 1;
    const number = this.#count;
    const connection = new Connection(socket, number, this.#log);
    this.#open.set(number, connection);
    socket.once('close', () => {
      this.#open.delete(number);
      if (this.#open.size === 0) this.#closed?.();
    });
    connection.start(grpc, this.#requestMs);
  }

  /** Whether one gave way. */
  #makeRoom(): boolean {
    let least: Connection | null = null;
    for (const connection of this.#open.values()) {
      if (connection.isBusy) continue;
      if (least === null || connection.lastUse < least.lastUse) least = connection;
    }
    least?.retire('the limit of connections is reached');
    return least !== null;
  }
}

class Connection implements CallConnection {
  readonly #socket: Socket;
  readonly #log: Logger;
  readonly #closed = new AbortController();
  #injector: Injector | null = null;
  #running = 0;
  #isRetiring = false;
  /**
   * When its last call ended. Below zero as long as it has made none: those come before all others, the
   * oldest first.
   */
  lastUse: number;

  constructor(socket: Socket, number: number, log: Logger) {
    this.#socket = socket;
    this.#log = log;
    this.lastUse = number - Number.MAX_SAFE_INTEGER;
    // One for each of its calls that wait for their turn.
    setMaxListeners(0, this.#closed.signal);
    // A Unix socket's client has no address. This one is what gRPC tells of the calls of a connection.
    Object.defineProperty(socket, 'remoteAddress', { value: 'unix' });
    Object.defineProperty(socket, 'remotePort', { value: number });
  }

  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  /** Whether a call with a whole request runs, or it gives way already. */
  get isBusy(): boolean {
    return this.#running > 0 || this.#isRetiring;
  }

  /** Until its client has said something a connection costs its socket and nothing else. */
  start(grpc: GrpcServer, firstBytesMs: number): void {
    const socket = this.#socket;
    const timer = setTimeout(() => socket.destroy(), firstBytesMs);
    timer.unref();
    socket.once('close', () => {
      clearTimeout(timer);
      this.#closed.abort();
      this.#injector?.destroy();
    });
    socket.once('readable', () => {
      clearTimeout(timer);
      if (this.#isRetiring || socket.readableLength === 0) {
        socket.destroy();
        return;
      }
      this.#injector = grpc.createConnectionInjector(ServerCredentials.createInsecure());
      this.#injector.injectConnection(socket);
    });
  }

  callBegan(): void {
    this.#running += 1;
  }

  callEnded(): void {
    this.#running -= 1;
    this.lastUse = performance.now();
    if (this.#isRetiring) this.#endSoon();
  }

  retire(reason?: string): void {
    if (this.#isRetiring) return;
    this.#isRetiring = true;
    if (reason !== undefined) this.#log.warn({ reason }, 'a connection is closed');
    if (this.#injector === null) {
      this.#socket.destroy();
      return;
    }
    // HTTP/2 ends its side after the last call and would wait for the client to end the other.
    this.#socket.once('finish', () => this.#socket.destroy());
    this.#injector.destroy();
    this.#endSoon();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /** A client that does not read keeps its connection from ending by itself. */
  #endSoon(): void {
    if (this.#running === 0) setTimeout(() => this.#socket.destroy(), POLITE_MS).unref();
  }
}
