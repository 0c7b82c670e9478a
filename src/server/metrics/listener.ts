/**
 * The HTTP listener of /metrics, /healthz and /readyz. Knows neither metrics nor the plugin.
 *
 * No client of the port is trusted: a request has no body, a connection serves one request and ends in bounded time, and the
 * number of connections is small. At the limit, the listener closes the oldest connection that has sent no request yet, so
 * that silent connections keep nobody out.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { CsiError, errorCode } from '../../base/errors.js';
import { formatHostPort } from '../../base/settings/tls.js';
import type { HostPort } from '../../base/settings/values.js';

export interface Routes {
  contentType: string;
  /** The body of /metrics. */
  metrics(): Promise<Buffer>;
  /** For /readyz: null if the server is ready, otherwise the reason why it is not. Resolves in bounded time. */
  notReady(): Promise<string | null>;
}

const MAX_CONNECTIONS = 32;
const MAX_HEADER_BYTES = 8192;
const MAX_HEADERS = 64;
/** How long a connection may last until its request is complete. */
const REQUEST_MS = 5000;
/** How long a connection may last in total, whatever the client does. A collection takes a few seconds at most. */
const CONNECTION_MS = 30_000;

interface Answer {
  status: number;
  body: Buffer | string;
  headers?: Readonly<Record<string, string>>;
}

export class MetricsListener {
  readonly #server: Server;
  readonly #routes: Routes;
  /** Open connections, oldest first, each with whether its request is being answered. */
  readonly #connections = new Map<Socket, { isAnswering: boolean }>();

  private constructor(routes: Routes) {
    this.#routes = routes;
    this.#server = createServer(
      {
        maxHeaderSize: MAX_HEADER_BYTES,
        headersTimeout: REQUEST_MS,
        requestTimeout: REQUEST_MS,
        connectionsCheckingInterval: 1000,
      },
      (request, response) => void this.#serve(request, response),
    );
    this.#server.maxRequestsPerSocket = 1;
    this.#server.maxHeadersCount = MAX_HEADERS;
    this.#server.on('connection', (socket) => this.#admit(socket));
  }

  /** Throws a CsiError that names the setting if listening on the address fails. */
  static async listen(address: HostPort, routes: Routes): Promise<MetricsListener> {
    const listener = new MetricsListener(routes);
    const server = listener.#server;
    try {
      server.listen({ host: address.host, port: address.port });
      await once(server, 'listening');
    } catch (thrown) {
      const code = errorCode(thrown) ?? 'unknown error';
      throw CsiError.failedPrecondition(
        `BLOCKDELTA_METRICS_ADDRESS is ${formatHostPort(address)}, where the plugin cannot listen: ` +
          `${REASONS[code] ?? code}`,
      );
    }
    // An error of accept(2), such as too many open files, concerns a single connection.
    server.on('error', () => undefined);
    return listener;
  }

  /** The address as host:port, with the port that the kernel chose if the setting was 0. */
  get address(): string {
    const { address, port } = this.#server.address() as AddressInfo;
    return formatHostPort({ host: address, port });
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#connections.keys()) socket.destroy();
    await closed;
  }

  #admit(socket: Socket): void {
    if (this.#connections.size >= MAX_CONNECTIONS && !this.#makeRoom()) {
      socket.destroy();
      return;
    }
    this.#connections.set(socket, { isAnswering: false });
    const timer = setTimeout(() => socket.destroy(), CONNECTION_MS).unref();
    socket.once('close', () => {
      clearTimeout(timer);
      this.#connections.delete(socket);
    });
  }

  #makeRoom(): boolean {
    for (const [socket, { isAnswering }] of this.#connections) {
      if (isAnswering) continue;
      this.#connections.delete(socket);
      socket.destroy();
      return true;
    }
    return false;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const connection = this.#connections.get(request.socket);
    if (connection !== undefined) connection.isAnswering = true;
    const { status, body, headers } = await this.#answer(request).catch(
      (): Answer => ({ status: 500, body: 'the request failed\n' }),
    );
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    response.writeHead(status, {
      'content-type': 'text/plain; charset=utf-8',
      'x-content-type-options': 'nosniff',
      'content-length': bytes.length,
      connection: 'close',
      ...headers,
    });
    response.end(request.method === 'HEAD' ? undefined : bytes);
  }

  async #answer(request: IncomingMessage): Promise<Answer> {
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return {
        status: 405,
        body: 'only GET and HEAD are served\n',
        headers: { allow: 'GET, HEAD' },
      };
    }
    if (hasBody(request)) return { status: 413, body: 'a request must have no body\n' };
    switch (request.url?.split('?', 1)[0]) {
      case '/metrics':
        return {
          status: 200,
          body: await this.#routes.metrics(),
          headers: { 'content-type': this.#routes.contentType },
        };
      case '/healthz':
        return { status: 200, body: 'ok\n' };
      case '/readyz': {
        const why = await this.#routes.notReady();
        return why === null ? { status: 200, body: 'ready\n' } : { status: 503, body: `not ready: ${why}\n` };
      }
      default:
        return { status: 404, body: 'only /metrics, /healthz and /readyz are served\n' };
    }
  }
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0';
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another process listens there; choose another port, or stop that process',
  EADDRNOTAVAIL: 'this host has no such address; use one of its own, or 127.0.0.1',
  EACCES: 'the plugin may not use this port; choose one above 1023',
  ENOTFOUND: 'the host name cannot be resolved; use an IP address',
  EAI_AGAIN: 'the host name cannot be resolved now; use an IP address',
};
