/**
 * The connections to the plugin's socket, and those of routers over TCP: how many are open, which one is closed at the
 * limit, and how they end. gRPC receives a connection when its client has sent its first bytes.
 *
 * Idle connections stay open while their clients answer gRPC's pings, because sidecars hold a connection for hours and exit
 * when it is closed. A new connection replaces an idle connection only at the limit: first the connections that never made a
 * call, the oldest first, then the connection whose last call was the longest ago. The client of the closed connection receives
 * GOAWAY and can connect again. Knows nothing of services.
 */
import { setMaxListeners } from 'node:events';
import { createServer, type Server as Listener, type Socket } from 'node:net';
import {
  type Server as GrpcServer,
  type Metadata,
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptor,
} from '@grpc/grpc-js';
import type { Logger } from 'pino';
import { RoutedCallers } from '../../base/csi/routed-calls.js';
import { type CallConnection, IncomingCalls } from '../calls/incoming-calls.js';
import { TlsListener, type TlsListenerOptions } from './tls-listener.js';

/** How long the last response may take to reach a client before its connection is closed. */
export const LAST_RESPONSE_MS = 200;

type Injector = ReturnType<GrpcServer['createConnectionInjector']>;

export interface ConnectionsOptions {
  /** How many connections may be open at once. */
  limit: number;
  logger: Logger;
  /** How long a new client may send nothing, and how long a request may take to become complete. */
  requestMs: number;
}

/** How routers reach this node. */
export type RoutedListen = Omit<TlsListenerOptions, 'logger' | 'accept'>;

/** How many connections that are being closed may be open beyond the limit. */
const MAX_CLOSING = 16;

export class Connections {
  readonly #limit: number;
  readonly #log: Logger;
  readonly #requestMs: number;
  readonly #incoming: IncomingCalls;
  readonly #open = new Map<number, Connection>();
  #listener: Listener | null = null;
  #tlsListener: TlsListener | null = null;
  #count = 0;
  #closed: (() => void) | null = null;

  constructor({ limit, logger, requestMs }: ConnectionsOptions) {
    this.#limit = limit;
    this.#log = logger;
    this.#requestMs = requestMs;
    this.#incoming = new IncomingCalls(this.#requestMs);
  }

  get size(): number {
    return this.#open.size;
  }

  /** The interceptor of the gRPC server that receives the connections. Counts the calls of each connection. */
  readonly interceptor: ServerInterceptor = (_method, call) => {
    const connection = this.#open.get(call.getConnectionInfo().remotePort ?? 0);
    if (connection === undefined) return new ServerInterceptingCall(call);
    return this.#incoming.intercept(call, connection);
  };

  /** Resolves when the socket is bound; rejects if it cannot be. */
  async listen(path: string, grpc: GrpcServer): Promise<void> {
    const listener = createServer((socket) => this.#accept(socket, grpc));
    await new Promise<void>((resolve, reject) => {
      listener.once('error', reject);
      listener.listen(path, () => {
        listener.off('error', reject);
        resolve();
      });
    });
    // An error such as EMFILE may pass.
    listener.on('error', (error) => this.#log.warn({ err: error }, 'cannot accept a client on the socket'));
    this.#listener = listener;
  }

  /** Also listens on TCP. Resolves when the address is bound; throws a StartError if it cannot be. */
  async listenTls(grpc: GrpcServer, options: RoutedListen): Promise<void> {
    this.#tlsListener = await TlsListener.listen({
      ...options,
      logger: this.#log,
      accept: (socket) => this.#accept(socket, grpc, new RoutedCallers(options.nodeUri)),
    });
  }

  /** Accepts no more connections. Closes connections without calls at once, and the others after their last call. */
  stop(): void {
    this.#listener?.close();
    this.#listener = null;
    this.#tlsListener?.stop();
    this.#tlsListener = null;
    for (const connection of this.#open.values()) connection.retire();
  }

  closed(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#closed = resolve;
    });
  }

  /** Closes the remaining connections, with or without calls. */
  destroy(): void {
    for (const connection of this.#open.values()) connection.destroy();
  }

  /** @param routed the clients behind a router; null for a connection to the socket */
  #accept(socket: Socket, grpc: GrpcServer, routed: RoutedCallers | null = null): void {
    socket.on('error', () => undefined);
    if (this.#open.size >= this.#limit && !this.#makeRoom()) {
      this.#log.warn(
        { limit: this.#limit },
        'a client was refused: the limit of connections is reached, and none can be closed for it',
      );
      socket.destroy();
      return;
    }
    this.#count += 1;
    const number = this.#count;
    const connection = new Connection(socket, number, routed, this.#log);
    this.#open.set(number, connection);
    socket.once('close', () => {
      this.#open.delete(number);
      if (this.#open.size === 0) this.#closed?.();
    });
    connection.start(grpc, this.#requestMs);
  }

  /** Closes an idle connection. Returns false if there is none, or if too many are being closed already. */
  #makeRoom(): boolean {
    if (this.#open.size >= this.#limit + MAX_CLOSING) return false;
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
  readonly #routed: RoutedCallers | null;
  readonly #log: Logger;
  readonly #closed = new AbortController();
  #injector: Injector | null = null;
  #running = 0;
  #isRetiring = false;
  /**
   * When the last call of the connection ended (performance.now()). Negative until its first call has ended, so that
   * connections without calls come before all others, the oldest first.
   */
  lastUse: number;

  constructor(socket: Socket, number: number, routed: RoutedCallers | null, log: Logger) {
    this.#socket = socket;
    this.#routed = routed;
    this.#log = log;
    this.lastUse = number - Number.MAX_SAFE_INTEGER;
    // Each call of the connection adds a listener while the call waits for its turn.
    setMaxListeners(0, this.#closed.signal);
    // gRPC reports these two values with each call, and the interceptor finds the connection by the port. The client of a
    // Unix socket has no address, and the real port of a client over TCP could equal the number of another connection.
    Object.defineProperty(socket, 'remoteAddress', { value: routed === null ? 'unix' : 'tcp' });
    Object.defineProperty(socket, 'remotePort', { value: number });
  }

  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  callerOf(metadata: Metadata): object {
    return this.#routed?.callerOf(metadata) ?? this;
  }

  /** Whether a call whose request is complete runs, or the connection is being closed already. */
  get isBusy(): boolean {
    return this.#running > 0 || this.#isRetiring;
  }

  /** Until its client has sent its first bytes, a connection costs nothing but its socket. */
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
    if (reason !== undefined) this.#log.warn({ reason }, 'closing a connection');
    if (this.#injector === null) {
      this.#socket.destroy();
      return;
    }
    // HTTP/2 closes its side after the last call and would wait for the client to close the other side.
    this.#socket.once('finish', () => this.#socket.destroy());
    this.#injector.destroy();
    this.#endSoon();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /** Closes the socket soon, because a connection whose client does not read never closes by itself. */
  #endSoon(): void {
    if (this.#running === 0) setTimeout(() => this.#socket.destroy(), LAST_RESPONSE_MS).unref();
  }
}
