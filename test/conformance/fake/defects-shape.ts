/** Defects in the format of metadata messages, each in a driver that is otherwise correct. */
import { type Defect, inList } from './defect.js';
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
    fault: { metadata: (correct) => ({ from: (...all) => correct.from(...all).reverse() }) },
  },
  {
    name: 'unsorted-messages',
    does: 'sends its last message first',
    caughtBy: ['metadata.order'],
    fault: inList('messages', (correct) => (...all) => {
      const messages = correct.messages(...all);
      return [...messages.slice(-1), ...messages.slice(0, -1)];
    }),
  },
  {
    name: 'overlapping',
    does: 'makes every tuple overlap the next by one byte',
    caughtBy: ['metadata.order'],
    fault: inList('from', (correct) => (...all) => {
      const entries = correct.from(...all);
      return entries.map(({ offset, size }, index) => {
        const next = entries[index + 1];
        return { offset, size: next === undefined ? size : next.offset + 1 - offset };
      });
    }),
  },
  {
    name: 'repeats-across-messages',
    does: 'repeats the last tuple of every message in the next',
    caughtBy: ['metadata.order'],
    fault: inList(
      'messages',
      (correct) => (entries, query) =>
        correct.messages(
          entries.flatMap((entry, index) => (index % 2 === 1 ? [entry, entry] : [entry])),
          query,
        ),
    ),
  },
  {
    name: 'zero-size',
    does: 'ends every message with an empty tuple',
    caughtBy: ['metadata.entry-size'],
    fault: inList(
      'messages',
      (correct) =>
        (...all) =>
          lastTuple(correct.messages(...all), ({ byte_offset, size_bytes }) => [
            { byte_offset, size_bytes: size_bytes - 512 },
            { byte_offset: byte_offset + size_bytes - 512, size_bytes: 512 },
            { byte_offset: byte_offset + size_bytes, size_bytes: 0 },
          ]),
    ),
  },
  {
    name: 'beyond-capacity',
    does: 'extends the last tuple beyond the capacity',
    caughtBy: ['metadata.entry-size'],
    fault: inList('from', (correct) => (entries, query) => {
      const all = correct.from(entries, query);
      const last = all.at(-1);
      if (last !== undefined) {
        all[all.length - 1] = { ...last, size: query.target.sizeBytes + 4096 - last.offset };
      }
      return all;
    }),
  },
  {
    name: 'fixed-coalesced',
    does: 'declares FIXED_LENGTH and merges adjacent blocks into one tuple',
    caughtBy: ['metadata.fixed-length'],
    options: { metadataType: 'FIXED_LENGTH' },
    fault: { metadata: () => ({ entries: (blocks) => entriesOf(blocks, true) }) },
  },
  {
    name: 'fixed-short-last',
    does: 'declares FIXED_LENGTH and splits the last block in two',
    caughtBy: ['metadata.fixed-length'],
    options: { metadataType: 'FIXED_LENGTH' },
    fault: inList('entries', (correct) => (...all) => {
      const entries = correct.entries(...all);
      const last = entries.pop();
      if (last === undefined) return entries;
      const half = BLOCK_BYTES / 2;
      return [
        ...entries,
        { offset: last.offset, size: half },
        { offset: last.offset + half, size: half },
      ];
    }),
  },
  {
    name: 'type-changes',
    does: 'declares VARIABLE_LENGTH in the first message and FIXED_LENGTH in the others',
    caughtBy: ['metadata.constant-type'],
    fault: inList(
      'messages',
      (correct) =>
        (...all) =>
          later(correct.messages(...all), (message) => ({
            ...message,
            block_metadata_type: 'FIXED_LENGTH',
          })),
    ),
  },
  {
    name: 'type-unset',
    does: 'never sets block_metadata_type',
    caughtBy: ['metadata.constant-type'],
    fault: inList(
      'messages',
      (correct) =>
        (...all) =>
          correct
            .messages(...all)
            .map((message) => ({ ...message, block_metadata_type: 'UNKNOWN' })),
    ),
  },
  {
    name: 'capacity-changes',
    does: 'reports a larger capacity in every message after the first',
    caughtBy: ['metadata.constant-capacity'],
    fault: inList(
      'messages',
      (correct) =>
        (...all) =>
          later(correct.messages(...all), (message) => ({
            ...message,
            volume_capacity_bytes: message['volume_capacity_bytes'] + 4096,
          })),
    ),
  },
  {
    name: 'capacity-once',
    does: 'reports the capacity in the first message only',
    caughtBy: ['metadata.constant-capacity'],
    fault: inList(
      'messages',
      (correct) =>
        (...all) =>
          later(correct.messages(...all), (message) => ({ ...message, volume_capacity_bytes: 0 })),
    ),
  },
  {
    name: 'capacity-of-the-volume',
    does: "reports the live volume's capacity instead of the snapshot's (host-path, vSphere)",
    caughtBy: ['delta.resized'],
    fault: inList(
      'messages',
      (correct, state) => (entries, query) =>
        correct.messages(entries, query).map((message) => ({
          ...message,
          volume_capacity_bytes:
            state.volumes.get(query.target.volumeId)?.sizeBytes ?? query.target.sizeBytes,
        })),
    ),
  },
  {
    name: 'ignores-max-results',
    does: 'sends everything in one message, ignoring max_results',
    caughtBy: ['metadata.max-results'],
    fault: inList(
      'messages',
      (correct) => (entries, query) => correct.messages(entries, { ...query, maxResults: 0 }),
    ),
  },
  {
    name: 'drops-beyond-max-results',
    does: 'sends one message of max_results tuples and ends OK (vSphere)',
    caughtBy: ['metadata.max-results'],
    fault: inList(
      'messages',
      (correct) =>
        (...all) =>
          correct.messages(...all).slice(0, 1),
    ),
  },
  {
    name: 'ends-after-three-messages',
    does: 'ends OK after three messages',
    caughtBy: ['metadata.max-results'],
    fault: {
      metadata: (correct) => ({ messages: (...all) => correct.messages(...all).slice(0, 3) }),
    },
  },
  {
    name: 'huge-messages',
    does: 'sends messages of more than 4 MiB',
    caughtBy: ['metadata.message-size'],
    fault: inList('messages', (correct) => (...all) => {
      const [first, ...rest] = correct.messages(...all);
      return [{ ...first, padding: 5 << 20 }, ...rest];
    }),
  },
];
