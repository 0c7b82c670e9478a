/** Defects in which metadata requests are refused, and with which status. */

import { status } from '@grpc/grpc-js';
import type { Defect } from './defect.js';
import { type Message, Refusal, type RefusalName, refusal } from './refusal.js';

/** Says another code where an honest driver says `code`. */
function insteadOf(code: RefusalName, wrong: RefusalName): Defect['fault'] {
  return {
    metadata: (honest) => ({
      read: (request: Message) => {
        try {
          return honest.read(request);
        } catch (thrown) {
          if (!(thrown instanceof Refusal) || thrown.code !== status[code]) throw thrown;
          throw refusal(wrong, thrown.details);
        }
      },
    }),
  };
}

/** Only snapshots that were there once: it is honest about ids that never were. */
function deletedBaseIsEmpty(): Defect['fault'] {
  const deleted = new Set<unknown>();
  return {
    rpcs: (honest, state) => ({
      DeleteSnapshot: (request) => {
        const id = request['snapshot_id'];
        if (state.snapshots.has(id)) deleted.add(id);
        return honest['DeleteSnapshot']?.(request) ?? {};
      },
    }),
    metadata: (honest) => ({
      read: (request) =>
        honest.read(
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
    does: 'answers OK with nothing for an unknown snapshot',
    caughtBy: ['metadata.not-found'],
    fault: {
      metadata: (honest, state) => ({
        read: (request) => {
          const known = [...state.snapshots.values()].at(-1);
          const replace = (id: unknown): unknown =>
            typeof id === 'string' && id !== '' && !state.snapshots.has(id) ? known?.id : id;
          return honest.read({
            ...request,
            ...('snapshot_id' in request
              ? { snapshot_id: replace(request['snapshot_id']) }
              : {
                  base_snapshot_id: replace(request['base_snapshot_id']),
                  target_snapshot_id: replace(request['target_snapshot_id']),
                }),
          });
        },
      }),
    },
  },
  {
    name: 'missing-id-is-not-found',
    does: 'answers NOT_FOUND when an id is missing',
    caughtBy: ['metadata.id-missing'],
    fault: {
      metadata: (honest, state) => ({
        read: (request) => {
          for (const field of ['snapshot_id', 'base_snapshot_id', 'target_snapshot_id']) {
            if (request[field] === '') state.snapshot('');
          }
          return honest.read(request);
        },
      }),
    },
  },
  {
    name: 'other-volume-accepted',
    does: 'answers a delta between snapshots of two volumes, with nothing',
    caughtBy: ['metadata.other-volume'],
    fault: {
      metadata: (honest, state) => ({
        read: (request) => {
          const [base, target] = [request['base_snapshot_id'], request['target_snapshot_id']];
          const baseVolume = state.snapshots.get(base)?.volumeId;
          const targetVolume = state.snapshots.get(target)?.volumeId;
          const isOther = baseVolume && targetVolume && baseVolume !== targetVolume;
          return honest.read(isOther ? { ...request, base_snapshot_id: target } : request);
        },
      }),
    },
  },
  {
    name: 'reversed-is-empty',
    does: 'answers a delta from a younger to an older snapshot, with nothing',
    caughtBy: ['metadata.reversed'],
    fault: {
      metadata: (honest, state) => ({
        read: (request) => {
          const base = state.snapshots.get(request['base_snapshot_id']);
          const target = state.snapshots.get(request['target_snapshot_id']);
          const isReversed =
            base !== undefined &&
            target !== undefined &&
            base.volumeId === target.volumeId &&
            base.sequence > target.sequence;
          return honest.read(isReversed ? { ...request, base_snapshot_id: target?.id } : request);
        },
      }),
    },
  },
  {
    name: 'same-is-everything',
    does: 'fails with INTERNAL for a delta of a snapshot with itself',
    caughtBy: ['metadata.same'],
    fault: {
      metadata: (honest) => ({
        read: (request) => {
          const query = honest.read(request);
          if (query.base === query.target) throw refusal('INTERNAL', 'nothing to compare');
          return query;
        },
      }),
    },
  },
  {
    name: 'nothing-is-refused',
    does: 'answers FAILED_PRECONDITION when there is nothing to report',
    caughtBy: ['metadata.empty-delta', 'metadata.empty-allocated', 'metadata.empty-message'],
    fault: {
      metadata: (honest) => ({
        blocks: async (query) => {
          const blocks = await honest.blocks(query);
          if (blocks.length === 0) throw refusal('FAILED_PRECONDITION', 'no metadata');
          return blocks;
        },
      }),
    },
  },
  {
    name: 'deleted-base-is-empty',
    does: 'answers a delta from a deleted base, with nothing',
    caughtBy: ['delta.base-deleted'],
    fault: deletedBaseIsEmpty(),
  },
  {
    name: 'source-deleted-loses-deltas',
    does: 'fails once the source volume is deleted, though its snapshots live on (host-path)',
    caughtBy: ['metadata.deleted-source'],
    fault: {
      metadata: (honest, state) => ({
        read: (request) => {
          const query = honest.read(request);
          state.volume(query.target.volumeId);
          return query;
        },
      }),
    },
  },
];
