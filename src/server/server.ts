/**
 * The gRPC server on its Unix socket, and on TCP for routers: binding, holding calls until their services have started, and
 * stopping. Knows services only by their interface.
 */
import { chmod } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { type MethodDefinition, Server, type UntypedHandleCall } from '@grpc/grpc-js';
import type { Logger } from 'pino';
import { halfOfRest } from '../base/csi/probe.js';
import { CSI_PACKAGE, csiProto, requestTypeOf, sendAsIs, servedServices } from '../base/csi/proto.js';
import type { AnyService, AnyStreamHandler, AnyUnaryHandler, CallContext, ServiceName } from '../base/csi/service.js';
import { CsiError, messageOf } from '../base/errors.js';
import { bindSocketPath, StartError } from '../base/listening/socket-path.js';
import type { ServiceConfig } from '../base/settings/service-settings.js';
import { withTimeout } from '../base/timeout.js';
import type { CallObserver } from './calls/call-observer.js';
import { CallRegistry } from './calls/calls.js';
import { proveFrames } from './calls/frame-proof.js';
import { type DecodedMessage, requestDecoder } from './calls/request-decoder.js';
import { type Served, streaming, unary } from './calls/serve-call.js';
import type { ServedRpc } from './calls/served-rpc.js';
import { StreamPlaces } from './calls/stream-places.js';
import type { StreamLimits } from './calls/stream-writer.js';
import { Connections, LAST_RESPONSE_MS, type RoutedListen } from './connections/connections.js';

export { StartError } from '../base/listening/socket-path.js';

/** Creating a pool takes seconds. After this time calls get UNAVAILABLE instead of waiting for a dead disk. */
const START_TIMEOUT_MS = 30_000;
/** Limit of concurrent HTTP/2 streams of one connection. The client holds back further calls. */
const CALLS_PER_CONNECTION = 128;
const REQUEST_MS = 20_000;
const REQUESTS_PER_PING = 3;
/** The services that a node serves to a router. Only the node's own host may call the others. */
const ROUTED_SERVICES: readonly ServiceName[] = ['Identity', 'Controller', 'GroupController', 'SnapshotMetadata'];
/** How long handlers may take to notice that their calls were aborted. */
const RELEASE_MS = 2000;

export interface StopResult {
  /** Whether calls had to be aborted. */
  forced: boolean;
  /** Handlers that were still running at the end of the wait. */
  unfinished: number;
}

/** Throws the error to return if this process refuses the request, whatever its handler does. */
export type RequestCheck = (rpc: string, request: DecodedMessage) => void;

export interface CsiServer {
  /** Binds the socket and the TCP address. Calls to services that are not open yet wait. Throws StartError. */
  start(): Promise<void>;
  /**
   * Adds the services that had to start first. From then on, absent RPCs are UNIMPLEMENTED.
   *
   * @param check runs before every handler
   */
  open(services: readonly AnyService[], check?: RequestCheck): void;
  /** Refuses new calls, waits for those in flight, and aborts them after the grace time. */
  stop(): Promise<StopResult>;
  /** Aborts all calls at once and completes a stop that is in progress. */
  force(): void;
}

export type CallLimits = Pick<ServiceConfig, 'maxConnections' | 'maxCalls' | 'maxStreams' | 'streamStallMs'>;

export interface CsiServerOptions {
  /** The services that are ready from the start. */
  services: readonly AnyService[];
  config: Pick<ServiceConfig, 'socketPath' | 'socketMode' | 'shutdownGraceMs'> & CallLimits;
  logger: Logger;
  /** The RPCs of interfaces before v1, and those for operators. The socket serves them beside v1. */
  others?: readonly ServedRpc[];
  /** Where routers reach this node, and the RPCs for routers alone; null or absent if routers cannot reach this node. */
  routed?: (RoutedListen & { readonly rpcs?: readonly ServedRpc[] }) | null;
  /** How long a call waits for services that are still starting. */
  startTimeoutMs?: number;
  /** How long a new client may send nothing, and how long a request may take to become complete. */
  requestMs?: number;
  /** Sends every message of a stream through gRPC. */
  plainStreams?: boolean;
  observer?: CallObserver | undefined;
}

export function createCsiServer(options: CsiServerOptions): CsiServer {
  return new GrpcCsiServer(options);
}

class GrpcCsiServer implements CsiServer {
  readonly #config: CsiServerOptions['config'];
  readonly #log: Logger;
  readonly #calls: CallRegistry;
  readonly #services = new Map<ServiceName, AnyService>();
  readonly #streamLimits: StreamLimits;
  readonly #connections: Connections;
  readonly #requestMs: number;
  // Channelz stays enabled: without it grpc-js 1.14.7 loses track of its connections, and forceShutdown
  // leaves them all open. Its cost is not measurable.
  readonly #grpc: Server;
  readonly #routed: { readonly listen: RoutedListen; readonly grpc: Server } | null;
  readonly #forced = new AbortController();
  readonly #startTimeoutMs: number;
  readonly #plainStreams: boolean;
  /** Aborted when calls no longer need to wait for services, because the services are open or the plugin stops. */
  readonly #settled = new AbortController();
  #isOpen = false;
  #check: RequestCheck = () => undefined;
  #stopping: Promise<StopResult> | null = null;

  constructor(options: CsiServerOptions) {
    const { services, config, logger, others = [], routed, observer, ...times } = options;
    this.#startTimeoutMs = times.startTimeoutMs ?? START_TIMEOUT_MS;
    this.#config = config;
    this.#log = logger;
    this.#calls = new CallRegistry(logger, config.maxCalls, observer);
    this.#streamLimits = {
      places: new StreamPlaces(config.maxStreams),
      stallMs: config.streamStallMs,
      writesFrames: false,
    };
    this.#plainStreams = times.plainStreams ?? false;
    this.#requestMs = times.requestMs ?? REQUEST_MS;
    this.#connections = new Connections({
      limit: config.maxConnections,
      logger,
      requestMs: this.#requestMs,
    });
    for (const service of services) this.#services.set(service.name, service);
    this.#grpc = this.#createGrpc(Object.keys(servedServices()) as ServiceName[]);
    for (const each of others) this.#registerOther(this.#grpc, each);
    this.#routed = routed ? { listen: routed, grpc: this.#createGrpc(ROUTED_SERVICES) } : null;
    if (this.#routed === null) return;
    for (const each of routed?.rpcs ?? []) this.#registerOther(this.#routed.grpc, each);
  }

  #createGrpc(services: readonly ServiceName[]): Server {
    const pingMs = this.#requestMs * REQUESTS_PER_PING;
    const grpc = new Server({
      'grpc.max_concurrent_streams': CALLS_PER_CONNECTION,
      // Only pings notice a client that is gone or stops within headers. Their timeout includes the stall time of a stream.
      'grpc.keepalive_time_ms': pingMs,
      'grpc.keepalive_timeout_ms': pingMs + this.#config.streamStallMs,
      interceptors: [this.#connections.interceptor],
    });
    for (const name of services) this.#register(grpc, name);
    return grpc;
  }

  async start(): Promise<void> {
    await this.#proveFrames();
    const { socketPath } = this.#config;
    await bindSocketPath(socketPath, () => this.#bindNarrow(), { logger: this.#log });
    if (this.#routed === null) return;
    await this.#connections.listenTls(this.#routed.grpc, this.#routed.listen);
  }

  async #proveFrames(): Promise<void> {
    if (this.#plainStreams) return;
    this.#streamLimits.writesFrames = await proveFrames();
    if (this.#streamLimits.writesFrames) return;
    this.#log.warn(
      'streams take the slower way through gRPC: frames written to an HTTP/2 stream did not arrive unchanged',
    );
  }

  async #bindNarrow(): Promise<void> {
    const { socketPath, socketMode } = this.#config;
    // The socket is created with the narrow mode and widened afterwards, so others can never connect
    // too early. The umask belongs to the whole process, so nothing else may create files meanwhile.
    const umask = process.umask(0o177);
    try {
      await this.#bind(socketPath);
    } finally {
      process.umask(umask);
    }
    await chmod(socketPath, socketMode);
  }

  open(services: readonly AnyService[], check?: RequestCheck): void {
    if (check !== undefined) this.#check = check;
    for (const service of services) this.#services.set(service.name, service);
    this.#isOpen = true;
    this.#settled.abort();
  }

  stop(): Promise<StopResult> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  force(): void {
    this.#forced.abort();
    void this.stop();
  }

  async #stop(): Promise<StopResult> {
    this.#settled.abort();
    this.#connections.stop();
    const idle = this.#calls.idle();
    const inTime = await within(this.#config.shutdownGraceMs, idle, this.#forced.signal);
    if (!inTime) this.#calls.abortAll(CsiError.unavailable('the plugin is stopping; call again'));
    const ended = Promise.all([idle, this.#connections.closed()]);
    await within(LAST_RESPONSE_MS, ended, inTime ? undefined : this.#forced.signal);
    this.#connections.destroy();
    this.#grpc.forceShutdown();
    this.#routed?.grpc.forceShutdown();
    if (inTime) return { forced: false, unfinished: 0 };
    await within(RELEASE_MS, this.#calls.idle());
    return { forced: true, unfinished: this.#calls.size };
  }

  async #bind(path: string): Promise<void> {
    try {
      await this.#connections.listen(path, this.#grpc);
    } catch (thrown) {
      const reason = messageOf(thrown);
      throw new StartError(`cannot listen on unix://${path}: ${reason}`);
    }
  }

  /** Registers every method of the proto, so that a method without a handler answers UNIMPLEMENTED with our own message. */
  #register(grpc: Server, name: ServiceName): void {
    const { root } = csiProto();
    const fullService = `${CSI_PACKAGE}.${name}`;
    for (const [rpcName, definition] of Object.entries(servedServices()[name])) {
      const requestType = requestTypeOf(root, fullService, rpcName);
      const rpc = { service: name, fullService, name: rpcName, requestType };
      const handler = definition.responseStream
        ? streaming(
            rpc,
            this.#streamLimits,
            this.#served<AnyStreamHandler>(name, rpcName, (all) => all.streams),
          )
        : unary(
            { ...rpc, encode: encoderOf(definition) },
            this.#served<AnyUnaryHandler>(name, rpcName, (all) => all.unary),
          );
      grpc.register(
        definition.path,
        handler as UntypedHandleCall,
        sendAsIs,
        requestDecoder(requestType),
        definition.responseStream ? 'serverStream' : 'unary',
      );
    }
  }

  #served<Handler>(service: ServiceName, rpc: string, table: HandlerTable<Handler>): Served<Handler> {
    return {
      calls: this.#calls,
      find: (call) => this.#find(service, rpc, call, table),
      check: (request) => this.#check(rpc, request),
    };
  }

  #registerOther(grpc: Server, { service, name, definition, requestType, handler }: ServedRpc): void {
    const found = handler(async (v1, v1Rpc, call) => {
      const v1Handler = await this.#find<AnyUnaryHandler>(v1, v1Rpc, call, (all) => all.unary);
      return (request, context) => {
        this.#check(v1Rpc, request);
        return v1Handler(request, context);
      };
    });
    const rpc = { service, fullService: service, name, requestType, encode: encoderOf(definition) };
    const served = { calls: this.#calls, find: async () => found, check: () => undefined };
    grpc.register(
      definition.path,
      unary(rpc, served) as UntypedHandleCall,
      sendAsIs,
      requestDecoder(requestType),
      'unary',
    );
  }

  /**
   * Waits for a service that is still starting: orchestrators and test suites call as soon as the socket
   * exists, and not all of them retry. Half of the call's time is left for the call.
   */
  async #find<Handler>(
    name: ServiceName,
    rpc: string,
    { deadline, signal }: Pick<CallContext, 'deadline' | 'signal'>,
    table: HandlerTable<Handler>,
  ): Promise<Handler> {
    if (!this.#services.has(name) && !this.#isOpen) {
      const awaited = AbortSignal.any([signal, this.#settled.signal]);
      await delay(Math.min(this.#startTimeoutMs, halfOfRest(deadline)), undefined, { signal: awaited }).catch(
        () => undefined,
      );
      signal.throwIfAborted();
    }
    const service = this.#services.get(name);
    if (service === undefined && !this.#isOpen) {
      throw CsiError.unavailable(`the plugin is starting: ${name}.${rpc} is not served yet`);
    }
    const handler = service === undefined ? undefined : table(service)[rpc];
    if (handler !== undefined) return handler;
    throw CsiError.unimplemented(`${name}.${rpc} is not implemented by this plugin`);
  }
}

/** Selects the unary or the streaming handlers of a service. */
type HandlerTable<Handler> = (service: AnyService) => Readonly<Record<string, Handler>>;

/** Whether the event happened in time. An abort of the signal ends the time at once. */
async function within(ms: number, event: Promise<unknown>, cutShort?: AbortSignal): Promise<boolean> {
  const ended = event.then(() => true);
  return withTimeout(ended, ms, () => false, cutShort);
}

function encoderOf(definition: MethodDefinition<object, object>): (response: object) => Buffer {
  return (response) => definition.responseSerialize(response);
}
