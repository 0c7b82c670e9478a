/**
 * What a node that serves snapshots has, in memory: its rows, scans of its snapshots as the addon sends them, and servers of
 * transfers, from which blocks are copied one by one. Knows no rules of transfers.
 */
import { readFileSync } from 'node:fs';
import { CsiError } from '../../../../src/base/errors.js';
import type { Backend } from '../../../../src/driver/backends/backend.js';
import { directScan } from '../../../../src/driver/backends/snapshot-scan.js';
import type { RetainedBaseRecord, SnapshotRecord } from '../../../../src/driver/catalogue/records.js';
import type { FillRequest } from '../../../../src/driver/native/addon.js';
import type { ScanThreads } from '../../../../src/driver/native/scan-threads.js';
import type { FillAnswer } from '../../../../src/driver/native/worker.js';
import type { PullsDependencies } from '../../../../src/driver/replicas/pulls.js';
import type { Range } from '../../../../src/driver/transfer/piece-list.js';
import type { Serving, TransferServer } from '../../../../src/driver/transfer/serve.js';
import type { MemoryReplicas } from './memory-target.js';
import { BLOCK_BYTES, type Source, type Taken, VOLUME_ID } from './world.js';

const BLOCK = BigInt(BLOCK_BYTES);
export const sizeOf = ({ blocks }: Pick<Taken, 'blocks'>): bigint => BigInt(blocks.length) * BLOCK;

/** The rows of snapshots and of retained bases. */
export class SourceRows {
  constructor(private readonly now: () => Source) {}

  async snapshotById(snapshotId: string): Promise<SnapshotRecord | null> {
    const taken = this.now().snapshots.get(snapshotId);
    if (taken?.state !== 'ready') return null;
    const about = { snapshotId, name: snapshotId, groupSnapshotId: null, volumeId: VOLUME_ID, pool: 'p' };
    const state = { state: 'ready', creationTimeNs: 1n, parameters: {}, pristine: false, awaitsCopy: false } as const;
    return { ...about, ...state, sizeBytes: sizeOf(taken), sequence: BigInt(taken.sequence) };
  }

  async retainedBaseById(snapshotId: string): Promise<RetainedBaseRecord | null> {
    const taken = this.now().snapshots.get(snapshotId);
    if (taken === undefined || taken.state === 'ready') return null;
    const invalidated = taken.state === 'gone' ? { reason: 'a limit', timeNs: 0n } : null;
    const about = { snapshotId, volumeId: VOLUME_ID, pool: 'p', creationTimeNs: 1n, deletedNs: 2n, storedBytes: 1n };
    return { ...about, sizeBytes: sizeOf(taken), sequence: BigInt(taken.sequence), invalidated, useful: true };
  }
}

/** A scan is the ranges that it finds. */
type Found = { ranges: readonly Range[] };

/** Lists are exact: test/unit/backends/retained has the rules that make them so. */
export function sourceBackend(now: () => Source, devices: Map<string, readonly number[]>): Backend {
  const held = (id: string): Taken => {
    const taken = now().snapshots.get(id);
    if (taken?.state === 'ready') return taken;
    throw CsiError.failedPrecondition(`the pool does not hold ${id}`);
  };
  const scan = async (targetId: string, baseId: string | null) => {
    const target = held(targetId);
    const base = baseId === null ? [] : (now().snapshots.get(baseId)?.blocks ?? []);
    const ranges = rangesOf(target.blocks.map((content, at) => content !== (base[at] ?? 0)));
    return directScan({ ranges } as never, { targetBytes: sizeOf(target) });
  };
  const open = async (id: string) => {
    const path = `device ${devices.size}`;
    devices.set(path, held(id).blocks);
    return { path, close: async () => undefined };
  };
  const check = async (id: string, sizeBytes: bigint): Promise<void> => {
    if (sizeOf(held(id)) !== sizeBytes) throw CsiError.failedPrecondition(`${id} has another size`);
  };
  return { pool: 'p', changes: { neededFor: () => null, scan }, snapshots: { check, open } } as unknown as Backend;
}

/** Neighbours make one range. */
function rangesOf(isFound: readonly boolean[]): Range[] {
  const ranges: { offset: bigint; size: bigint }[] = [];
  for (const [at, found] of isFound.entries()) {
    const last = ranges.at(-1);
    const offset = BigInt(at) * BLOCK;
    if (!found) continue;
    if (last !== undefined && last.offset + last.size === offset) last.size += BLOCK;
    else ranges.push({ offset, size: BLOCK });
  }
  return ranges;
}

/** All that a scan finds fits into its first chunk. */
export const scanThreads = {
  async fill(_turn: unknown, { source, offset }: FillRequest, allocate: () => ArrayBuffer): Promise<FillAnswer> {
    const { ranges } = source as unknown as Found;
    const entries = ranges
      .filter((range) => range.offset + range.size > offset)
      .flatMap((range) => {
        const start = range.offset > offset ? range.offset : offset;
        const fields = [0x08, ...varint(start), 0x10, ...varint(range.offset + range.size - start)];
        return [0x1a, fields.length, ...fields];
      });
    const buffer = allocate();
    new Uint8Array(buffer).set([0, 0, 0, 0, entries.length, ...entries]);
    const counts = { messages: 1, bytes: 5 + entries.length, entries: 0, entryBytes: 0n, extents: 0, rescans: 0 };
    const rest = { nextOffset: 0n, nextRangeStart: 0n, done: true, unprovedBytes: 0n, nodes: 0 };
    return { result: { ok: true, ...counts, ...rest }, buffer };
  },
} as unknown as ScanThreads;

function varint(value: bigint): number[] {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>= 7n) {
    if (rest < 0x80n) return [...bytes, Number(rest)];
    bytes.push(Number(rest & 0x7fn) | 0x80);
  }
}

interface Server {
  readonly serving: Serving;
  readonly blocks: readonly number[];
  readonly data: readonly Range[];
  readonly zeros: readonly Range[];
  hasEnded: boolean;
}

/** Servers of transfers, and those who read from them. */
export class MemoryWire {
  readonly devices = new Map<string, readonly number[]>();
  readonly #servers: Server[] = [];

  readonly serve = async (serving: Serving): Promise<TransferServer> => {
    const lines = readFileSync(serving.listPath, 'utf8').split('\n').slice(0, -1);
    const ranges = lines.map((line) => {
      const [offset = '', size = '', zero] = line.split(' ');
      return { offset: BigInt(offset), size: BigInt(size), isZero: zero === 'zero' };
    });
    const blocks = this.devices.get(serving.devicePath) ?? [];
    const data = ranges.filter(({ isZero }) => !isZero);
    const zeros = ranges.filter(({ isZero }) => isZero);
    const server = { serving, blocks, data, zeros, hasEnded: false };
    this.#servers.push(server);
    let end = (): void => undefined;
    const exited = new Promise<never>((resolve) => {
      end = () => {
        server.hasEnded = true;
        resolve(undefined as never);
      };
    });
    serving.signal.addEventListener('abort', end, { once: true });
    return {
      port: serving.port,
      exited,
      close: async () => end(),
      get hasEnded() {
        return server.hasEnded;
      },
    };
  };

  /** Whether the server for this ticket has ended. */
  hasEnded({ exportName }: Serving['ticket']): boolean {
    const found = this.#servers.find(({ serving }) => serving.ticket.exportName === exportName);
    return found?.hasEnded !== false;
  }

  /** As a kill of the node ends them. */
  end(): void {
    for (const server of this.#servers) server.hasEnded = true;
  }

  readersOf(replicas: MemoryReplicas): Required<PullsDependencies>['fetch'] {
    return {
      data: async ({ port, ticket, devicePath, requestSize }) => {
        const server = this.#at(port, ticket);
        const request = BigInt(requestSize);
        for (const { offset, size } of server.data) {
          const end = ((offset + size + request - 1n) / request) * request;
          for (let at = offset - (offset % request); at < end; at += BLOCK) {
            const content = server.blocks[Number(at / BLOCK)];
            if (content !== undefined) await replicas.write(devicePath, at, content);
            this.#at(port, ticket);
          }
        }
        await replicas.flush(devicePath);
      },
      zeros: async ({ port, ticket }, take) => {
        const { zeros } = this.#at(port, ticket);
        if (zeros.length > 0) await take(zeros);
      },
    };
  }

  #at(port: number, { key, exportName }: Serving['ticket']): Server {
    const found = this.#servers.findLast(({ serving, hasEnded }) => !hasEnded && serving.port === port);
    const ticket = found?.serving.ticket;
    if (found !== undefined && ticket?.key === key && ticket.exportName === exportName) return found;
    throw CsiError.unavailable(`nobody serves this transfer at port ${port}`);
  }
}
