/** Defects in where a metadata stream begins and how it ends. */
import { setTimeout as delay } from 'node:timers/promises';
import { Metadata, type StatusObject, status } from '@grpc/grpc-js';
import type { Defect } from './defect.js';
import type { MetadataCall } from './metadata.js';
import { type Message, refusal } from './refusal.js';

/** Reads requests that an honest driver refuses as if the field were another value. */
function reading(field: string, instead: (value: number) => number): Defect['fault'] {
  return {
    metadata: (honest) => ({
      read: (request: Message) =>
        honest.read({ ...request, [field]: instead(Number(request[field])) }),
    }),
  };
}

/** One message after the other, slowly, for as long as the client is there. Resolves to whether all went. */
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

/** Ends OK at once, behind what is written already; end() would wait for a client that does not read. */
function endNow(call: MetadataCall): void {
  const inner = call as unknown as { call: { sendStatus(end: Partial<StatusObject>): void } };
  inner.call.sendStatus({ code: status.OK, details: '', metadata: new Metadata() });
}

/** Streams share where they are. */
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

/** Every other call for the same thing lacks the last tuple. */
function remembersCalls(): Defect['fault'] {
  const calls = new Map<string, number>();
  return {
    metadata: (honest) => ({
      from: (entries, query) => {
        const key = `${query.base?.id} ${query.target.id} ${query.start} ${query.maxResults}`;
        const count = (calls.get(key) ?? 0) + 1;
        calls.set(key, count);
        return honest.from(count % 2 === 0 ? entries.slice(0, -1) : entries, query);
      },
    }),
  };
}

/** Whoever leaves before the end leaves the snapshot busy for ever. */
function leaksOnCancel(): Defect['fault'] {
  const busy = new Set<string>();
  return {
    metadata: (honest) => ({
      read: (request) => {
        const query = honest.read(request);
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
    does: 'begins at the beginning, whatever starting_offset says',
    caughtBy: ['metadata.offset-aligned'],
    fault: {
      metadata: (honest) => ({
        from: (entries, query) => honest.from(entries, { ...query, start: 0 }),
      }),
    },
  },
  {
    name: 'shifts-at-unaligned-start',
    does: 'counts its blocks from an unaligned starting_offset on (host-path)',
    caughtBy: ['metadata.offset-inside'],
    fault: {
      metadata: (honest) => ({
        from: (entries, query) =>
          honest.from(entries, query).map(({ offset, size }) => ({
            offset: offset + (query.start % 4096),
            size,
          })),
      }),
    },
  },
  {
    name: 'skips-the-tuple-it-starts-in',
    does: 'leaves out the tuple that holds starting_offset',
    caughtBy: ['metadata.offset-inside'],
    fault: {
      metadata: () => ({
        from: (entries, { start }) => entries.filter(({ offset }) => offset >= start),
      }),
    },
  },
  {
    name: 'skips-the-tuple-it-starts-at',
    does: 'leaves out the tuple that begins at starting_offset',
    caughtBy: ['metadata.offset-aligned'],
    fault: {
      metadata: (honest) => ({
        from: (entries, query) =>
          honest
            .from(entries, query)
            .filter(({ offset }) => offset === 0 || offset !== query.start),
      }),
    },
  },
  {
    name: 'rounds-the-start-up',
    does: 'begins at the next MiB after starting_offset',
    caughtBy: ['metadata.resume'],
    fault: {
      metadata: (honest) => ({
        from: (entries, query) =>
          honest.from(entries, { ...query, start: Math.ceil(query.start / 2 ** 20) * 2 ** 20 }),
      }),
    },
  },
  {
    name: 'offset-beyond-accepted',
    does: 'answers OK with nothing beyond the end of the volume (host-path)',
    caughtBy: ['metadata.offset-beyond'],
    fault: reading('starting_offset', (value) => Math.min(value, 0)),
  },
  {
    name: 'offset-end-is-invalid',
    does: 'answers INVALID_ARGUMENT when asked to go on at the end of the volume',
    caughtBy: ['metadata.offset-end'],
    fault: {
      metadata: (honest) => ({
        read: (request) => {
          const query = honest.read(request);
          if (query.start < query.target.sizeBytes) return query;
          throw refusal('INVALID_ARGUMENT', `there is nothing at ${query.start}`);
        },
      }),
    },
  },
  {
    name: 'offset-negative-accepted',
    does: 'takes a negative starting_offset for 0',
    caughtBy: ['metadata.offset-negative'],
    fault: reading('starting_offset', (value) => Math.max(value, 0)),
  },
  {
    name: 'max-results-negative-accepted',
    does: 'takes a negative max_results for 0',
    caughtBy: ['metadata.max-results-negative'],
    fault: reading('max_results', (value) => Math.max(value, 0)),
  },
  {
    name: 'max-results-negative-hangs',
    does: 'never ends when max_results is negative (host-path)',
    caughtBy: ['metadata.max-results-negative'],
    fault: {
      metadata: (honest) => ({
        read: (request) => ({
          ...honest.read({ ...request, max_results: 0 }),
          maxResults: Number(request['max_results']),
        }),
        messages: (entries, query) =>
          honest.messages(entries, { ...query, maxResults: Math.max(query.maxResults, 0) }),
        send: async (call, messages, query) => {
          await honest.send(call, messages, query);
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
    fault: {
      metadata: (honest) => ({
        send: async (call, messages, query) => {
          const isEmpty = messages.every((message) => message['block_metadata'].length === 0);
          while (isEmpty && !call.cancelled) await delay(10);
          await honest.send(call, messages, query);
        },
      }),
    },
  },
  {
    name: 'silent-on-nothing',
    does: 'sends no message when there is nothing to report (host-path)',
    caughtBy: ['metadata.empty-message'],
    fault: {
      metadata: (honest) => ({
        messages: (entries, query) => (entries.length === 0 ? [] : honest.messages(entries, query)),
      }),
    },
  },
  {
    name: 'ok-at-the-deadline',
    does: 'ends OK shortly before the deadline, whatever is left (host-path)',
    caughtBy: ['metadata.deadline'],
    fault: {
      metadata: () => ({
        send: async (call, messages) => {
          const deadline = Number(call.getDeadline());
          const isWhole = await slowly(call, messages, () => Date.now() > deadline - 50);
          if (!isWhole) endNow(call);
        },
      }),
    },
  },
  {
    name: 'busy-after-a-cancel',
    does: 'takes a snapshot for busy for ever when a client leaves in the middle',
    caughtBy: ['metadata.cancel'],
    fault: leaksOnCancel(),
  },
  {
    name: 'gives-up-on-slow-readers',
    does: 'ends OK when the client does not read for 50 ms',
    caughtBy: ['metadata.slow-reader'],
    fault: {
      metadata: () => ({
        send: async (call, messages) => {
          for (const message of messages) {
            if (call.write(message)) continue;
            await delay(50);
            if (call.writableNeedDrain) return;
          }
        },
      }),
    },
  },
  {
    name: 'ends-at-a-new-snapshot',
    does: 'ends OK when another snapshot of the volume is made meanwhile',
    caughtBy: ['metadata.busy-volume'],
    fault: {
      metadata: (_honest, state) => ({
        send: async (call, messages, { target }) => {
          const count = (): number => state.snapshotsOf(target.volumeId).length;
          const before = count();
          if (!(await slowly(call, messages, () => count() > before))) endNow(call);
        },
      }),
    },
  },
  {
    name: 'ends-when-its-snapshot-goes',
    does: 'ends OK when the snapshot is deleted meanwhile',
    caughtBy: ['metadata.delete-while-streaming'],
    fault: {
      metadata: (_honest, state) => ({
        send: async (call, messages, { target }) => {
          const isGone = (): boolean => !state.snapshots.has(target.id);
          if (!(await slowly(call, messages, isGone))) endNow(call);
        },
      }),
    },
  },
  {
    name: 'ends-at-a-restore',
    does: 'ends OK when a volume is made from the snapshot meanwhile',
    caughtBy: ['metadata.read-while-streaming'],
    fault: {
      metadata: (_honest, state) => ({
        send: async (call, messages) => {
          const before = state.volumes.size;
          if (!(await slowly(call, messages, () => state.volumes.size > before))) endNow(call);
        },
      }),
    },
  },
  {
    name: 'shared-cursor',
    does: 'keeps one position for all streams',
    caughtBy: ['metadata.two-streams'],
    fault: sharedCursor(),
  },
  {
    name: 'remembers-calls',
    does: 'leaves out the last tuple when a call is repeated, every other time',
    caughtBy: ['metadata.idempotent'],
    fault: remembersCalls(),
  },
];
