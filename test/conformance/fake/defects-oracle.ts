/** Defects that lose data: blocks that belong on the list are missing. */

import { readFileSync } from 'node:fs';
import { type Defect, inList, inRpc } from './defect.js';
import { BLOCK_BYTES, differingBlocks, makeFile } from './disk.js';
import type { Query } from './metadata.js';
import type { State } from './state.js';

/** Leaves blocks out of the deltas, the allocated lists, or both. */
function without(
  kind: 'delta' | 'allocated' | 'both',
  isLost: (block: number, query: Query, state: State) => boolean,
): Defect['fault'] {
  return {
    metadata: (correct, state) => ({
      blocks: async (query) => {
        const blocks = await correct.blocks(query);
        const isOther = kind !== 'both' && (kind === 'delta') === (query.base === null);
        return isOther ? blocks : blocks.filter((block) => !isLost(block, query, state));
      },
    }),
  };
}

function isLastOf({ target }: Query, block: number): boolean {
  return (block + 1) * BLOCK_BYTES >= target.sizeBytes;
}

function placeOf(query: Query, block: number): 'first' | 'last' | 'inside' {
  if (block === 0) return 'first';
  return isLastOf(query, block) ? 'last' : 'inside';
}

/** Leaves blocks out of deltas depending on their content in the target and in the base, and on their place. */
function withoutContents(
  isLost: (now: Buffer, before: Buffer, place: 'first' | 'last' | 'inside') => boolean,
): Defect['fault'] {
  return {
    metadata: (correct) => ({
      blocks: async (query) => {
        const blocks = await correct.blocks(query);
        if (query.base === null) return blocks;
        const [now, before] = [readFileSync(query.target.path), readFileSync(query.base.path)];
        const contentOf = (file: Buffer, block: number): Buffer =>
          file.subarray(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES);
        return blocks.filter(
          (block) =>
            !isLost(contentOf(now, block), contentOf(before, block), placeOf(query, block)),
        );
      },
    }),
  };
}

/** The middle one of the blocks on the list. */
function dropMiddle(isDelta: boolean): Defect['fault'] {
  return {
    metadata: (correct) => ({
      blocks: async (query) => {
        const blocks = await correct.blocks(query);
        if (isDelta === (query.base === null)) return blocks;
        return blocks.filter((_block, index) => index !== Math.floor(blocks.length / 2));
      },
    }),
  };
}

function isMadeFrom(kind: 'snapshot' | 'volume', query: Query, state: State): boolean {
  return Boolean(state.volumes.get(query.target.volumeId)?.source?.[kind]);
}

/** Counts only blocks written since the volume was restored or cloned. */
function forgetsInherited(kind: 'snapshot' | 'volume'): Defect['fault'] {
  return without('allocated', (block, query, state) => {
    const volume = state.volumes.get(query.target.volumeId);
    return isMadeFrom(kind, query, state) && (volume?.inherited.includes(block) ?? false);
  });
}

const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8, 9];

export const ORACLE_DEFECTS: readonly Defect[] = [
  {
    name: 'delta-misses-a-block',
    does: 'leaves one changed block out of every delta',
    caughtBy: ['delta.content'],
    fault: dropMiddle(true),
  },
  {
    name: 'allocated-misses-a-block',
    does: 'leaves one block out of every list of allocated blocks',
    caughtBy: ['allocated.content'],
    fault: dropMiddle(false),
  },
  {
    name: 'delta-misses-the-last-block',
    does: "leaves the volume's last block out of deltas",
    caughtBy: ['delta.content'],
    fault: without('delta', (block, query) => isLastOf(query, block)),
  },
  {
    name: 'allocated-misses-the-last-block',
    does: "leaves the volume's last block out of lists of allocated blocks",
    caughtBy: ['allocated.content'],
    fault: without('allocated', (block, query) => isLastOf(query, block)),
  },
  {
    name: 'delta-misses-the-first-block',
    does: "leaves the volume's first block out of deltas",
    caughtBy: ['delta.content'],
    fault: without('delta', (block) => block === 0),
  },
  {
    name: 'delta-misses-zeroed-blocks',
    does: 'leaves blocks that are all zeros now out of deltas',
    caughtBy: ['delta.content'],
    fault: withoutContents((now) => now.equals(Buffer.alloc(BLOCK_BYTES))),
  },
  {
    name: 'delta-misses-discarded-blocks',
    does: 'leaves blocks that have been deallocated out of deltas',
    caughtBy: ['delta.content'],
    fault: without('delta', (block, { target }) => !target.allocated.includes(block)),
  },
  {
    name: 'delta-misses-rewritten-blocks',
    does: 'reports only blocks that were not allocated before',
    caughtBy: ['delta.content'],
    fault: without('delta', (block, { base }) => base?.allocated.includes(block) ?? false),
  },
  {
    name: 'delta-compares-half-blocks',
    does: 'compares only the first half of every block',
    caughtBy: ['delta.content'],
    fault: withoutContents((now, before) => {
      const half = BLOCK_BYTES / 2;
      return now.subarray(0, half).equals(before.subarray(0, half));
    }),
  },
  {
    name: 'delta-ignores-last-bytes',
    seeds: SEEDS,
    does: 'ignores the last byte of every block when it compares',
    caughtBy: ['delta.content'],
    fault: withoutContents((now, before) => {
      const rest = BLOCK_BYTES - 1;
      return now.subarray(0, rest).equals(before.subarray(0, rest));
    }),
  },
  {
    name: 'delta-ignores-first-bytes',
    seeds: SEEDS,
    does: 'ignores the first byte of every block when it compares',
    caughtBy: ['delta.content'],
    fault: withoutContents((now, before) => now.subarray(1).equals(before.subarray(1))),
  },
  {
    name: 'delta-ignores-the-last-byte',
    seeds: SEEDS,
    does: "ignores the volume's last byte when it compares",
    caughtBy: ['delta.content'],
    fault: withoutContents((now, before, place) => {
      const rest = BLOCK_BYTES - 1;
      return place === 'last' && now.subarray(0, rest).equals(before.subarray(0, rest));
    }),
  },
  {
    name: 'delta-ignores-the-first-byte',
    seeds: SEEDS,
    does: "ignores the volume's first byte when it compares",
    caughtBy: ['delta.content'],
    fault: withoutContents(
      (now, before, place) => place === 'first' && now.subarray(1).equals(before.subarray(1)),
    ),
  },
  {
    name: 'delta-since-the-snapshot-before',
    does: 'answers every delta with the changes since the snapshot immediately before the target',
    caughtBy: ['delta.chain'],
    fault: inList('blocks', (correct, state) => (query) => {
      const { base, target } = query;
      const before = state
        .snapshotsOf(target.volumeId)
        .filter(({ sequence }) => sequence < target.sequence)
        .at(-1);
      return correct.blocks({ ...query, base: base === null ? null : (before ?? base) });
    }),
  },
  {
    name: 'delta-to-the-live-volume',
    does: 'compares the base with the current volume instead of the target',
    caughtBy: ['delta.chain'],
    fault: inList('blocks', (correct, state) => (query) => {
      const live = state.volumes.get(query.target.volumeId);
      return query.base === null || live === undefined
        ? correct.blocks(query)
        : differingBlocks(live.path, query.base.path);
    }),
  },
  {
    name: 'delta-ends-at-the-old-size',
    does: 'compares only up to the size of the base although the volume has grown',
    caughtBy: ['delta.resized'],
    fault: without(
      'delta',
      (block, { base }) => base !== null && block * BLOCK_BYTES >= base.sizeBytes,
    ),
  },
  {
    name: 'restored-forgets-inherited',
    does: "leaves data inherited from the snapshot out of a restored volume's allocated blocks (ceph-csi)",
    caughtBy: ['delta.restored'],
    fault: forgetsInherited('snapshot'),
  },
  {
    name: 'restored-has-no-deltas',
    does: 'reports no changes of restored volumes',
    caughtBy: ['delta.restored'],
    fault: without('delta', (_block, query, state) => isMadeFrom('snapshot', query, state)),
  },
  {
    name: 'cloned-forgets-inherited',
    does: "leaves data inherited from the source out of a clone's allocated blocks",
    caughtBy: ['delta.cloned'],
    fault: forgetsInherited('volume'),
  },
  {
    name: 'cloned-has-no-deltas',
    does: 'reports no changes of clones',
    caughtBy: ['delta.cloned'],
    fault: without('delta', (_block, query, state) => isMadeFrom('volume', query, state)),
  },
  {
    name: 'restores-nothing',
    does: 'creates an empty volume when asked to restore a snapshot',
    caughtBy: ['delta.restored'],
    fault: inRpc('CreateVolume', (correct, state) => async (request) => {
      const answer = await correct(request);
      const volume = state.volumes.get(answer?.['volume'].volume_id);
      if (volume?.source?.['snapshot'] && volume.device === null) {
        await makeFile(volume.path, volume.sizeBytes);
      }
      return answer ?? {};
    }),
  },
];
