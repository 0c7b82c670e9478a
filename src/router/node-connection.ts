/**
 * Calls to one node: bytes of a request in, bytes of its responses out, and the node's own status.
 *
 * This file speaks HTTP/2 itself instead of using grpc-js, for three reasons. When a stream ends with an error, grpc-js drops
 * messages that arrived before the error. It buffers sixteen messages of any size for each stream. And it does not distinguish
 * a status of the node from a status that it made up because the connection failed. Here, a stream holds at most what its flow
 * control window allows and one message. Everything that the node sent before its status is passed on. Only trailers, or the
 * headers of a call without messages, are a status: whatever else ends a call is UNAVAILABLE and names the node.
 */
import { type ClientHttp2Stream, constants, type OutgoingHttpHeaders } from 'node:http2';
import type { Logger } from 'pino';
import { framed, MessageSplitter, requestHeaders, type SplitMessage, statusIn } from '../base/csi/grpc-wire.js';
import { nodeKey } from '../base/csi/handles.js';
import { CALLER_HEADER, DESTINATION_HEADER, nodeUri } from '../base/csi/routed-calls.js';
import { CsiError, messageOf, StatusCode } from '../base/errors.js';
import type { TlsFiles } from '../base/listening/tls-files.js';
import { parseHostPort } from '../base/settings/values.js';
import { untilAborted } from '../base/timeout.js';
import type { Clock, NodeEntry } from './node-list.js';
import { Session } from './session.js';

/** Limit of one message. A node sends no message of a stream above 3.5 MiB; a list may be longer. */
const MAX_MESSAGE_BYTES = 64 << 20;
/** The node is held back while complete messages of more bytes than this wait for the client. */
const MAX_QUEUED_BYTES = 64 << 10;

export interface NodeCall {
  /** `/csi.v1.Controller/CreateVolume`. */
  readonly path: string;
  readonly request: Buffer;
  /** In milliseconds since the epoch; Infinity if there is none. */
  readonly deadline: number;
  /** Aborted, with a CsiError, when the caller no longer waits. */
  readonly signal: AbortSignal;
  /** The same text for all calls of one client of the router. */
  readonly caller: string;
}

type TakeMessages = (messages: readonly SplitMessage[]) => Promise<void>;

export interface NodeConnectionOptions {
  readonly entry: NodeEntry;
  readonly driverName: string;
  readonly tls: TlsFiles;
  readonly peerName: string;
  readonly logger: Logger;
  readonly now: Clock;
  /** The value of an earlier connection to this node; null means now. */
  readonly unreachableSince: number | null;
  /** Called whenever the node can be reached again. */
  onConnected(): void;
}

export class NodeConnection {
  readonly id: string;
  /** The key of the node in the handles of its objects. */
  readonly key: string;
  readonly address: string | null;
  /** When the router began to try in vain to reach the node, by its clock; null if the node was reached and has not gone. */
  unreachableSince: number | null;
  readonly #options: NodeConnectionOptions;
  readonly #nodeUri: string;
  readonly #log: Logger;
  /** Streams have a connection of their own, so that short calls do not wait behind their data. */
  readonly #sessions: { readonly unary: Session; readonly streams: Session } | null;
  #hasAnswered = false;
  #isReported = false;

  constructor(options: NodeConnectionOptions) {
    const { entry, driverName, tls, peerName, logger, now } = options;
    this.#options = options;
    this.unreachableSince = options.unreachableSince ?? now();
    this.id = entry.id;
    this.key = nodeKey(entry.id);
    this.address = entry.address;
    this.#nodeUri = nodeUri(driverName, entry.id);
    this.#log = logger.child({ node: this.id, address: this.address });
    if (entry.address === null) {
      this.#sessions = null;
      return;
    }
    const address = parseHostPort('address', entry.address);
    const common = { address, tls, peerName, nodeUri: this.#nodeUri };
    this.#sessions = {
      unary: new Session({ ...common, onChange: (failure) => this.#report(failure) }),
      streams: new Session({ ...common, onChange: () => undefined }),
    };
  }

  get isConnected(): boolean {
    return this.#sessions?.unary.isConnected ?? false;
  }

  /** Whether the node was ever reached since it was listed at this address. */
  get hasAnswered(): boolean {
    return this.#hasAnswered;
  }

  /** Connects without a call. Never rejects. */
  async connect(): Promise<void> {
    await this.#sessions?.unary.get().catch(() => undefined);
  }

  /** Makes later calls use new connections, with new certificates. Calls in flight end on the old connections. */
  renew(): void {
    this.#sessions?.unary.renew();
    this.#sessions?.streams.renew();
  }

  close(): void {
    this.#sessions?.unary.close();
    this.#sessions?.streams.close();
  }

  /** The response. Rejects with the status of the node, or with UNAVAILABLE if the node cannot be reached. */
  async unary(call: NodeCall): Promise<Buffer> {
    const messages: Buffer[] = [];
    await this.#exchange('unary', call, async (taken) => {
      messages.push(...taken.map((message) => message.toBuffer()));
    });
    const [response] = messages;
    if (messages.length !== 1 || response === undefined) {
      throw CsiError.internal(
        `node '${this.id}' answered ${call.path} with ${messages.length} messages instead of one`,
      );
    }
    return response;
  }

  /** @param take gets all messages in turn, those together that are complete; the node is held back while `take` waits */
  async stream(call: NodeCall, take: TakeMessages): Promise<void> {
    await this.#exchange('streams', call, take);
  }

  async #exchange(kind: 'unary' | 'streams', call: NodeCall, take: TakeMessages): Promise<void> {
    call.signal.throwIfAborted();
    const stream = await this.#request(kind, call);
    const exchange = new Exchange(stream, take);
    const cancel = (): void => exchange.fail(call.signal.reason);
    call.signal.addEventListener('abort', cancel);
    if (call.signal.aborted) cancel();
    try {
      stream.end(framed(call.request));
      await exchange.done;
    } catch (thrown) {
      if (thrown instanceof CsiError) throw thrown;
      throw this.#unavailable('was lost during the call, which may have been carried out', thrown);
    } finally {
      call.signal.removeEventListener('abort', cancel);
    }
  }

  async #request(kind: 'unary' | 'streams', call: NodeCall): Promise<ClientHttp2Stream> {
    if (this.#sessions === null) {
      throw CsiError.unavailable(
        `node '${this.id}' is known, but no plugin serves it now: start its plugin, or wait for it`,
      );
    }
    const headers: OutgoingHttpHeaders = requestHeaders(call.path, call.deadline, {
      [DESTINATION_HEADER]: this.#nodeUri,
      [CALLER_HEADER]: call.caller,
    });
    try {
      const session = await untilAborted(this.#sessions[kind].get(), call.signal);
      return session.request(headers);
    } catch (thrown) {
      if (thrown instanceof CsiError) throw thrown;
      throw this.#unavailable('cannot be reached', thrown);
    }
  }

  #unavailable(what: string, thrown: unknown): CsiError {
    return CsiError.unavailable(
      `node '${this.id}' at ${this.address} ${what}: ${messageOf(thrown)}. Call again when it is back`,
    );
  }

  /** Logs a line when the node goes and a line when it comes back, but no line for each attempt. */
  #report(failure: string | null): void {
    if (failure === null) {
      this.#hasAnswered = true;
      this.unreachableSince = null;
      this.#options.onConnected();
      this.#log.info('connected to the node');
      this.#isReported = false;
      return;
    }
    this.unreachableSince ??= this.#options.now();
    if (this.#isReported) return;
    this.#isReported = true;
    this.#log.warn({ reason: failure }, 'the node cannot be reached; calls for its objects are UNAVAILABLE');
  }
}

/** Receives the messages of one HTTP/2 stream until its status. */
class Exchange {
  /** Rejects with a CsiError for a status other than OK, or with any other error if the connection failed. */
  readonly done: Promise<void>;
  readonly #splitter = new MessageSplitter(MAX_MESSAGE_BYTES);
  readonly #queue: SplitMessage[] = [];
  #queuedBytes = 0;
  #isTaking = false;
  #isOver = false;
  /** Undefined while the status is not known; null for OK. */
  #status: CsiError | null | undefined;
  #problem: Error | null = null;
  #ended: { resolve: () => void; reject: (reason: unknown) => void } = {
    resolve: () => undefined,
    reject: () => undefined,
  };

  constructor(
    private readonly stream: ClientHttp2Stream,
    private readonly take: TakeMessages,
  ) {
    this.done = new Promise((resolve, reject) => {
      this.#ended = { resolve, reject };
    });
    stream.on('response', (headers) => {
      // A call that fails before its first message has its status in the headers.
      this.#status = statusIn(headers);
      if (headers[':status'] !== 200) {
        this.#problem = new Error(`it answered with HTTP status ${headers[':status']}`);
      }
    });
    stream.on('trailers', (headers) => {
      this.#status = statusIn(headers);
    });
    stream.on('data', (piece: Buffer) => this.#receive(piece));
    stream.on('error', (error) => {
      this.#problem ??= error;
    });
    stream.on('close', () => {
      this.#isOver = true;
      this.#finish();
    });
  }

  /** Ends the call for both sides. */
  fail(reason: unknown): void {
    this.#queue.length = 0;
    this.#ended.reject(reason);
    this.stream.close(constants.NGHTTP2_CANCEL);
    // A paused stream would never close.
    this.stream.resume();
  }

  #receive(piece: Buffer): void {
    try {
      for (const message of this.#splitter.push(piece)) {
        this.#queue.push(message);
        this.#queuedBytes += message.byteLength;
      }
    } catch (thrown) {
      this.fail(thrown);
      return;
    }
    if (this.#queuedBytes > MAX_QUEUED_BYTES) this.stream.pause();
    if (!this.#isTaking && this.#queue.length > 0) void this.#takeAll();
  }

  async #takeAll(): Promise<void> {
    this.#isTaking = true;
    try {
      while (this.#queue.length > 0) {
        const messages = this.#queue.splice(0);
        await this.take(messages);
        for (const { byteLength } of messages) this.#queuedBytes -= byteLength;
        if (this.#queuedBytes <= MAX_QUEUED_BYTES && this.stream.isPaused()) this.stream.resume();
      }
    } catch (thrown) {
      this.fail(thrown);
    }
    this.#isTaking = false;
    this.#finish();
  }

  #finish(): void {
    if (!this.#isOver || this.#isTaking || this.#queue.length > 0) return;
    if (this.#status === null && !this.#splitter.isInside) this.#ended.resolve();
    else this.#ended.reject(this.#status ?? this.#problem ?? this.#lost());
  }

  #lost(): unknown {
    if (this.stream.rstCode === constants.NGHTTP2_ENHANCE_YOUR_CALM) {
      return new CsiError(StatusCode.RESOURCE_EXHAUSTED, 'the node has too many calls; try again');
    }
    return new Error('the connection ended');
  }
}
