/**
 * Listens on TCP and hands over connections whose peer has proved its identity by mutual TLS 1.3.
 *
 * Before that proof, a peer is anybody who reaches the port. So handshakes are limited in rate (handshake-rate.ts), number and
 * time. At the limit of their number the oldest handshake ends, because a genuine handshake takes milliseconds. connections.ts
 * deals with a peer whose identity is known. Knows nothing of gRPC.
 */
import { constants } from 'node:crypto';
import { createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket, type Server as TlsServer } from 'node:tls';
import type { Logger } from 'pino';
import { StartError } from '../../base/listening/socket-path.js';
import { carriesName, TlsFiles } from '../../base/listening/tls-files.js';
import { formatHostPort, type ListenSettings } from '../../base/settings/tls.js';
import { HandshakeRate } from './handshake-rate.js';

const MAX_HANDSHAKES = 64;
const HANDSHAKE_MS = 5000;
/** At most one line about refused peers is logged in this time, because anybody can cause refusals. */
const REFUSAL_LOG_MS = 10_000;

export interface TlsListenerOptions {
  readonly settings: ListenSettings;
  /** The URI of this node. Its certificate carries the URI, and calls must name it (base/csi/routed-calls.ts). */
  readonly nodeUri: string;
  readonly logger: Logger;
  /** How often the files are read again. */
  readonly pollMs?: number;
  readonly handshakeMs?: number;
  /** Takes a connection whose peer is known. */
  accept(socket: TLSSocket): void;
}

export class TlsListener {
  readonly #options: TlsListenerOptions;
  readonly #files: TlsFiles;
  readonly #tls: TlsServer;
  readonly #listener: Server;
  /** Sockets whose handshake has not ended, by their peer's address, the oldest first. */
  readonly #handshakes = new Map<string, Socket>();
  readonly #rate = new HandshakeRate();
  #refusals = { count: 0, loggedAt: Number.NEGATIVE_INFINITY };

  private constructor(options: TlsListenerOptions, files: TlsFiles) {
    this.#options = options;
    this.#files = files;
    this.#tls = createTlsServer({
      ...files.current.options,
      requestCert: true,
      // #check checks the peer, because it can log a refusal. Node.js would refuse a peer silently.
      rejectUnauthorized: false,
      ALPNProtocols: ['h2'],
      // With tickets, a resumed connection could outlive the CA that the peer's certificate was checked against.
      secureOptions: constants.SSL_OP_NO_TICKET,
      handshakeTimeout: options.handshakeMs ?? HANDSHAKE_MS,
    });
    this.#tls.on('secureConnection', (socket) => this.#check(socket));
    this.#tls.on('tlsClientError', (error, socket) => {
      this.#refuse(socket, error.message);
    });
    files.onChange((material) =>
      this.#tls.setSecureContext({
        ...material.options,
        secureOptions: constants.SSL_OP_NO_TICKET,
      }),
    );
    this.#listener = createServer((socket) => this.#admit(socket));
  }

  /** Throws a StartError if the files cannot be used or the address cannot be bound. */
  static async listen(options: TlsListenerOptions): Promise<TlsListener> {
    const { settings, logger } = options;
    const files = await TlsFiles.open(settings.tls, logger, options);
    const listener = new TlsListener(options, files);
    try {
      await listener.#bind();
    } catch (thrown) {
      files.close();
      throw new StartError(`cannot listen on ${formatHostPort(settings.address)}: ${(thrown as Error).message}`);
    }
    return listener;
  }

  /** Accepts no more connections. Those that were handed over stay open. */
  stop(): void {
    this.#files.close();
    this.#listener.close();
    for (const socket of this.#handshakes.values()) socket.destroy();
  }

  async #bind(): Promise<void> {
    const { host, port } = this.#options.settings.address;
    await new Promise<void>((resolve, reject) => {
      this.#listener.once('error', reject);
      this.#listener.listen({ host, port }, () => {
        this.#listener.off('error', reject);
        resolve();
      });
    });
    // An error such as EMFILE may pass.
    this.#listener.on('error', (error) =>
      this.#options.logger.warn({ err: error }, 'cannot accept a connection over TCP'),
    );
  }

  #admit(socket: Socket): void {
    socket.on('error', () => undefined);
    const excess = this.#rate.refusal(socket.remoteAddress ?? '', performance.now());
    if (excess !== null) {
      this.#refuse(socket, excess);
      return;
    }
    if (this.#handshakes.size >= MAX_HANDSHAKES) {
      const [[key, oldest] = []] = this.#handshakes;
      if (key !== undefined) this.#handshakes.delete(key);
      oldest?.destroy();
      this.#logRefusal('too many handshakes at once');
    }
    const key = addressOf(socket);
    this.#handshakes.set(key, socket);
    socket.once('close', () => {
      if (this.#handshakes.get(key) === socket) this.#handshakes.delete(key);
    });
    // Detects within a few minutes that a peer has vanished without closing the connection.
    socket.setKeepAlive(true, 60_000);
    socket.setNoDelay(true);
    this.#tls.emit('connection', socket);
  }

  /** The only caller of `accept`: demands a verified chain, the right name, HTTP/2 and a full handshake. */
  #check(socket: TLSSocket): void {
    socket.on('error', () => undefined);
    const problem = this.#problemOf(socket);
    if (problem !== null) {
      this.#refuse(socket, problem);
      return;
    }
    this.#handshakes.delete(addressOf(socket));
    if (socket.remoteAddress !== undefined) this.#rate.proved(socket.remoteAddress);
    this.#options.accept(socket);
  }

  #problemOf(socket: TLSSocket): string | null {
    const { peerName } = this.#options.settings.tls;
    const certificate = socket.getPeerX509Certificate();
    if (certificate === undefined) return 'it has no certificate';
    if (!socket.authorized) {
      return `its certificate is not trusted: ${String(socket.authorizationError)}`;
    }
    if (!carriesName(certificate, peerName)) {
      return `its certificate does not carry the DNS name ${peerName}`;
    }
    if (socket.isSessionReused()) return 'it resumed a session';
    if (socket.alpnProtocol !== 'h2') return 'it does not speak HTTP/2';
    return null;
  }

  #refuse(socket: Socket, reason: string): void {
    const peer = addressOf(socket);
    socket.destroy();
    this.#logRefusal(reason, peer);
  }

  #logRefusal(reason: string, peer?: string): void {
    this.#refusals.count += 1;
    const now = performance.now();
    if (now - this.#refusals.loggedAt < REFUSAL_LOG_MS) return;
    const { count } = this.#refusals;
    this.#refusals = { count: 0, loggedAt: now };
    this.#options.logger.warn(
      { reason, ...(peer === undefined ? {} : { peer }), refusals: count },
      'a peer was refused on the TCP listener',
    );
  }
}

function addressOf(socket: Socket): string {
  return formatHostPort({ host: socket.remoteAddress ?? '', port: socket.remotePort ?? 0 });
}
