/**
 * A client that reads synthetic streams and discards them. In C++ where gRPC's library is installed, in a process of
 * its own; otherwise in this process by grpc-js. The same client reads from each server of a row.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface, type Interface } from 'node:readline';
import { clientServices } from '../../../src/base/csi/proto.js';
import { readRanges } from '../../../src/base/csi/range-reader.js';
import { readList } from '../../../src/tools/bench/list-reader.js';
import type { Settings } from '../../../src/tools/bench/suite.js';
import { CsiConnection } from '../../../src/tools/client/connection.js';
import { compilePeer } from '../peers.js';
import { isMissing } from '../programs.js';
import { type Layout, patternSnapshotId } from './pattern.js';
import type { ServerProcess } from './server-process.js';

export interface StreamRequest {
  entries: number;
  layout?: Layout;
  /** max_results; 0 leaves it to the server. */
  perMessage?: number;
  /** After each message. */
  pauseMs?: number;
  /** Counts the entries and checks them, which costs the client CPU. */
  decode?: boolean;
  /** Another node's snapshots, for a router. */
  nodeId?: string;
}

export interface StreamReading {
  messages: number;
  bytes: number;
  firstMs: number;
  totalMs: number;
  /** CPU that the server's process used meanwhile. */
  cpuMs: number;
  /** With `decode` only: the number of entries, and a checksum of all offsets and sizes. */
  entries: number;
  checksum: string;
}

const RPC = 'GetMetadataAllocated';
const FNV_BASIS = 0xcbf29ce484222325n;
const FNV_PRIME = 0x100000001b3n;

export abstract class StreamReader {
  /** What the client is, for the report. */
  abstract readonly client: string;
  abstract read(request: StreamRequest): Promise<StreamReading>;
  abstract close(): void;

  static async open(settings: Pick<Settings, 'cleanup'>, server: ServerProcess): Promise<StreamReader> {
    const compiled = await compilePeer('grpc_stream_client');
    const reader = isMissing(compiled)
      ? new NodeReader(server, compiled.missing)
      : new NativeReader(server, compiled.program);
    settings.cleanup.defer(() => reader.close());
    return reader;
  }
}

class NativeReader extends StreamReader {
  readonly client = 'C++ gRPC';
  readonly #child: ChildProcess;
  readonly #lines: Interface;
  readonly #waiting: ((line: string | null) => void)[] = [];

  constructor(
    private readonly server: ServerProcess,
    program: string,
  ) {
    super();
    const child = spawn(program, [server.socketPath], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout });
    this.#lines.on('line', (line) => this.#waiting.shift()?.(line));
    this.#lines.on('close', () => {
      for (const waiting of this.#waiting.splice(0)) waiting(null);
    });
    child.stdin.on('error', () => undefined);
  }

  async read(request: StreamRequest): Promise<StreamReading> {
    const method = clientServices().SnapshotMetadata[RPC];
    const bytes = method?.requestSerialize(messageOf(request)).toString('hex');
    const pauseUs = Math.round((request.pauseMs ?? 0) * 1000);
    const decode = request.decode === true ? 1 : 0;
    this.#child.stdin?.write(`${method?.path} ${bytes} ${pauseUs} ${decode} ${this.server.pid}\n`);
    const line = await new Promise<string | null>((resolve) => this.#waiting.push(resolve));
    if (line === null) throw new Error('the C++ client ended');
    const found = JSON.parse(line) as Record<string, number> & { checksum: string };
    if (found['status'] !== 0) throw new Error(`the stream failed with status ${found['status']}`);
    return {
      messages: found['messages'] ?? 0,
      bytes: found['bytes'] ?? 0,
      firstMs: (found['firstUs'] ?? 0) / 1e3,
      totalMs: (found['totalUs'] ?? 0) / 1e3,
      cpuMs: (found['cpuNs'] ?? 0) / 1e6,
      entries: found['entries'] ?? 0,
      checksum: found.checksum,
    };
  }

  close(): void {
    this.#child.kill('SIGKILL');
  }
}

class NodeReader extends StreamReader {
  readonly client: string;
  readonly #connection: CsiConnection;

  constructor(
    private readonly server: ServerProcess,
    missing: string,
  ) {
    super();
    this.client = `grpc-js (${missing})`;
    this.#connection = new CsiConnection(server.socketPath);
  }

  async read(request: StreamRequest): Promise<StreamReading> {
    let entries = 0;
    let checksum = FNV_BASIS;
    const add = (value: number): void => {
      for (let left = BigInt(value), byte = 0; byte < 8; byte += 1, left >>= 8n) {
        checksum = BigInt.asUintN(64, (checksum ^ (left & 0xffn)) * FNV_PRIME);
      }
    };
    const decode = (message: Buffer): void =>
      readRanges(message, (offset, size) => {
        entries += 1;
        add(offset);
        add(size);
      });
    const before = await this.server.meter.cpuMs();
    const reading = await readList(this.#connection, RPC, messageOf(request), {
      ...(request.pauseMs === undefined ? {} : { pauseMs: request.pauseMs }),
      ...(request.decode === true ? { onMessage: decode } : {}),
    });
    const cpuMs = (await this.server.meter.cpuMs()) - before;
    return { ...reading, cpuMs, entries, checksum: checksum.toString(16).padStart(16, '0') };
  }

  close(): void {
    this.#connection.close();
  }
}

function messageOf({ entries, layout = 'dense', perMessage = 0, nodeId = 'bench' }: StreamRequest) {
  return { snapshot_id: patternSnapshotId(entries, { layout, nodeId }), max_results: perMessage };
}
