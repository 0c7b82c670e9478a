/** Defects in the format of metadata messages, each in a driver that is otherwise correct. */
import { after, before, type Defect, type Defects } from './defect.js';
import { BLOCK_BYTES, entriesOf } from './disk.js';
import type { Query } from './metadata.js';
import type { Message } from './refusal.js';
import type { State } from './state.js';

function lastOf<T>(all: readonly T[], change: (last: T) => T[]): T[] {
  const last = all.at(-1);
  return last === undefined ? [] : [...all.slice(0, -1), ...change(last)];
}

/** Other fields in each message; `isFirst` where it is the first of its list. */
function inEach(
  fields: (message: Message, isFirst: boolean, query: Query, state: State) => Message,
): Defect {
  return after('messages', (messages, query, state) =>
    messages.map((message, index) => ({
      ...message,
      ...fields(message, index === 0, query, state),
    })),
  );
}

export const SHAPE_DEFECTS: Defects = {
  'metadata.order': {
    'sends the tuples in descending order': after('from', (entries) => entries.reverse()),
    'sends its last message first': after('messages', (messages) => [
      ...messages.slice(-1),
      ...messages.slice(0, -1),
    ]),
    'makes every tuple overlap the next by one byte': after('from', (entries) =>
      entries.map(({ offset, size }, index) => {
        const next = entries[index + 1];
        return { offset, size: next === undefined ? size : next.offset + 1 - offset };
      }),
    ),
    'repeats the last tuple of every message in the next': after('from', (entries) =>
      entries.flatMap((entry, index) => (index % 2 === 1 ? [entry, entry] : [entry])),
    ),
  },
  'metadata.entry-size': {
    'ends every message with an empty tuple': inEach((message) => ({
      block_metadata: lastOf<Message>(message['block_metadata'], ({ byte_offset, size_bytes }) => [
        { byte_offset, size_bytes: size_bytes - 512 },
        { byte_offset: byte_offset + size_bytes - 512, size_bytes: 512 },
        { byte_offset: byte_offset + size_bytes, size_bytes: 0 },
      ]),
    })),
    'extends the last tuple beyond the capacity': after('from', (entries, { target }) =>
      lastOf(entries, ({ offset }) => [{ offset, size: target.sizeBytes + 4096 - offset }]),
    ),
  },
  'metadata.fixed-length': {
    'declares FIXED_LENGTH and merges adjacent blocks into one tuple': {
      metadataType: 'FIXED_LENGTH',
      metadata: () => ({ entries: (blocks) => entriesOf(blocks, true) }),
    },
    'declares FIXED_LENGTH and splits the last block in two': {
      metadataType: 'FIXED_LENGTH',
      ...after('entries', (entries) =>
        lastOf(entries, ({ offset }) => [
          { offset, size: BLOCK_BYTES / 2 },
          { offset: offset + BLOCK_BYTES / 2, size: BLOCK_BYTES / 2 },
        ]),
      ),
    },
  },
  'metadata.constant-type': {
    'declares VARIABLE_LENGTH in the first message and FIXED_LENGTH in the others': inEach(
      (_, isFirst) => (isFirst ? {} : { block_metadata_type: 'FIXED_LENGTH' }),
    ),
    'never sets block_metadata_type': inEach(() => ({ block_metadata_type: 'UNKNOWN' })),
  },
  'metadata.constant-capacity': {
    'reports a larger capacity in every message after the first': inEach((message, isFirst) =>
      isFirst ? {} : { volume_capacity_bytes: message['volume_capacity_bytes'] + 4096 },
    ),
    'reports the capacity in the first message only': inEach((_, isFirst) =>
      isFirst ? {} : { volume_capacity_bytes: 0 },
    ),
  },
  'delta.resized': {
    "reports the live volume's capacity instead of the snapshot's (host-path, vSphere)": inEach(
      (message, _, { target }, state) => ({
        volume_capacity_bytes:
          state.volumes.get(target.volumeId)?.sizeBytes ?? message['volume_capacity_bytes'],
      }),
    ),
  },
  'metadata.max-results': {
    'sends everything in one message, ignoring max_results': before('messages', (query) => ({
      ...query,
      maxResults: 0,
    })),
    'sends one message of max_results tuples and ends OK (vSphere)': after('messages', (messages) =>
      messages.slice(0, 1),
    ),
    'ends OK after three messages': after('messages', (messages) => messages.slice(0, 3)),
  },
  'metadata.message-size': {
    'sends messages of more than 4 MiB': inEach((_, isFirst) =>
      isFirst ? { padding: 5 << 20 } : {},
    ),
  },
};
