/**
 * One HTTP/2 connection to a node over mutual TLS 1.3. It is opened on demand, kept alive, and opened again after growing
 * pauses when it fails.
 *
 * The router must notice in seconds that a node is down, whatever TCP does. So connecting has a time limit, every call during
 * the pause after a failure fails at once with the reason, and an open connection is pinged. Knows no RPC.
 */
import { X509Certificate } from 'node:crypto';
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { carriesName, misnamedNode, type TlsFiles } from '../base/listening/tls-files.js';
import type { HostPort } from '../base/settings/values.js';

/** How long a new connection waits until the node has answered. */
const CONNECT_MS = 3000;
const PING_EVERY_MS = 5000;
/** A ping waits behind data that is on its way, and for the event loop of the node. */
const PING_TIMEOUT_MS = 7000;
const FIRST_PAUSE_MS = 200;
const LAST_PAUSE_MS = 5000;
/** How many bytes a node may send before the router takes them: on one stream, and on all streams of a connection. */
const STREAM_WINDOW = 768 << 10;
const CONNECTION_WINDOW = 8 << 20;

export interface SessionOptions {
  readonly address: HostPort;
  readonly tls: TlsFiles;
  /** The DNS name that the node's certificate must carry. */
  readonly peerName: string;
  /** The URI of the node, which the certificate must name. */
  readonly nodeUri: string;
  /** Called with null when the node becomes reachable, and with the reason whenever connecting or a connection fails. */
  onChange(failure: string | null): void;
}

export class Session {
  #open: ClientHttp2Session | null = null;
  #connecting: Promise<ClientHttp2Session> | null = null;
  #failure: { readonly reason: string; readonly retryAt: number; readonly pauseMs: number } | null = null;
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(private readonly options: SessionOptions) {}

  get isConnected(): boolean {
    return this.#open !== null;
  }

  /** A connection that takes requests. Rejects with an Error whose message is the reason. */
  async get(): Promise<ClientHttp2Session> {
    if (this.#open !== null) return this.#open;
    if (this.#isClosed) throw new Error('the node was removed from the list, or moved');
    if (this.#failure !== null && performance.now() < this.#failure.retryAt) {
      throw new Error(this.#failure.reason);
    }
    return this.#try();
  }

  /** Makes later requests open a new connection. Requests in flight end on the old connection. */
  renew(): void {
    const old = this.#open;
    this.#open = null;
    old?.close();
    this.#failure = null;
  }

  /** Accepts no more requests. Requests in flight run to their end. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    this.renew();
  }

  #try(): Promise<ClientHttp2Session> {
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = null;
    });
    return this.#connecting;
  }

  async #connect(): Promise<ClientHttp2Session> {
    try {
      const session = await openSession(this.options);
      if (this.#isClosed) {
        session.close();
        throw new Error('the node was removed from the list, or moved');
      }
      this.#use(session);
      return session;
    } catch (thrown) {
      const { message } = thrown as Error;
      this.#failed(message);
      throw new Error(message, { cause: thrown });
    }
  }

  #use(session: ClientHttp2Session): void {
    this.#open = session;
    this.#failure = null;
    this.options.onChange(null);
    const stopPinging = keepAlive(session);
    let reason = 'the connection was closed';
    session.on('error', (error: Error) => {
      reason = error.message;
    });
    // The node closes its side when it stops. Requests in flight go on, and new requests need a new connection.
    const forget = (): void => {
      if (this.#open !== session) return;
      this.#open = null;
      if (!this.#isClosed) this.#failed(reason, 0);
    };
    session.once('goaway', forget);
    session.once('close', () => {
      stopPinging();
      forget();
    });
  }

  /** Makes calls fail until the pause is over. Then the router tries again, even without a call. */
  #failed(reason: string, pauseMs?: number): void {
    if (this.#isClosed) return;
    const doubled = 2 * (this.#failure?.pauseMs ?? FIRST_PAUSE_MS / 2);
    const pause = Math.min(pauseMs ?? doubled, LAST_PAUSE_MS);
    this.#failure = {
      reason,
      retryAt: performance.now() + pause,
      pauseMs: Math.max(pause, FIRST_PAUSE_MS / 2),
    };
    this.options.onChange(reason);
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => {
      // This tries whatever the clock says, because a timer may fire a little early and no other timer follows.
      if (this.#open === null) void this.#try().catch(() => undefined);
    }, pause);
    this.#retry.unref();
  }
}

async function openSession(options: SessionOptions): Promise<ClientHttp2Session> {
  const socket = openSocket(options);
  const session = connectHttp2(`https://${options.peerName}`, {
    createConnection: () => socket,
    settings: { initialWindowSize: STREAM_WINDOW, enablePush: false },
    // The windows of streams bound the memory. At its own limit, Node.js would refuse streams instead of waiting.
    maxSessionMemory: Number.MAX_SAFE_INTEGER,
  });
  try {
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`it has not answered for ${CONNECT_MS / 1000} s`)), CONNECT_MS);
      const fail = (error: Error): void => {
        clearTimeout(timer);
        reject(error);
      };
      session.once('error', fail);
      session.once('close', () =>
        fail(new Error('it closed the connection; it may not trust the certificate of the router')),
      );
      // With TLS 1.3, a client has connected before the server has checked the client's certificate. Only the settings of
      // the node show that it accepts us.
      session.once('remoteSettings', () => {
        clearTimeout(timer);
        session.off('error', fail);
        resolve();
      });
    });
  } catch (thrown) {
    session.on('error', () => undefined);
    session.destroy();
    socket.destroy();
    throw thrown;
  }
  session.setLocalWindowSize(CONNECTION_WINDOW);
  return session;
}

function openSocket({ address, tls, peerName, nodeUri }: SessionOptions): TLSSocket {
  const socket = connectTls({
    ...address,
    secureContext: tls.current.context,
    servername: peerName,
    ALPNProtocols: ['h2'],
    checkServerIdentity: (_host, { raw }) => {
      const certificate = new X509Certificate(raw);
      const problem = carriesName(certificate, peerName)
        ? misnamedNode(certificate, nodeUri)
        : `its certificate does not carry the DNS name ${peerName}`;
      return problem === null ? undefined : new Error(problem);
    },
  });
  socket.setNoDelay(true);
  socket.on('error', () => undefined);
  return socket;
}

/** Ends a connection whose node does not answer pings. Returns a function that stops the pings. */
function keepAlive(session: ClientHttp2Session): () => void {
  let timeout: NodeJS.Timeout | undefined;
  const ping = (): void => {
    if (timeout !== undefined || session.destroyed) return;
    timeout = setTimeout(() => {
      session.destroy(new Error(`it has not answered for ${PING_TIMEOUT_MS / 1000} s`));
    }, PING_TIMEOUT_MS);
    session.ping(() => {
      clearTimeout(timeout);
      timeout = undefined;
    });
  };
  const timer = setInterval(ping, PING_EVERY_MS);
  return () => {
    clearInterval(timer);
    clearTimeout(timeout);
  };
}
