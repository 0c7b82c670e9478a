/** Behaviour that differs from the plugin's and still conforms: no check may fail on it. */
import { isNightly } from '../../support/nightly.js';
import { after, before, type Deviation } from './defect.js';
import { refusal } from './refusal.js';

export interface ConformingDriver extends Deviation {
  /** Patterns of the checks that the behaviour could affect; default: all checks, and in a nightly run alone. */
  only?: readonly string[];
}

/** Of nightly runs alone. */
const more = (...patterns: string[]): string[] => (isNightly ? patterns : []);
/** These of the checks in a plain run. */
const family = (pattern: string, ...plain: string[]): string[] => (isNightly ? [pattern] : plain);

const COARSE_BYTES = 65536;
const CHANGING = /^(Create|Delete|Node(Uns|S)tage|Node(Unp|P)ublish)/;
let changes = 0;

/** By what completes "a driver that ...". */
export const CONFORMING_DRIVERS: Readonly<Record<string, ConformingDriver>> = {
  'sends tuples of any length, starting with the one that contains the offset': {},
  'sends tuples of one length': {
    metadataType: 'FIXED_LENGTH',
    only: [
      'metadata.order',
      'metadata.fixed-length',
      'metadata.entry-size',
      'metadata.resume',
      ...more('metadata.offset-*', 'metadata.max-results', 'metadata.empty-*'),
      ...more('metadata.constant-*', 'groups.delta'),
      ...family('delta.*', 'delta.content'),
      ...family('allocated.*', 'allocated.content'),
    ],
  },
  'clips the first tuple at the offset': { only: ['metadata.offset-*', 'metadata.resume'], clipped: true },
  'does not delete volumes that have snapshots': {
    only: ['metadata.deleted-source', 'metadata.not-found'],
    dependentSnapshots: true,
  },
  'serves only volumes, snapshots and their metadata': {
    only: ['identity.*', 'capability.*', 'volume.*', 'snapshot.*', 'delta.re*', 'groups.*'],
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
  'serves no metadata': {
    only: ['identity.*', 'capability.*', 'metadata.*', 'groups.*'],
    without: ['SNAPSHOT_METADATA_SERVICE'],
  },
  'sends one tuple in each message': {
    only: ['metadata.max-results', 'metadata.message-size', 'metadata.resume'],
    ...before('messages', (query) => ({ ...query, maxResults: 1 })),
  },
  'reports 64 KiB for each block': {
    only: ['metadata.order', 'metadata.entry-size', 'delta.content', ...more('metadata.offset-*')],
    metadata: () => ({
      entries: (blocks, { target }) => {
        const indices = blocks.map((block) => Math.floor((block * 4096) / COARSE_BYTES));
        return [...new Set(indices)].map((index) => ({
          offset: index * COARSE_BYTES,
          size: Math.min(COARSE_BYTES, target.sizeBytes - index * COARSE_BYTES),
        }));
      },
    }),
  },
  'reports the whole volume if any block is to be reported': {
    only: [
      'metadata.order',
      'metadata.cancel',
      'delta.content',
      'metadata.resume',
      ...more('metadata.max-results', 'metadata.offset-*'),
    ],
    ...after('entries', (entries, { target }) => (entries.length === 0 ? [] : [{ offset: 0, size: target.sizeBytes }])),
  },
  'refuses a delta of a snapshot with itself (vSphere)': {
    only: ['metadata.same', 'metadata.empty-*'],
    ...after('read', (query) => {
      if (query.base !== query.target) return query;
      throw refusal('INVALID_ARGUMENT', 'base and target are one snapshot');
    }),
  },
  'answers OUT_OF_RANGE to a resume at the end of the volume (ceph-csi)': {
    only: ['metadata.offset-*', 'metadata.resume'],
    ...after('read', (query) => {
      if (query.start < query.target.sizeBytes) return query;
      throw refusal('OUT_OF_RANGE', 'starting_offset is the end of the volume');
    }),
  },
  'allows a single member of a group to be deleted': {
    only: family('groups.*', 'groups.member-delete', 'groups.delete', 'groups.get'),
    ...before('DeleteSnapshot', (request, state) => {
      const member = state.snapshots.get(request['snapshot_id']);
      const group = state.groups.get(member?.groupId ?? '');
      if (member !== undefined) member.groupId = '';
      if (group !== undefined) {
        group.snapshotIds = group.snapshotIds.filter((id) => id !== member?.id);
      }
      return request;
    }),
  },
  'answers ABORTED to every other call that changes something': {
    only: ['metadata.order', 'groups.create', 'volume.publish-twice'],
    rpc: (name, correct) => (request) => {
      if (CHANGING.test(name)) changes += 1;
      if (!CHANGING.test(name) || changes % 2 === 0) return correct(request);
      throw refusal('ABORTED', 'another call is not done yet');
    },
  },
};
