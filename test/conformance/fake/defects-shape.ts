/** Defects in what the messages of a metadata stream look like, each in a driver that is honest otherwise. */
import type { Defect } from './defect.js';
import { BLOCK_BYTES, entriesOf } from './disk.js';
import type { Message } from './refusal.js';

/** Changes the messages after the first. */
function later(messages: Message[], change: (message: Message) => Message): Message[] {
  return messages.map((message, index) => (index === 0 ? message : change(message)));
}

/** Changes the last tuple of every message that has one. */
function lastTuple(messages: Message[], change: (tuple: Message) => Message[]): Message[] {
  return messages.map((message) => ({
    ...message,
    block_metadata: message['block_metadata'].flatMap((tuple: Message, index: number) =>
      index === message['block_metadata'].length - 1 ? change(tuple) : [tuple],
    ),
  }));
}

export const SHAPE_DEFECTS: readonly Defect[] = [
  {
    name: 'unsorted',
    does: 'sends the tuples in descending order',
    caughtBy: ['metadata.order'],
    fault: { metadata: (honest) => ({ from: (...all) => honest.from(...all).reverse() }) },
  },
  {
    name: 'unsorted-messages',
    does: 'sends its last message first',
    caughtBy: ['metadata.order'],
    fault: {
      metadata: (honest) => ({
        messages: (...all) => {
          const messages = honest.messages(...all);
          return [...messages.slice(-1), ...messages.slice(0, -1)];
        },
      }),
    },
  },
  {
    name: 'overlapping',
    does: 'lets every tuple reach one byte into the next',
    caughtBy: ['metadata.order'],
    fault: {
      metadata: (honest) => ({
        from: (...all) => {
          const entries = honest.from(...all);
          return entries.map(({ offset, size }, index) => {
            const next = entries[index + 1];
            return { offset, size: next === undefined ? size : next.offset + 1 - offset };
          });
        },
      }),
    },
  },
  {
    name: 'repeats-across-messages',
    does: 'begins every message with the last tuple of the one before',
    caughtBy: ['metadata.order'],
    fault: {
      metadata: (honest) => ({
        messages: (entries, query) =>
          honest.messages(
            entries.flatMap((entry, index) => (index % 2 === 1 ? [entry, entry] : [entry])),
            query,
          ),
      }),
    },
  },
  {
    name: 'zero-size',
    does: 'ends every message with a tuple of no bytes',
    caughtBy: ['metadata.entry-size'],
    fault: {
      metadata: (honest) => ({
        messages: (...all) =>
          lastTuple(honest.messages(...all), ({ byte_offset, size_bytes }) => [
            { byte_offset, size_bytes: size_bytes - 512 },
            { byte_offset: byte_offset + size_bytes - 512, size_bytes: 512 },
            { byte_offset: byte_offset + size_bytes, size_bytes: 0 },
          ]),
      }),
    },
  },
  {
    name: 'beyond-capacity',
    does: 'lets the last tuple reach beyond the capacity',
    caughtBy: ['metadata.entry-size'],
    fault: {
      metadata: (honest) => ({
        from: (entries, query) => {
          const all = honest.from(entries, query);
          const last = all.at(-1);
          if (last !== undefined) {
            all[all.length - 1] = { ...last, size: query.target.sizeBytes + 4096 - last.offset };
          }
          return all;
        },
      }),
    },
  },
  {
    name: 'fixed-coalesced',
    does: 'says FIXED_LENGTH and makes one tuple of neighbouring blocks',
    caughtBy: ['metadata.fixed-length'],
    options: { metadataType: 'FIXED_LENGTH' },
    fault: { metadata: () => ({ entries: (blocks) => entriesOf(blocks, true) }) },
  },
  {
    name: 'fixed-short-last',
    does: 'says FIXED_LENGTH and cuts the last block in two',
    caughtBy: ['metadata.fixed-length'],
    options: { metadataType: 'FIXED_LENGTH' },
    fault: {
      metadata: (honest) => ({
        entries: (...all) => {
          const entries = honest.entries(...all);
          const last = entries.pop();
          if (last === undefined) return entries;
          const half = BLOCK_BYTES / 2;
          return [
            ...entries,
            { offset: last.offset, size: half },
            { offset: last.offset + half, size: half },
          ];
        },
      }),
    },
  },
  {
    name: 'type-changes',
    does: 'says VARIABLE_LENGTH in the first message and FIXED_LENGTH in the others',
    caughtBy: ['metadata.constant-type'],
    fault: {
      metadata: (honest) => ({
        messages: (...all) =>
          later(honest.messages(...all), (message) => ({
            ...message,
            block_metadata_type: 'FIXED_LENGTH',
          })),
      }),
    },
  },
  {
    name: 'type-unset',
    does: 'never says how long its tuples are',
    caughtBy: ['metadata.constant-type'],
    fault: {
      metadata: (honest) => ({
        messages: (...all) =>
          honest
            .messages(...all)
            .map((message) => ({ ...message, block_metadata_type: 'UNKNOWN' })),
      }),
    },
  },
  {
    name: 'capacity-changes',
    does: 'tells a larger capacity in every message after the first',
    caughtBy: ['metadata.constant-capacity'],
    fault: {
      metadata: (honest) => ({
        messages: (...all) =>
          later(honest.messages(...all), (message) => ({
            ...message,
            volume_capacity_bytes: message['volume_capacity_bytes'] + 4096,
          })),
      }),
    },
  },
  {
    name: 'capacity-once',
    does: 'tells the capacity in the first message only',
    caughtBy: ['metadata.constant-capacity'],
    fault: {
      metadata: (honest) => ({
        messages: (...all) =>
          later(honest.messages(...all), (message) => ({ ...message, volume_capacity_bytes: 0 })),
      }),
    },
  },
  {
    name: 'capacity-of-the-volume',
    does: "tells the live volume's capacity, not the snapshot's (host-path, vSphere)",
    caughtBy: ['delta.resized'],
    fault: {
      metadata: (honest, state) => ({
        messages: (entries, query) =>
          honest.messages(entries, query).map((message) => ({
            ...message,
            volume_capacity_bytes:
              state.volumes.get(query.target.volumeId)?.sizeBytes ?? query.target.sizeBytes,
          })),
      }),
    },
  },
  {
    name: 'ignores-max-results',
    does: 'puts everything into one message, whatever max_results says',
    caughtBy: ['metadata.max-results'],
    fault: {
      metadata: (honest) => ({
        messages: (entries, query) => honest.messages(entries, { ...query, maxResults: 0 }),
      }),
    },
  },
  {
    name: 'drops-beyond-max-results',
    does: 'sends one message of max_results tuples and ends OK (vSphere)',
    caughtBy: ['metadata.max-results'],
    fault: {
      metadata: (honest) => ({
        messages: (...all) => honest.messages(...all).slice(0, 1),
      }),
    },
  },
  {
    name: 'ends-after-three-messages',
    does: 'ends OK after three messages',
    caughtBy: ['metadata.max-results'],
    fault: {
      metadata: (honest) => ({ messages: (...all) => honest.messages(...all).slice(0, 3) }),
    },
  },
  {
    name: 'huge-messages',
    does: 'sends messages of more than 4 MiB',
    caughtBy: ['metadata.message-size'],
    fault: {
      metadata: (honest) => ({
        messages: (...all) => {
          const [first, ...rest] = honest.messages(...all);
          return [{ ...first, padding: 5 << 20 }, ...rest];
        },
      }),
    },
  },
];
