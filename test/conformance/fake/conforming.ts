/** Behaviour that differs from the plugin's and still conforms: no check may fail on it. */
import { inList, inRpc } from './defect.js';
import type { Fault } from './driver.js';
import { refusal } from './refusal.js';
import type { FakeOptions } from './state.js';

export interface ConformingDriver {
  name: string;
  /** Completes "a driver that ...". */
  does: string;
  /** Patterns of the checks that the behaviour could affect; default: all checks. */
  only?: readonly string[];
  options?: FakeOptions;
  fault?: Fault;
}

const COARSE_BYTES = 65536;

export const CONFORMING_DRIVERS: readonly ConformingDriver[] = [
  {
    name: 'variable',
    does: 'sends tuples of any length, starting with the one that contains the offset',
  },
  {
    name: 'fixed',
    does: 'sends tuples of one length',
    options: { metadataType: 'FIXED_LENGTH' },
  },
  {
    name: 'clipped',
    does: 'clips the first tuple at the offset',
    only: ['metadata.offset-*', 'metadata.resume'],
    options: { clipped: true },
  },
  {
    name: 'dependent-snapshots',
    does: 'does not delete volumes that have snapshots',
    only: ['metadata.deleted-source', 'metadata.not-found'],
    options: { dependentSnapshots: true },
  },
  {
    name: 'bare',
    does: 'serves only volumes, snapshots and their metadata',
    only: ['identity.*', 'capability.*', 'volume.*', 'snapshot.*', 'delta.re*', 'groups.*'],
    options: {
      without: [
        'GROUP_CONTROLLER_SERVICE',
        'LIST_VOLUMES',
        'LIST_SNAPSHOTS',
        'GET_CAPACITY',
        'CLONE_VOLUME',
        'EXPAND_VOLUME',
        'STAGE_UNSTAGE_VOLUME',
      ],
    },
  },
  {
    name: 'no-metadata',
    does: 'serves no metadata',
    only: ['identity.*', 'capability.*', 'metadata.*', 'groups.*'],
    options: { without: ['SNAPSHOT_METADATA_SERVICE'] },
  },
  {
    name: 'one-tuple-a-message',
    does: 'sends one tuple in each message',
    only: ['metadata.max-results', 'metadata.message-size', 'metadata.resume'],
    fault: inList(
      'messages',
      (correct) => (entries, query) => correct.messages(entries, { ...query, maxResults: 1 }),
    ),
  },
  {
    name: 'coarse',
    does: 'reports 64 KiB for each block',
    only: ['metadata.order', 'metadata.entry-size', 'metadata.offset-*', 'delta.content'],
    fault: inList('entries', () => (blocks, { target }) => {
      const offsets = blocks.map((block) => Math.floor((block * 4096) / COARSE_BYTES));
      return [...new Set(offsets)].map((index) => ({
        offset: index * COARSE_BYTES,
        size: Math.min(COARSE_BYTES, target.sizeBytes - index * COARSE_BYTES),
      }));
    }),
  },
  {
    name: 'all-of-it',
    does: 'reports the whole volume if any block is to be reported',
    only: [
      'metadata.order',
      'metadata.max-results',
      'metadata.offset-*',
      'metadata.resume',
      'metadata.cancel',
      'delta.content',
    ],
    fault: inList(
      'entries',
      () =>
        (blocks, { target }) =>
          blocks.length === 0 ? [] : [{ offset: 0, size: target.sizeBytes }],
    ),
  },
  {
    name: 'same-refused',
    does: 'refuses a delta of a snapshot with itself (vSphere)',
    only: ['metadata.same', 'metadata.empty-*'],
    fault: inList('read', (correct) => (request) => {
      const query = correct.read(request);
      if (query.base === query.target) {
        throw refusal('INVALID_ARGUMENT', 'base and target are one snapshot');
      }
      return query;
    }),
  },
  {
    name: 'end-refused',
    does: 'answers OUT_OF_RANGE to a resume at the end of the volume (ceph-csi)',
    only: ['metadata.offset-*', 'metadata.resume'],
    fault: inList('read', (correct) => (request) => {
      const query = correct.read(request);
      if (query.start === query.target.sizeBytes) {
        throw refusal('OUT_OF_RANGE', 'starting_offset is the end of the volume');
      }
      return query;
    }),
  },
  {
    name: 'members-deletable',
    does: 'allows a single member of a group to be deleted',
    only: ['groups.*'],
    fault: inRpc('DeleteSnapshot', (correct, state) => (request) => {
      const member = state.snapshots.get(request['snapshot_id']);
      const group = state.groups.get(member?.groupId ?? '');
      if (member !== undefined) member.groupId = '';
      if (group !== undefined) {
        group.snapshotIds = group.snapshotIds.filter((id) => id !== member?.id);
      }
      return correct(request);
    }),
  },
  {
    name: 'busy-at-first',
    does: 'answers ABORTED to every other call that changes something',
    only: ['metadata.order', 'groups.create', 'volume.publish-twice'],
    fault: {
      rpcs: (correct) => {
        let calls = 0;
        return Object.fromEntries(
          Object.entries(correct)
            .filter(([name]) =>
              /^(Create|Delete|Node(Un)?(s|S)tage|Node(Un)?(p|P)ublish)/.test(name),
            )
            .map(([name, rpc]) => [
              name,
              (request) => {
                calls += 1;
                if (calls % 2 === 1) throw refusal('ABORTED', 'another call is not done yet');
                return rpc(request);
              },
            ]),
        );
      },
    },
  },
];
