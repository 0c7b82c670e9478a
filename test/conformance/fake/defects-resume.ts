/** Defects in where a metadata stream starts and how it ends. */
import { setTimeout as delay } from 'node:timers/promises';
import { Metadata, type StatusObject, status } from '@grpc/grpc-js';
import { after, before, type Defect, type Defects } from './defect.js';
import { type MetadataCall, type Query, send } from './metadata.js';
import { type Message, refusal } from './refusal.js';
import type { State } from './state.js';

const MIB = 2 ** 20;

/** Reads requests that a correct driver refuses as if the field had another value. */
function reading(field: string, instead: (value: number) => number): Defect {
  return before('read', (request) => ({ ...request, [field]: instead(Number(request[field])) }));
}

function sending(run: (call: MetadataCall, messages: Message[], query: Query, state: State) => Promise<void>): Defect {
  return { metadata: (_correct, state) => ({ send: (call, messages, query) => run(call, messages, query, state) }) };
}

/** Sends messages slowly for as long as the client stays. Resolves to whether all were sent. */
async function slowly(
  call: MetadataCall,
  messages: readonly Message[],
  until: () => boolean = () => false,
): Promise<boolean> {
  for (const message of messages) {
    if (call.cancelled || until()) return false;
    call.write(message);
    await delay(10);
  }
  return true;
}

/** Ends OK at once, after what is already written; end() would wait for a client that does not read. */
export function endNow(call: MetadataCall): void {
  const inner = call as unknown as { call: { sendStatus(end: Partial<StatusObject>): void } };
  inner.call.sendStatus({ code: status.OK, details: '', metadata: new Metadata() });
}

/** Ends OK with messages unsent when something happens; `watch` is called as the stream begins. */
function endsWhen(watch: (query: Query, state: State, call: MetadataCall) => () => boolean): Defect {
  return sending(async (call, messages, query, state) => {
    if (!(await slowly(call, messages, watch(query, state, call)))) endNow(call);
  });
}

/** All streams share one position. */
function sharedCursor(): Defect {
  let next = 0;
  return sending(async (call, messages) => {
    next = 0;
    for (let message = messages[0]; message !== undefined; message = messages[next]) {
      if (call.cancelled) return;
      next += 1;
      call.write(message);
      await delay(2);
    }
  });
}

/** Every other call for the same list lacks the last tuple. */
function remembersCalls(): Defect {
  const calls = new Map<string, number>();
  return after('from', (entries, query) => {
    const key = `${query.base?.id} ${query.target.id} ${query.start} ${query.maxResults}`;
    const count = (calls.get(key) ?? 0) + 1;
    calls.set(key, count);
    return count % 2 === 0 ? entries.slice(0, -1) : entries;
  });
}

/** A client that cancels before the end leaves the snapshot busy for ever. */
function leaksOnCancel(): Defect {
  const busy = new Set<string>();
  return {
    metadata: (correct) => ({
      read: (request) => {
        const query = correct.read(request);
        if (!busy.has(query.target.id)) return query;
        throw refusal('ABORTED', `snapshot '${query.target.id}' is being read`);
      },
      send: async (call, messages, query) => {
        if (!(await slowly(call, messages))) busy.add(query.target.id);
      },
    }),
  };
}

export const RESUME_DEFECTS: Defects = {
  'metadata.offset-aligned': {
    'starts at the beginning of the volume, ignoring starting_offset': before('from', (query) => ({
      ...query,
      start: 0,
    })),
    'leaves out the tuple that begins at starting_offset': after('from', (entries, { start }) =>
      entries.filter(({ offset }) => offset === 0 || offset !== start),
    ),
  },
  'metadata.offset-inside': {
    'counts its blocks from an unaligned starting_offset (host-path)': after('from', (entries, { start }) =>
      entries.map(({ offset, size }) => ({ offset: offset + (start % 4096), size })),
    ),
    'leaves out the tuple that contains starting_offset': after('from', (entries, { start }) =>
      entries.filter(({ offset }) => offset >= start),
    ),
  },
  'metadata.resume': {
    'starts at the next MiB after starting_offset': before('from', (query) => ({
      ...query,
      start: Math.ceil(query.start / MIB) * MIB,
    })),
  },
  'metadata.offset-beyond': {
    'answers OK with an empty list beyond the end of the volume (host-path)': reading('starting_offset', (value) =>
      Math.min(value, 0),
    ),
  },
  'metadata.offset-end': {
    'answers INVALID_ARGUMENT to a resume at the end of the volume': after('read', (query) => {
      if (query.start < query.target.sizeBytes) return query;
      throw refusal('INVALID_ARGUMENT', `there is nothing at ${query.start}`);
    }),
  },
  'metadata.offset-negative': {
    'treats a negative starting_offset as 0': reading('starting_offset', (value) => Math.max(value, 0)),
  },
  'metadata.max-results-negative': {
    'treats a negative max_results as 0': reading('max_results', (value) => Math.max(value, 0)),
    'never ends the stream when max_results is negative (host-path)': {
      metadata: (correct) => ({
        read: (request) => ({
          ...correct.read({ ...request, max_results: 0 }),
          maxResults: Number(request['max_results']),
        }),
        messages: (entries, query) =>
          correct.messages(entries, { ...query, maxResults: Math.max(query.maxResults, 0) }),
        send: async (call, messages, query) => {
          await send(call, messages);
          while (query.maxResults < 0 && !call.cancelled) await delay(10);
        },
      }),
    },
  },
  'metadata.empty-delta': {
    'never ends a stream that has nothing to report': {
      timeoutMs: 10_000,
      ...sending(async (call, messages) => {
        const isEmpty = messages.every((message) => message['block_metadata'].length === 0);
        while (isEmpty && !call.cancelled) await delay(10);
        await send(call, messages);
      }),
    },
  },
  'metadata.empty-message': {
    'sends no message when there is nothing to report (host-path)': after('messages', (messages) =>
      messages[0]?.['block_metadata'].length === 0 ? [] : messages,
    ),
  },
  'metadata.deadline': {
    'ends OK shortly before the deadline with entries unsent': endsWhen((_query, _state, call) => {
      const deadline = Number(call.getDeadline());
      return () => Date.now() > deadline - 50;
    }),
  },
  'metadata.cancel': { 'considers a snapshot busy for ever once a client has cancelled its stream': leaksOnCancel() },
  'metadata.slow-reader': {
    'ends OK when the client does not read for 50 ms': sending(async (call, messages) => {
      for (const message of messages) {
        if (call.write(message)) continue;
        await delay(50);
        if (call.writableNeedDrain) return;
      }
    }),
  },
  'metadata.busy-volume': {
    'ends OK when another snapshot of the volume is created during the stream': endsWhen(({ target }, state) => {
      const before = state.snapshotsOf(target.volumeId).length;
      return () => state.snapshotsOf(target.volumeId).length > before;
    }),
  },
  'metadata.delete-while-streaming': {
    'ends OK when the snapshot is deleted during the stream': endsWhen(
      ({ target }, state) =>
        () =>
          !state.snapshots.has(target.id),
    ),
  },
  'metadata.read-while-streaming': {
    'ends OK when a volume is restored from the snapshot during the stream': endsWhen((_query, state) => {
      const before = state.volumes.size;
      return () => state.volumes.size > before;
    }),
  },
  'metadata.two-streams': { 'keeps one position for all streams': sharedCursor() },
  'metadata.idempotent': { 'leaves out the last tuple in every other repetition of a call': remembersCalls() },
};
