/** Defects in metadata messages, and in which requests are refused with which status. */
import { status } from '@grpc/grpc-js';
import { after, before, type Defect, type Defects } from './defect.js';
import { BLOCK_BYTES, entriesOf } from './disk.js';
import type { Query } from './metadata.js';
import { type Message, Refusal, type RefusalName, refusal } from './refusal.js';
import type { Snapshot, State } from './state.js';

function lastOf<T>(all: readonly T[], change: (last: T) => T[]): T[] {
  const last = all.at(-1);
  return last === undefined ? [] : [...all.slice(0, -1), ...change(last)];
}

/** Other fields in each message; `isFirst` where it is the first of its list. */
function inEach(fields: (message: Message, isFirst: boolean, query: Query, state: State) => Message): Defect {
  return after('messages', (messages, query, state) =>
    messages.map((message, index) => ({ ...message, ...fields(message, index === 0, query, state) })),
  );
}

export const SHAPE_DEFECTS: Defects = {
  'metadata.order': {
    'sends the tuples in descending order': after('from', (entries) => entries.reverse()),
    'sends its last message first': after('messages', (messages) => [...messages.slice(-1), ...messages.slice(0, -1)]),
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
    'declares VARIABLE_LENGTH in the first message and FIXED_LENGTH in the others': inEach((_, isFirst) =>
      isFirst ? {} : { block_metadata_type: 'FIXED_LENGTH' },
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
        volume_capacity_bytes: state.volumes.get(target.volumeId)?.sizeBytes ?? message['volume_capacity_bytes'],
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
    'sends messages of more than 4 MiB': inEach((_, isFirst) => (isFirst ? { padding: 5 << 20 } : {})),
  },
};

/** Answers with another code where a correct driver answers NOT_FOUND. */
function insteadOfNotFound(wrong: RefusalName): Defect {
  return {
    metadata: (correct) => ({
      read: (request) => {
        try {
          return correct.read(request);
        } catch (thrown) {
          if (!(thrown instanceof Refusal) || thrown.code !== status.NOT_FOUND) throw thrown;
          throw refusal(wrong, thrown.details);
        }
      },
    }),
  };
}

/** Answers such a delta with an empty list. */
function emptyFor(
  isSo: (base: Snapshot, target: Snapshot) => boolean,
  isSoById: (baseId: string) => boolean = () => false,
): Defect {
  return before('read', (request, state) => {
    const { base_snapshot_id: baseId, target_snapshot_id: targetId } = request;
    const [base, target] = [baseId, targetId].map((id) => state.snapshots.get(id));
    const isEmpty = isSoById(baseId) || (base && target && isSo(base, target));
    return isEmpty ? { ...request, base_snapshot_id: targetId } : request;
  });
}

/** Applies to deleted snapshots only: ids that never existed are answered correctly. */
function deletedBaseIsEmpty(): Defect {
  const deleted = new Set<string>();
  return {
    ...before('DeleteSnapshot', (request, state) => {
      if (state.snapshots.has(request['snapshot_id'])) deleted.add(request['snapshot_id']);
      return request;
    }),
    ...emptyFor(
      () => false,
      (baseId) => deleted.has(baseId),
    ),
  };
}

export const REQUEST_DEFECTS: Defects = {
  'metadata.not-found': {
    'answers INVALID_ARGUMENT for an unknown snapshot (vSphere)': insteadOfNotFound('INVALID_ARGUMENT'),
    'answers INTERNAL for an unknown snapshot': insteadOfNotFound('INTERNAL'),
    'answers OK with an empty list for an unknown snapshot': before('read', (request, state) => {
      const known = [...state.snapshots.keys()].at(-1);
      const isUnknown = (id: string): boolean => id !== '' && !state.snapshots.has(id);
      const changed: Message = { ...request };
      for (const field of Object.keys(request)) {
        if (/snapshot_id$/.test(field) && isUnknown(request[field])) changed[field] = known;
      }
      return changed;
    }),
  },
  'metadata.id-missing': {
    'answers NOT_FOUND when an id is missing': before('read', (request, state) => {
      if (Object.values(request).includes('')) state.snapshot('');
      return request;
    }),
  },
  'metadata.other-volume': {
    'answers a delta between snapshots of two volumes with an empty list': emptyFor(
      (base, target) => base.volumeId !== target.volumeId,
    ),
  },
  'metadata.reversed': {
    'answers a delta from a newer to an older snapshot with an empty list': emptyFor(
      (base, target) => base.volumeId === target.volumeId && base.sequence > target.sequence,
    ),
  },
  'metadata.same': {
    'fails with INTERNAL for a delta of a snapshot with itself': after('read', (query) => {
      if (query.base === query.target) throw refusal('INTERNAL', 'nothing to compare');
      return query;
    }),
  },
  'metadata.empty-delta, metadata.empty-allocated, metadata.empty-message': {
    'answers FAILED_PRECONDITION when there is nothing to report': after('blocks', (blocks) => {
      if (blocks.length === 0) throw refusal('FAILED_PRECONDITION', 'no metadata');
      return blocks;
    }),
  },
  'delta.base-deleted': { 'answers a delta from a deleted base with an empty list': deletedBaseIsEmpty() },
  'metadata.deleted-source': {
    'fails once the source volume is deleted although its snapshots still exist (host-path)': after(
      'read',
      (query, _request, state) => {
        state.volume(query.target.volumeId);
        return query;
      },
    ),
  },
};
