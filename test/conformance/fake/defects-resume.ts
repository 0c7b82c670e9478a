/** Defects in where a metadata stream starts and how it ends. */
import { setTimeout as delay } from 'node:timers/promises';
import { Metadata, type StatusObject, status } from '@grpc/grpc-js';
import { type Defect, inList } from './defect.js';
import type { MetadataCall } from './metadata.js';
import { type Message, refusal } from './refusal.js';

/** Reads requests that a correct driver refuses as if the field had another value. */
function reading(field: string, instead: (value: number) => number): Defect['fault'] {
  return {
    metadata: (correct) => ({
      read: (request: Message) =>
        correct.read({ ...request, [field]: instead(Number(request[field])) }),
    }),
  };
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

/** All streams share one position. */
function sharedCursor(): Defect['fault'] {
  let next = 0;
  return {
    metadata: () => ({
      send: async (call, messages) => {
        next = 0;
        for (let message = messages[0]; message !== undefined; message = messages[next]) {
          if (call.cancelled) return;
          next += 1;
          call.write(message);
          await delay(2);
        }
      },
    }),
  };
}

/** Every other call for the same list lacks the last tuple. */
function remembersCalls(): Defect['fault'] {
  const calls = new Map<string, number>();
  return {
    metadata: (correct) => ({
      from: (entries, query) => {
        const key = `${query.base?.id} ${query.target.id} ${query.start} ${query.maxResults}`;
        const count = (calls.get(key) ?? 0) + 1;
        calls.set(key, count);
        return correct.from(count % 2 === 0 ? entries.slice(0, -1) : entries, query);
      },
    }),
  };
}

/** A client that cancels before the end leaves the snapshot busy for ever. */
function leaksOnCancel(): Defect['fault'] {
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

export const RESUME_DEFECTS: readonly Defect[] = [
  {
    name: 'ignores-starting-offset',
    does: 'starts at the beginning of the volume, ignoring starting_offset',
    caughtBy: ['metadata.offset-aligned'],
    fault: inList(
      'from',
      (correct) => (entries, query) => correct.from(entries, { ...query, start: 0 }),
    ),
  },
  {
    name: 'shifts-at-unaligned-start',
    does: 'counts its blocks from an unaligned starting_offset (host-path)',
    caughtBy: ['metadata.offset-inside'],
    fault: inList(
      'from',
      (correct) => (entries, query) =>
        correct.from(entries, query).map(({ offset, size }) => ({
          offset: offset + (query.start % 4096),
          size,
        })),
    ),
  },
  {
    name: 'skips-the-tuple-it-starts-in',
    does: 'leaves out the tuple that contains starting_offset',
    caughtBy: ['metadata.offset-inside'],
    fault: inList(
      'from',
      () =>
        (entries, { start }) =>
          entries.filter(({ offset }) => offset >= start),
    ),
  },
  {
    name: 'skips-the-tuple-it-starts-at',
    does: 'leaves out the tuple that begins at starting_offset',
    caughtBy: ['metadata.offset-aligned'],
    fault: inList(
      'from',
      (correct) => (entries, query) =>
        correct.from(entries, query).filter(({ offset }) => offset === 0 || offset !== query.start),
    ),
  },
  {
    name: 'rounds-the-start-up',
    does: 'starts at the next MiB after starting_offset',
    caughtBy: ['metadata.resume'],
    fault: inList(
      'from',
      (correct) => (entries, query) =>
        correct.from(entries, { ...query, start: Math.ceil(query.start / 2 ** 20) * 2 ** 20 }),
    ),
  },
  {
    name: 'offset-beyond-accepted',
    does: 'answers OK with an empty list beyond the end of the volume (host-path)',
    caughtBy: ['metadata.offset-beyond'],
    fault: reading('starting_offset', (value) => Math.min(value, 0)),
  },
  {
    name: 'offset-end-is-invalid',
    does: 'answers INVALID_ARGUMENT to a resume at the end of the volume',
    caughtBy: ['metadata.offset-end'],
    fault: inList('read', (correct) => (request) => {
      const query = correct.read(request);
      if (query.start < query.target.sizeBytes) return query;
      throw refusal('INVALID_ARGUMENT', `there is nothing at ${query.start}`);
    }),
  },
  {
    name: 'offset-negative-accepted',
    does: 'treats a negative starting_offset as 0',
    caughtBy: ['metadata.offset-negative'],
    fault: reading('starting_offset', (value) => Math.max(value, 0)),
  },
  {
    name: 'max-results-negative-accepted',
    does: 'treats a negative max_results as 0',
    caughtBy: ['metadata.max-results-negative'],
    fault: reading('max_results', (value) => Math.max(value, 0)),
  },
  {
    name: 'max-results-negative-hangs',
    does: 'never ends the stream when max_results is negative (host-path)',
    caughtBy: ['metadata.max-results-negative'],
    fault: {
      metadata: (correct) => ({
        read: (request) => ({
          ...correct.read({ ...request, max_results: 0 }),
          maxResults: Number(request['max_results']),
        }),
        messages: (entries, query) =>
          correct.messages(entries, { ...query, maxResults: Math.max(query.maxResults, 0) }),
        send: async (call, messages, query) => {
          await correct.send(call, messages, query);
          while (query.maxResults < 0 && !call.cancelled) await delay(10);
        },
      }),
    },
  },
  {
    name: 'hangs-on-nothing',
    does: 'never ends a stream that has nothing to report',
    caughtBy: ['metadata.empty-delta'],
    timeoutMs: 10_000,
    fault: inList('send', (correct) => async (call, messages, query) => {
      const isEmpty = messages.every((message) => message['block_metadata'].length === 0);
      while (isEmpty && !call.cancelled) await delay(10);
      await correct.send(call, messages, query);
    }),
  },
  {
    name: 'silent-on-nothing',
    does: 'sends no message when there is nothing to report (host-path)',
    caughtBy: ['metadata.empty-message'],
    fault: inList(
      'messages',
      (correct) => (entries, query) =>
        entries.length === 0 ? [] : correct.messages(entries, query),
    ),
  },
  {
    name: 'ok-at-the-deadline',
    does: 'ends OK shortly before the deadline with entries unsent',
    caughtBy: ['metadata.deadline'],
    fault: inList('send', () => async (call, messages) => {
      const deadline = Number(call.getDeadline());
      const isWhole = await slowly(call, messages, () => Date.now() > deadline - 50);
      if (!isWhole) endNow(call);
    }),
  },
  {
    name: 'busy-after-a-cancel',
    does: 'considers a snapshot busy for ever once a client has cancelled its stream',
    caughtBy: ['metadata.cancel'],
    fault: leaksOnCancel(),
  },
  {
    name: 'gives-up-on-slow-readers',
    does: 'ends OK when the client does not read for 50 ms',
    caughtBy: ['metadata.slow-reader'],
    fault: inList('send', () => async (call, messages) => {
      for (const message of messages) {
        if (call.write(message)) continue;
        await delay(50);
        if (call.writableNeedDrain) return;
      }
    }),
  },
  {
    name: 'ends-at-a-new-snapshot',
    does: 'ends OK when another snapshot of the volume is created during the stream',
    caughtBy: ['metadata.busy-volume'],
    fault: inList('send', (_correct, state) => async (call, messages, { target }) => {
      const count = (): number => state.snapshotsOf(target.volumeId).length;
      const before = count();
      if (!(await slowly(call, messages, () => count() > before))) endNow(call);
    }),
  },
  {
    name: 'ends-when-its-snapshot-goes',
    does: 'ends OK when the snapshot is deleted during the stream',
    caughtBy: ['metadata.delete-while-streaming'],
    fault: inList('send', (_correct, state) => async (call, messages, { target }) => {
      const isGone = (): boolean => !state.snapshots.has(target.id);
      if (!(await slowly(call, messages, isGone))) endNow(call);
    }),
  },
  {
    name: 'ends-at-a-restore',
    does: 'ends OK when a volume is restored from the snapshot during the stream',
    caughtBy: ['metadata.read-while-streaming'],
    fault: inList('send', (_correct, state) => async (call, messages) => {
      const before = state.volumes.size;
      if (!(await slowly(call, messages, () => state.volumes.size > before))) endNow(call);
    }),
  },
  {
    name: 'shared-cursor',
    does: 'keeps one position for all streams',
    caughtBy: ['metadata.two-streams'],
    fault: sharedCursor(),
  },
  {
    name: 'remembers-calls',
    does: 'leaves out the last tuple in every other repetition of a call',
    caughtBy: ['metadata.idempotent'],
    fault: remembersCalls(),
  },
];
