/** Defects in which metadata requests are refused, and with which status. */
import { status } from '@grpc/grpc-js';
import { after, before, type Defect, type Defects } from './defect.js';
import { type Message, Refusal, type RefusalName, refusal } from './refusal.js';
import type { Snapshot } from './state.js';

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
    'answers INVALID_ARGUMENT for an unknown snapshot (vSphere)':
      insteadOfNotFound('INVALID_ARGUMENT'),
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
    'answers FAILED_PRECONDITION when there is nothing to report': after(
      'blocks',
      async (blocks) => {
        if (blocks.length === 0) throw refusal('FAILED_PRECONDITION', 'no metadata');
        return blocks;
      },
    ),
  },
  'delta.base-deleted': {
    'answers a delta from a deleted base with an empty list': deletedBaseIsEmpty(),
  },
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
