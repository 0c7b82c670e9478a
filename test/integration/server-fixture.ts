/** A plugin server in this process with fake services, on a real socket, and clients to call it. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import * as grpc from '@grpc/grpc-js';
import type { CsiError } from '../../src/base/errors.js';
import { createLogger } from '../../src/base/logger.js';
import type { CallObserver } from '../../src/csi/call-observer.js';
import type { Call } from '../../src/csi/calls.js';
import { CSI_PACKAGE, clientServices, csiProto } from '../../src/csi/proto.js';
import type { DecodedMessage } from '../../src/csi/request-decoder.js';
import type {
  AnyService,
  CallContext,
  MessageWriter,
  ServiceName,
  StreamContext,
} from '../../src/csi/service.js';
import type { RoutedListen } from '../../src/plugin/connections.js';
import { type CallLimits, createPluginServer, type PluginServer } from '../../src/plugin/server.js';
import { CsiClient } from '../support/csi-client.js';

export type LogLine = Record<string, unknown>;
export type Row = readonly [offset: number | bigint, size: number | bigint];

export interface TestServer {
  server: PluginServer;
  client: CsiClient;
  endpoint: string;
  socketPath: string;
  directory: string;
  /** The log lines so far. */
  log: LogLine[];
  /** The same, as written. */
  logText(): string;
}

export interface TestServerOptions {
  services?: AnyService[];
  graceMs?: number;
  limits?: Partial<CallLimits>;
  socketMode?: number;
  /** Does not open the services, as while the pools start. */
  starting?: boolean;
  startTimeoutMs?: number;
  plainStreams?: boolean;
  requestMs?: number;
  /** Also listens for routers. */
  routed?: RoutedListen;
  observer?: CallObserver;
}

export function temporaryDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'blockdelta-server-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Starts a server that is stopped after the test. */
export async function startServer(
  t: TestContext,
  options: TestServerOptions = {},
): Promise<TestServer> {
  const made = makeServer(temporaryDirectory(t), options);
  await made.server.start();
  if (!options.starting) made.server.open([]);
  t.after(async () => {
    made.client.close();
    made.server.force();
    await made.server.stop();
  });
  return made;
}

export function makeServer(directory: string, options: TestServerOptions = {}): TestServer {
  const socketPath = join(directory, 'csi.sock');
  const endpoint = `unix://${socketPath}`;
  const lines: string[] = [];
  const server = createPluginServer({
    services: options.services ?? [],
    config: {
      socketPath,
      ...{ maxConnections: 128, maxCalls: 1000, maxStreams: 64, streamStallMs: 60_000 },
      ...options.limits,
      socketMode: options.socketMode ?? 0o600,
      shutdownGraceMs: options.graceMs ?? 5000,
    },
    startTimeoutMs: options.startTimeoutMs ?? 30_000,
    requestMs: options.requestMs ?? 20_000,
    plainStreams: options.plainStreams ?? false,
    routed: options.routed ?? null,
    observer: options.observer,
    logger: createLogger('debug', { write: (line) => lines.push(line) }),
  });
  return {
    server,
    client: new CsiClient(endpoint),
    endpoint,
    socketPath,
    directory,
    get log() {
      return lines.map((line) => JSON.parse(line) as LogLine);
    },
    logText: () => lines.join(''),
  };
}

/** The reason, once the call is ended early. Services do not watch for it and see no signal. */
export async function untilCutOff(context: CallContext): Promise<CsiError> {
  const { signal } = context as Call;
  if (!signal.aborted) await once(signal, 'abort');
  return signal.reason as CsiError;
}

/** Handlers of any RPCs; the test decides what they take and return. */
export type FakeHandler = (request: DecodedMessage, context: CallContext) => Promise<object>;
export type FakeStream = (
  request: DecodedMessage,
  context: StreamContext,
  writer: MessageWriter,
) => Promise<void>;

export function fakeService(
  name: ServiceName,
  handlers: { unary?: Record<string, FakeHandler>; streams?: Record<string, FakeStream> },
): AnyService {
  return { name, unary: {}, streams: {}, ...handlers } as AnyService;
}

/** One message of a list with its length prefix, as native code makes them. */
export function frame(capacity: number | bigint, rows: readonly Row[]): Buffer {
  const type = csiProto().root.lookupType(`${CSI_PACKAGE}.GetMetadataAllocatedResponse`);
  const message = type
    .encode(
      type.fromObject({
        block_metadata_type: 2,
        volume_capacity_bytes: String(capacity),
        block_metadata: rows.map(([offset, size]) => ({
          byte_offset: String(offset),
          size_bytes: String(size),
        })),
      }),
    )
    .finish();
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** A plain gRPC client of one service: methods by name, gRPC's options, gRPC's calls. */
export type RawClient = grpc.Client & Record<string, (...given: unknown[]) => unknown>;

export function rawClient(
  t: TestContext,
  endpoint: string,
  service: ServiceName,
  options: grpc.ChannelOptions = {},
  credentials = grpc.credentials.createInsecure(),
): RawClient {
  const Client = grpc.makeGenericClientConstructor(clientServices()[service], service);
  const client = new Client(endpoint, credentials, options);
  t.after(() => client.close());
  return client as unknown as RawClient;
}

/** A promise with its resolve and reject functions. */
export function defer<T = void>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve = (_value: T): void => undefined;
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
