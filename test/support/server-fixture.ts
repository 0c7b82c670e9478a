/** A plugin server in this process with fake services, on a real socket, and clients to call it. */
import { once } from 'node:events';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import * as grpc from '@grpc/grpc-js';
import { clientServices } from '../../src/base/csi/proto.js';
import { nodeUri } from '../../src/base/csi/routed-calls.js';
import type { AnyService, CallContext, MessageWriter, ServiceName, StreamContext } from '../../src/base/csi/service.js';
import type { CsiError } from '../../src/base/errors.js';
import { createLogger } from '../../src/base/logger.js';
import type { HostPort } from '../../src/base/settings/values.js';
import type { Call } from '../../src/server/calls/calls.js';
import type { DecodedMessage } from '../../src/server/calls/request-decoder.js';
import { type CallLimits, type CsiServer, type CsiServerOptions, createCsiServer } from '../../src/server/server.js';
import { Authority, type CertificateFiles } from './certificates.js';
import { CsiClient } from './csi-client.js';
import { loopbackAddress } from './loopback.js';
import { encodeMessage } from './raw-call.js';
import { temporaryDirectory } from './temporary.js';

export type LogLine = Record<string, unknown>;
export type Row = readonly [offset: number | bigint, size: number | bigint];

export interface TestServer {
  server: CsiServer;
  client: CsiClient;
  endpoint: string;
  socketPath: string;
  directory: string;
  /** The log lines so far. */
  log: LogLine[];
  /** The same, as written. */
  logText(): string;
}

export interface TestServerOptions extends Partial<Omit<CsiServerOptions, 'config' | 'logger'>> {
  graceMs?: number;
  limits?: Partial<CallLimits>;
  socketMode?: number;
  /** Does not open the services, as while the pools start. */
  starting?: boolean;
}

/** Starts a server that is stopped after the test. */
export async function startServer(t: TestContext, options: TestServerOptions = {}): Promise<TestServer> {
  const made = makeServer(temporaryDirectory(), options);
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
  const { graceMs: shutdownGraceMs = 5000, limits, socketMode = 0o600, ...others } = options;
  const server = createCsiServer({
    services: [],
    ...others,
    config: {
      socketPath,
      socketMode,
      shutdownGraceMs,
      maxConnections: 128,
      maxCalls: 1000,
      maxStreams: 64,
      streamStallMs: 60_000,
      ...limits,
    },
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

/** A node that also listens for routers, and who may call it there. */
export interface RoutedNode extends TestServer {
  /** The directory of all certificates. */
  certificates: string;
  authority: Authority;
  address: HostPort;
  files: CertificateFiles;
  /** A client certificate that the node accepts. */
  router: CertificateFiles;
}

/** Its id is node-a. */
export async function startRoutedNode(
  t: TestContext,
  driverName: string,
  options: TestServerOptions & { handshakeMs?: number } = {},
): Promise<RoutedNode> {
  const certificates = temporaryDirectory();
  const authority = new Authority(certificates);
  const address = loopbackAddress();
  const files = authority.issueNode('node', 'node-a', driverName);
  const router = authority.issue('router', 'blockdelta-router');
  const tls = {
    certificateFile: files.certificate,
    keyFile: files.key,
    caFile: files.ca,
    peerName: 'blockdelta-router',
  };
  const server = await startServer(t, {
    ...options,
    routed: {
      pollMs: 50,
      handshakeMs: options.handshakeMs ?? 5000,
      nodeUri: nodeUri(driverName, 'node-a'),
      settings: { address, tls },
    },
  });
  return Object.assign(server, { certificates, authority, address, files, router });
}

/** The reason, once the call is ended early. Services do not watch for it and see no signal. */
export async function untilCutOff(context: CallContext): Promise<CsiError> {
  const { signal } = context as Call;
  if (!signal.aborted) await once(signal, 'abort');
  return signal.reason as CsiError;
}

/** Handlers of any RPCs; the test decides what they take and return. */
export type FakeHandler = (request: DecodedMessage, context: CallContext) => Promise<object>;
export type FakeStream = (request: DecodedMessage, context: StreamContext, writer: MessageWriter) => Promise<void>;

export function fakeService(
  name: ServiceName,
  handlers: { unary?: Record<string, FakeHandler>; streams?: Record<string, FakeStream> },
): AnyService {
  return { name, unary: {}, streams: {}, ...handlers } as AnyService;
}

export const unaryService = (name: ServiceName, unary: Record<string, FakeHandler>): AnyService =>
  fakeService(name, { unary });

/** One that answers so, whichever list is asked for. */
export const metadataService = (stream: FakeStream): AnyService =>
  fakeService('SnapshotMetadata', { streams: { GetMetadataAllocated: stream, GetMetadataDelta: stream } });

/** A server of lists, and the requests that it has got. */
export async function startMetadata(
  t: TestContext,
  handler: FakeStream,
): Promise<TestServer & { seen: DecodedMessage[] }> {
  const seen: DecodedMessage[] = [];
  const service = metadataService((request, context, writer) => {
    seen.push(request);
    return handler(request, context, writer);
  });
  return Object.assign(await startServer(t, { services: [service] }), { seen });
}

/** One message of a list with its length prefix, as native code makes them. */
export function frame(capacity: number | bigint, rows: readonly Row[]): Buffer {
  const message = encodeMessage('GetMetadataAllocatedResponse', {
    block_metadata_type: 2,
    volume_capacity_bytes: String(capacity),
    block_metadata: rows.map(([offset, size]) => ({ byte_offset: String(offset), size_bytes: String(size) })),
  });
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** Every other page of 4 KiB, from the first of them on. */
export const rowsFrom = (first: number, count: number): Row[] =>
  Array.from({ length: count }, (_, index) => [(first + index) * 8192, 4096] as const);

export const CAPACITY = 2n ** 50n;
/** About 106 KB, the default maximum of a message. */
export const LARGE = frame(CAPACITY, rowsFrom(0, 8192));

/** Sends that chunk without end; records how it ended. */
export function endless(chunk: Buffer) {
  const ended = defer<CsiError>();
  let sent = 0;
  const send = async (writer: MessageWriter): Promise<never> => {
    try {
      for (;;) {
        await writer.send(chunk);
        sent += 1;
      }
    } catch (thrown) {
      ended.resolve(thrown as CsiError);
      throw thrown;
    }
  };
  return { send, ended: ended.promise, sent: () => sent };
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
