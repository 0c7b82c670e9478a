/** Defects in which metadata requests are refused, and with which status. */

import { status } from '@grpc/grpc-js';
import { type Defect, inList } from './defect.js';
import { type Message, Refusal, type RefusalName, refusal } from './refusal.js';

/** Answers with another code where a correct driver answers `code`. */
function insteadOf(code: RefusalName, wrong: RefusalName): Defect['fault'] {
  return {
    metadata: (correct) => ({
      read: (request: Message) => {
        try {
          return correct.read(request);
        } catch (thrown) {
          if (!(thrown instanceof Refusal) || thrown.code !== status[code]) throw thrown;
          throw refusal(wrong, thrown.details);
        }
      },
    }),
  };
}

/** Applies to deleted snapshots only: ids that never existed are answered correctly. */
function deletedBaseIsEmpty(): Defect['fault'] {
  const deleted = new Set<unknown>();
  return {
    rpcs: (correct, state) => ({
      DeleteSnapshot: (request) => {
        const id = request['snapshot_id'];
        if (state.snapshots.has(id)) deleted.add(id);
        return correct['DeleteSnapshot']?.(request) ?? {};
      },
    }),
    metadata: (correct) => ({
      read: (request) =>
        correct.read(
          deleted.has(request['base_snapshot_id'])
            ? { ...request, base_snapshot_id: request['target_snapshot_id'] }
            : request,
        ),
    }),
  };
}

export const REQUEST_DEFECTS: readonly Defect[] = [
  {
    name: 'unknown-is-invalid',
    does: 'answers INVALID_ARGUMENT for an unknown snapshot (vSphere)',
    caughtBy: ['metadata.not-found'],
    fault: insteadOf('NOT_FOUND', 'INVALID_ARGUMENT'),
  },
  {
    name: 'unknown-is-internal',
    does: 'answers INTERNAL for an unknown snapshot',
    caughtBy: ['metadata.not-found'],
    fault: insteadOf('NOT_FOUND', 'INTERNAL'),
  },
  {
    name: 'unknown-is-empty',
    does: 'answers OK with an empty list for an unknown snapshot',
    caughtBy: ['metadata.not-found'],
    fault: inList('read', (correct, state) => (request) => {
      const known = [...state.snapshots.values()].at(-1);
      const replace = (id: unknown): unknown =>
        typeof id === 'string' && id !== '' && !state.snapshots.has(id) ? known?.id : id;
      return correct.read({
        ...request,
        ...('snapshot_id' in request
          ? { snapshot_id: replace(request['snapshot_id']) }
          : {
              base_snapshot_id: replace(request['base_snapshot_id']),
              target_snapshot_id: replace(request['target_snapshot_id']),
            }),
      });
    }),
  },
  {
    name: 'missing-id-is-not-found',
    does: 'answers NOT_FOUND when an id is missing',
    caughtBy: ['metadata.id-missing'],
    fault: inList('read', (correct, state) => (request) => {
      for (const field of ['snapshot_id', 'base_snapshot_id', 'target_snapshot_id']) {
        if (request[field] === '') state.snapshot('');
      }
      return correct.read(request);
    }),
  },
  {
    name: 'other-volume-accepted',
    does: 'answers a delta between snapshots of two volumes with an empty list',
    caughtBy: ['metadata.other-volume'],
    fault: inList('read', (correct, state) => (request) => {
      const [base, target] = [request['base_snapshot_id'], request['target_snapshot_id']];
      const baseVolume = state.snapshots.get(base)?.volumeId;
      const targetVolume = state.snapshots.get(target)?.volumeId;
      const isOther = baseVolume && targetVolume && baseVolume !== targetVolume;
      return correct.read(isOther ? { ...request, base_snapshot_id: target } : request);
    }),
  },
  {
    name: 'reversed-is-empty',
    does: 'answers a delta from a newer to an older snapshot with an empty list',
    caughtBy: ['metadata.reversed'],
    fault: inList('read', (correct, state) => (request) => {
      const base = state.snapshots.get(request['base_snapshot_id']);
      const target = state.snapshots.get(request['target_snapshot_id']);
      const isReversed =
        base !== undefined &&
        target !== undefined &&
        base.volumeId === target.volumeId &&
        base.sequence > target.sequence;
      return correct.read(isReversed ? { ...request, base_snapshot_id: target?.id } : request);
    }),
  },
  {
    name: 'same-is-everything',
    does: 'fails with INTERNAL for a delta of a snapshot with itself',
    caughtBy: ['metadata.same'],
    fault: inList('read', (correct) => (request) => {
      const query = correct.read(request);
      if (query.base === query.target) throw refusal('INTERNAL', 'nothing to compare');
      return query;
    }),
  },
  {
    name: 'nothing-is-refused',
    does: 'answers FAILED_PRECONDITION when there is nothing to report',
    caughtBy: ['metadata.empty-delta', 'metadata.empty-allocated', 'metadata.empty-message'],
    fault: inList('blocks', (correct) => async (query) => {
      const blocks = await correct.blocks(query);
      if (blocks.length === 0) throw refusal('FAILED_PRECONDITION', 'no metadata');
      return blocks;
    }),
  },
  {
    name: 'deleted-base-is-empty',
    does: 'answers a delta from a deleted base with an empty list',
    caughtBy: ['delta.base-deleted'],
    fault: deletedBaseIsEmpty(),
  },
  {
    name: 'source-deleted-loses-deltas',
    does: 'fails once the source volume is deleted although its snapshots still exist (host-path)',
    caughtBy: ['metadata.deleted-source'],
    fault: inList('read', (correct, state) => (request) => {
      const query = correct.read(request);
      state.volume(query.target.volumeId);
      return query;
    }),
  },
];
