/**
 * The SnapshotMetadata service of the fake driver, in steps that a defect can replace one by one:
 * read the request, find the blocks, leave out those before the start, divide them into messages, send.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { ServerWritableStream } from '@grpc/grpc-js';
import { BLOCK_BYTES, differingBlocks, type Entry, entriesOf } from './disk.js';
import { demand, type Message, refusal } from './refusal.js';
import type { Snapshot, State } from './state.js';

export type MetadataCall = ServerWritableStream<Message, Message>;

export interface Query {
  target: Snapshot;
  /** null: the allocated blocks of the target. */
  base: Snapshot | null;
  start: number;
  maxResults: number;
}

export interface MetadataSteps {
  /** Throws a Refusal if the request is not allowed. */
  read(request: Message): Query;
  /** All blocks of the whole snapshot to report, in order. */
  blocks(query: Query): readonly number[];
  entries(blocks: readonly number[], query: Query): Entry[];
  from(entries: Entry[], query: Query): Entry[];
  messages(entries: Entry[], query: Query): Message[];
  /** Resolves when the stream may end OK. */
  send(call: MetadataCall, messages: Message[], query: Query): Promise<void>;
}

const DEFAULT_RESULTS = 256;

export function metadataSteps(state: State): MetadataSteps {
  const type = state.options.metadataType ?? 'VARIABLE_LENGTH';
  return {
    read: (request) => read(state, request),
    blocks: ({ base, target }) => (base === null ? target.allocated : differingBlocks(target.bytes, base.bytes)),
    entries: (blocks) => entriesOf(blocks, type === 'VARIABLE_LENGTH'),
    from: (entries, { start }) => {
      const rest = entries.filter(({ offset, size }) => offset + size > start);
      return state.options.clipped ? rest.map((entry) => clip(entry, start)) : rest;
    },
    messages: (entries, { target, maxResults }) => {
      const step = maxResults === 0 ? DEFAULT_RESULTS : Math.min(maxResults, DEFAULT_RESULTS);
      const count = Math.max(1, Math.ceil(entries.length / step));
      return Array.from({ length: count }, (_, n) => ({
        block_metadata_type: type,
        volume_capacity_bytes: target.sizeBytes,
        block_metadata: wire(entries.slice(n * step, (n + 1) * step)),
      }));
    },
    send,
  };
}

export function wire(entries: readonly Entry[]): Message[] {
  return entries.map(({ offset, size }) => ({ byte_offset: offset, size_bytes: size }));
}

/** Runs the steps for one call. */
export async function stream(steps: MetadataSteps, call: MetadataCall): Promise<void> {
  const query = steps.read(call.request);
  const blocks = steps.blocks(query);
  const entries = steps.from(steps.entries(blocks, query), query);
  await steps.send(call, steps.messages(entries, query), query);
}

/** Waits while the client does not read. A call that has ended gets no status. */
export async function send(call: MetadataCall, messages: readonly Message[]): Promise<void> {
  for (const message of messages) {
    if (call.cancelled) return;
    if (call.write(message)) continue;
    while (call.writableNeedDrain && !call.cancelled) await delay(1);
  }
}

function read(state: State, request: Message): Query {
  const isDelta = 'base_snapshot_id' in request;
  const [baseId, targetId] = isDelta ? ['base_snapshot_id', 'target_snapshot_id'] : [null, 'snapshot_id'];
  if (baseId !== null) demand(request, baseId);
  demand(request, targetId);
  const base = baseId === null ? null : state.snapshot(request[baseId]);
  const target = state.snapshot(request[targetId]);
  if (base !== null && base.volumeId !== target.volumeId) {
    throw refusal('INVALID_ARGUMENT', `'${base.id}' and '${target.id}' are of two volumes`);
  }
  if (base !== null && base.sequence > target.sequence) {
    throw refusal('INVALID_ARGUMENT', `'${base.id}' is younger than '${target.id}'`);
  }
  const [start, maxResults] = [Number(request['starting_offset']), Number(request['max_results'])];
  if (maxResults < 0) throw refusal('INVALID_ARGUMENT', `max_results is negative: ${maxResults}`);
  if (start < 0 || start > target.sizeBytes) {
    throw refusal('OUT_OF_RANGE', `starting_offset ${start} is not within ${target.sizeBytes}`);
  }
  return { base, target, start, maxResults };
}

/** The entries from the block that contains the start. */
function clip({ offset, size }: Entry, start: number): Entry {
  const first = Math.max(offset, Math.floor(start / BLOCK_BYTES) * BLOCK_BYTES);
  return { offset: first, size: offset + size - first };
}
