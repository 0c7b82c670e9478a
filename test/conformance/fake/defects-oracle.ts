/** Defects that lose data: blocks that belong on the list and are not there. */

import { readFileSync } from 'node:fs';
import type { Defect } from './defect.js';
import { BLOCK_BYTES, differingBlocks, makeFile } from './disk.js';
import type { Query } from './metadata.js';
import type { State } from './state.js';

/** Leaves blocks out of the deltas, the allocated lists, or both. */
function without(
  kind: 'delta' | 'allocated' | 'both',
  isLost: (block: number, query: Query, state: State) => boolean,
): Defect['fault'] {
  return {
    metadata: (honest, state) => ({
      blocks: async (query) => {
        const blocks = await honest.blocks(query);
        const isOther = kind !== 'both' && (kind === 'delta') === (query.base === null);
        return isOther ? blocks : blocks.filter((block) => !isLost(block, query, state));
      },
    }),
  };
}

function isLastOf({ target }: Query, block: number): boolean {
  return (block + 1) * BLOCK_BYTES >= target.sizeBytes;
}

/** Leaves blocks out of deltas by what they hold in the target and in the base. */
function withoutContents(isLost: (now: Buffer, before: Buffer) => boolean): Defect['fault'] {
  return {
    metadata: (honest) => ({
      blocks: async (query) => {
        const blocks = await honest.blocks(query);
        if (query.base === null) return blocks;
        const [now, before] = [readFileSync(query.target.path), readFileSync(query.base.path)];
        const contentOf = (file: Buffer, block: number): Buffer =>
          file.subarray(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES);
        return blocks.filter((block) => !isLost(contentOf(now, block), contentOf(before, block)));
      },
    }),
  };
}

/** The middle one of the blocks on the list. */
function dropMiddle(isDelta: boolean): Defect['fault'] {
  return {
    metadata: (honest) => ({
      blocks: async (query) => {
        const blocks = await honest.blocks(query);
        if (isDelta === (query.base === null)) return blocks;
        return blocks.filter((_block, index) => index !== Math.floor(blocks.length / 2));
      },
    }),
  };
}

function isMadeFrom(kind: 'snapshot' | 'volume', query: Query, state: State): boolean {
  return Boolean(state.volumes.get(query.target.volumeId)?.source?.[kind]);
}

/** Counts only what was written since the volume was made from something. */
function forgetsInherited(kind: 'snapshot' | 'volume'): Defect['fault'] {
  return without('allocated', (block, query, state) => {
    const volume = state.volumes.get(query.target.volumeId);
    return isMadeFrom(kind, query, state) && (volume?.inherited.includes(block) ?? false);
  });
}

export const ORACLE_DEFECTS: readonly Defect[] = [
  {
    name: 'delta-misses-a-block',
    does: 'leaves one changed block out of every delta',
    caughtBy: ['delta.truth'],
    fault: dropMiddle(true),
  },
  {
    name: 'allocated-misses-a-block',
    does: 'leaves one block out of every list of allocated blocks',
    caughtBy: ['allocated.truth'],
    fault: dropMiddle(false),
  },
  {
    name: 'delta-misses-the-last-block',
    does: "leaves the volume's last block out of deltas",
    caughtBy: ['delta.truth'],
    fault: without('delta', (block, query) => isLastOf(query, block)),
  },
  {
    name: 'allocated-misses-the-last-block',
    does: "leaves the volume's last block out of lists of allocated blocks",
    caughtBy: ['allocated.truth'],
    fault: without('allocated', (block, query) => isLastOf(query, block)),
  },
  {
    name: 'delta-misses-the-first-block',
    does: "leaves the volume's first block out of deltas",
    caughtBy: ['delta.truth'],
    fault: without('delta', (block) => block === 0),
  },
  {
    name: 'delta-misses-zeroed-blocks',
    does: 'leaves blocks out of deltas that hold nothing but zeros now',
    caughtBy: ['delta.truth'],
    fault: withoutContents((now) => now.equals(Buffer.alloc(BLOCK_BYTES))),
  },
  {
    name: 'delta-misses-discarded-blocks',
    does: 'leaves blocks out of deltas that are not allocated any more',
    caughtBy: ['delta.truth'],
    fault: without('delta', (block, { target }) => !target.allocated.includes(block)),
  },
  {
    name: 'delta-misses-rewritten-blocks',
    does: 'reports only blocks that were not allocated before',
    caughtBy: ['delta.truth'],
    fault: without('delta', (block, { base }) => base?.allocated.includes(block) ?? false),
  },
  {
    name: 'delta-compares-half-blocks',
    does: 'looks only at the first half of every block',
    caughtBy: ['delta.truth'],
    fault: withoutContents((now, before) => {
      const half = BLOCK_BYTES / 2;
      return now.subarray(0, half).equals(before.subarray(0, half));
    }),
  },
  {
    name: 'delta-since-the-snapshot-before',
    does: 'answers every delta with the changes since the snapshot just before the target',
    caughtBy: ['delta.chain'],
    fault: {
      metadata: (honest, state) => ({
        blocks: (query) => {
          const { base, target } = query;
          const before = state
            .snapshotsOf(target.volumeId)
            .filter(({ sequence }) => sequence < target.sequence)
            .at(-1);
          return honest.blocks({ ...query, base: base === null ? null : (before ?? base) });
        },
      }),
    },
  },
  {
    name: 'delta-to-the-live-volume',
    does: 'compares the base with the volume as it is now, not with the target',
    caughtBy: ['delta.chain'],
    fault: {
      metadata: (honest, state) => ({
        blocks: (query) => {
          const live = state.volumes.get(query.target.volumeId);
          return query.base === null || live === undefined
            ? honest.blocks(query)
            : differingBlocks(live.path, query.base.path);
        },
      }),
    },
  },
  {
    name: 'delta-ends-at-the-old-size',
    does: 'compares no further than the base was long, though the volume has grown',
    caughtBy: ['delta.resized'],
    fault: without(
      'delta',
      (block, { base }) => base !== null && block * BLOCK_BYTES >= base.sizeBytes,
    ),
  },
  {
    name: 'restored-forgets-inherited',
    does: 'leaves what a restored volume has from its snapshot out of its allocated blocks (ceph-csi)',
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
    does: 'leaves what a clone has from its source out of its allocated blocks',
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
    does: 'makes an empty volume when asked for one from a snapshot',
    caughtBy: ['delta.restored'],
    fault: {
      rpcs: (honest, state) => ({
        CreateVolume: async (request) => {
          const answer = await honest['CreateVolume']?.(request);
          const volume = state.volumes.get(answer?.['volume'].volume_id);
          if (volume?.source?.['snapshot'] && volume.device === null) {
            await makeFile(volume.path, volume.sizeBytes);
          }
          return answer ?? {};
        },
      }),
    },
  },
];
