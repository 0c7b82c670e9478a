/** Defects that lose data: blocks that belong on the list are missing, or copies are empty. */
import { readFileSync } from 'node:fs';
import { after, before, type Defect, type Defects } from './defect.js';
import { BLOCK_BYTES, blockOf, differingBlocks, makeFile } from './disk.js';
import type { Query } from './metadata.js';
import type { State, Volume } from './state.js';

interface Place {
  block: number;
  /** Whether it is the volume's last. */
  isLast: boolean;
  /** On the list. */
  index: number;
  count: number;
  /** What the block holds in the target and, where there is one, in the base. */
  now: Buffer;
  before: Buffer;
  query: Query;
  /** That the target is of. */
  volume: Volume | undefined;
}

/** Leaves blocks out of the deltas or the allocated lists. */
function without(kind: 'delta' | 'allocated', isLost: (place: Place) => boolean): Defect {
  return after('blocks', (blocks, query, state) => {
    const { base, target } = query;
    if ((kind === 'delta') === (base === null)) return blocks;
    const volume = state.volumes.get(target.volumeId);
    const count = blocks.length;
    return blocks.filter((block, index) => {
      const isLast = (block + 1) * BLOCK_BYTES >= target.sizeBytes;
      const now = blockOf(target.bytes, block);
      const before = blockOf((base ?? target).bytes, block);
      return !isLost({ block, isLast, index, count, now, before, query, volume });
    });
  });
}

/** Compares such blocks only from the first byte to the end; it could be lucky with one seed. */
function ignoring([first, end]: readonly [number, number], where: (place: Place) => boolean = () => true): Defect {
  const isLost = (place: Place): boolean =>
    where(place) && place.now.subarray(first, end).equals(place.before.subarray(first, end));
  return { ...without('delta', isLost), seeds: [1, 2, 3] };
}

type Source = 'snapshot' | 'volume';

/** Counts only blocks written since the volume was restored or cloned. */
const forgetsInherited = (from: Source): Defect =>
  without('allocated', ({ block, volume }) => Boolean(volume?.source?.[from] && volume.inherited.includes(block)));
const hasNoDeltas = (from: Source): Defect => without('delta', ({ volume }) => Boolean(volume?.source?.[from]));

/** Empties restored volumes. */
function restoringNothing(isSo: (snapshotId: string, state: State) => boolean): Defect {
  return after('CreateVolume', (answer, _request, state) => {
    const volume = state.volumes.get(answer['volume'].volume_id);
    const source = volume?.source?.['snapshot'];
    if (volume?.device === null && source && isSo(source.snapshot_id, state)) {
      makeFile(volume.path, volume.sizeBytes);
    }
    return answer;
  });
}

const REST = BLOCK_BYTES - 1;

export const ORACLE_DEFECTS: Defects = {
  'delta.content': {
    'leaves one changed block out of every delta': without(
      'delta',
      ({ index, count }) => index === Math.floor(count / 2),
    ),
    "leaves the volume's last block out of deltas": without('delta', ({ isLast }) => isLast),
    "leaves the volume's first block out of deltas": without('delta', ({ block }) => block === 0),
    'leaves blocks that are all zeros now out of deltas': without('delta', ({ now }) =>
      now.equals(Buffer.alloc(BLOCK_BYTES)),
    ),
    'leaves blocks that have been deallocated out of deltas': without(
      'delta',
      ({ block, query }) => !query.target.allocated.includes(block),
    ),
    'reports only blocks that were not allocated before': without(
      'delta',
      ({ block, query }) => query.base?.allocated.includes(block) ?? false,
    ),
    'compares only the first half of every block': { ...ignoring([0, BLOCK_BYTES / 2]), seeds: [1] },
    'ignores the last byte of every block when it compares': ignoring([0, REST]),
    'ignores the first byte of every block when it compares': ignoring([1, BLOCK_BYTES]),
    "ignores the volume's last byte when it compares": ignoring([0, REST], ({ isLast }) => isLast),
    "ignores the volume's first byte when it compares": ignoring([1, BLOCK_BYTES], ({ block }) => block === 0),
  },
  'allocated.content': {
    'leaves one block out of every list of allocated blocks': without(
      'allocated',
      ({ index, count }) => index === Math.floor(count / 2),
    ),
    "leaves the volume's last block out of lists of allocated blocks": without('allocated', ({ isLast }) => isLast),
  },
  'delta.chain': {
    'answers every delta with the changes since the snapshot immediately before the target': before(
      'blocks',
      (query, state) => {
        const { base, target } = query;
        const earlier = state.snapshotsOf(target.volumeId).filter(({ sequence }) => sequence < target.sequence);
        return { ...query, base: base && (earlier.at(-1) ?? base) };
      },
    ),
    'compares the base with the current volume instead of the target': after(
      'blocks',
      (blocks, { base, target }, state) => {
        const live = state.volumes.get(target.volumeId);
        return base && live ? differingBlocks(readFileSync(live.path), base.bytes) : blocks;
      },
    ),
  },
  'delta.resized': {
    'compares only up to the size of the base although the volume has grown': without(
      'delta',
      ({ block, query }) => block * BLOCK_BYTES >= (query.base?.sizeBytes ?? 0),
    ),
  },
  'delta.restored': {
    "leaves data inherited from the snapshot out of a restored volume's allocated blocks (ceph-csi)":
      forgetsInherited('snapshot'),
    'reports no changes of restored volumes': hasNoDeltas('snapshot'),
    'creates an empty volume when asked to restore a snapshot': restoringNothing(() => true),
  },
  'delta.cloned': {
    "leaves data inherited from the source out of a clone's allocated blocks": forgetsInherited('volume'),
    'reports no changes of clones': hasNoDeltas('volume'),
  },
  'groups.restore': {
    'creates an empty volume when asked to restore a member of a group': restoringNothing((snapshotId, state) =>
      Boolean(state.snapshots.get(snapshotId)?.groupId),
    ),
  },
};
