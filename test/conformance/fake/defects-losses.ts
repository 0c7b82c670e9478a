/**
 * The bugs of the museum: each has the mechanism by which a product has lost changed blocks, and fails the check that is named after
 * it. Where one bug also shows in the history of another loss, the row says so.
 */

import { after, type Defect, type Defects, instead } from './defect.js';
import { allocatedBlocks, BLOCK_BYTES, blockOf, differingBlocks, makeFile } from './disk.js';
import type { MetadataSteps, Query } from './metadata.js';
import { Refusal, refusal } from './refusal.js';
import { contentOf, type Snapshot, type State, type Volume } from './state.js';

/** XFS allocates for copy-on-write in extents of 128 KiB by default. */
const cowExtentOf = (block: number): number => Math.floor((block * BLOCK_BYTES) / (128 << 10));
const ZEROS = Buffer.alloc(BLOCK_BYTES);
const OBJECT_BYTES = 4 << 20;
const GROUP_BLOCKS = (512 << 10) / BLOCK_BYTES;

/** A delta whose blocks are computed in another way. */
const delta = (change: (blocks: readonly number[], query: DeltaQuery, state: State) => readonly number[]): Defect =>
  after('blocks', (blocks, query, state) =>
    query.base === null ? blocks : change(blocks, query as DeltaQuery, state),
  );
type DeltaQuery = Query & { base: Snapshot };

/** Leaves blocks out of deltas that were allocated in the base and are not any more, if the test says so. */
const withoutDiscards = (isLost: (block: number, freed: ReadonlySet<number>, query: DeltaQuery) => boolean): Defect =>
  delta((blocks, query) => {
    const freed = freedIn(query);
    return blocks.filter((block) => !freed.has(block) || !isLost(block, freed, query));
  });

function freedIn({ base, target }: DeltaQuery): ReadonlySet<number> {
  const now = new Set(target.allocated);
  return new Set(base.allocated.filter((block) => !now.has(block)));
}

/** The run of blocks of the set around one of them. */
function runAround(block: number, among: ReadonlySet<number>): [first: number, last: number] {
  let [first, last] = [block, block];
  while (among.has(first - 1)) first -= 1;
  while (among.has(last + 1)) last += 1;
  return [first, last];
}

const previousOf = ({ volumeId, sequence }: Snapshot, state: State): Snapshot | null =>
  state.snapshotsOf(volumeId).findLast((each) => each.sequence < sequence) ?? null;

/** What changed from the snapshot before; nothing for the first one, whose map is new. */
function dirtyIn(snapshot: Snapshot, state: State): ReadonlySet<number> {
  const previous = previousOf(snapshot, state);
  return new Set(previous === null ? [] : differingBlocks(snapshot.bytes, previous.bytes));
}

/** Remembers something of each state, as a driver's process does. */
function remembered<T>(make: () => T): (state: State) => T {
  const all = new WeakMap<State, T>();
  return (state) => {
    const known = all.get(state) ?? make();
    all.set(state, known);
    return known;
  };
}

/** Forgets at an RPC what was written to the volume before. */
function forgetfulAt(rpc: string): Defect {
  const contents = remembered(() => new Map<string, { sequence: number; bytes: Buffer }>());
  const forget = after(rpc, (answer, request, state) => {
    const volume = state.volumes.get(String(request['volume_id']));
    if (volume !== undefined)
      contents(state).set(volume.id, { sequence: state.next(), bytes: contentOf(volume).bytes });
    return answer;
  });
  const lists = delta((blocks, { base, target }, state) => {
    const known = contents(state).get(target.volumeId);
    if (known === undefined || known.sequence < base.sequence || known.sequence > target.sequence) return blocks;
    return differingBlocks(target.bytes, known.bytes);
  });
  return { ...forget, ...lists };
}

const mergedAt = remembered(() => new Map<string, number>());
const listedAt = remembered(() => new Map<string, number>());
const asked = remembered(() => new Set<string>());

function trackedFromFirstList(blocks: readonly number[], { base, target }: Query, state: State): readonly number[] {
  const since = listedAt(state).get(target.volumeId) ?? target.sequence;
  listedAt(state).set(target.volumeId, since);
  return base !== null && base.sequence < since ? [] : blocks;
}

/** Ignores that two snapshots are of different volumes. */
function acrossVolumes(correct: MetadataSteps, state: State): Partial<MetadataSteps> {
  return {
    read: (request) => {
      try {
        return correct.read(request);
      } catch (thrown) {
        const [base, target] = ['base_snapshot_id', 'target_snapshot_id'].map((id) => state.snapshots.get(request[id]));
        if (!(thrown instanceof Refusal) || !base || !target || base.volumeId === target.volumeId) throw thrown;
        return { base, target, start: 0, maxResults: 0 };
      }
    },
    // By the times of the writes alone: nothing was written to the new volume since.
    blocks: (query) => (query.base && query.base.volumeId !== query.target.volumeId ? [] : correct.blocks(query)),
  };
}

/** Restores what the newest snapshot has wherever the volume has zeros. */
function zerosFallThrough(volume: Volume, state: State): void {
  const parent = state.snapshotsOf(volume.id).at(-1);
  if (parent === undefined) return;
  const { bytes } = contentOf(volume);
  const merged = Buffer.from(bytes);
  for (const block of parent.allocated) {
    if (blockOf(bytes, block).equals(ZEROS)) blockOf(parent.bytes, block).copy(merged, block * BLOCK_BYTES);
  }
  const blocks = [...Array(merged.length / BLOCK_BYTES).keys()];
  makeFile(
    volume.path,
    volume.sizeBytes,
    merged,
    blocks.filter((block) => !blockOf(merged, block).equals(ZEROS)),
  );
}

const DISCARDS = [
  'loss.ceph-clean-discard',
  'loss.zfs-write-in-hole',
  'loss.zfs-rewritten-hole',
  'loss.btrfs-trailing-hole',
];
const ZERO_LOSSES = [...DISCARDS, 'loss.elastio-discard', 'loss.virtualbox-zeros'];
const not = (id: string, ids: readonly string[]): string[] => ids.filter((each) => each !== id);

export const LOSS_DEFECTS: Defects = {
  'loss.vmware-growth': {
    'counts in blocks twice as large once a volume has grown, and keeps the old marks where they are': {
      ...delta((blocks, { base, target }) =>
        base.sizeBytes === target.sizeBytes
          ? blocks
          : blocks.map((block) => 2 * block).filter((block) => block * BLOCK_BYTES < target.sizeBytes),
      ),
      mayAlsoFail: ['loss.virtnbdbackup-growth', 'loss.btrfs-trailing-hole'],
    },
  },
  'loss.vmware-consolidation': {
    'tracks no writes while it merges a deleted snapshot': {
      ...after('DeleteSnapshot', (answer, request, state) => {
        mergedAt(state).set(String(request['snapshot_id']), state.next());
        return answer;
      }),
      ...delta((blocks, { base, target }, state) => {
        const merges = [...mergedAt(state).values()];
        return merges.some((at) => at > base.sequence && at < target.sequence) ? [] : blocks;
      }),
    },
  },
  'loss.vmware-branch': {
    'compares the times of writes and not the branches of snapshots': { metadata: acrossVolumes },
  },
  'loss.vmware-tracking-off': {
    'tracks a volume from its first list on, and takes a missing map for one without changes': after(
      'blocks',
      trackedFromFirstList,
    ),
  },
  'loss.vsphere-one-page': {
    'ends the stream after max_results tuples': {
      ...after('messages', (messages, { maxResults }) => (maxResults === 0 ? messages : messages.slice(0, 1))),
      mayAlsoFail: ['loss.wyng-interrupted'],
    },
    'ends the stream after 2,000 tuples': after('from', (entries) => entries.slice(0, 2000)),
    'takes a page that is shorter than the limit for the last one': {
      ...after('from', (entries, { maxResults }) => {
        const first = entries[0];
        if (maxResults === 0 || first === undefined) return entries;
        // The storage below answers for one MiB at a time.
        const region = (offset: number): number => Math.floor(offset / (1 << 20));
        return entries.filter(({ offset }) => region(offset) === region(first.offset));
      }),
      mayAlsoFail: ['loss.wyng-interrupted'],
    },
  },
  'loss.ceph-dirty-twice': {
    'compares the marks of two snapshots, so that changed twice is unchanged': {
      ...delta((_, { base, target }, state) => {
        const [before, now] = [dirtyIn(base, state), dirtyIn(target, state)];
        return [...new Set([...before, ...now])]
          .filter((block) => before.has(block) !== now.has(block))
          .sort((a, b) => a - b);
      }),
      mayAlsoFail: [
        'loss.ceph-clean-discard',
        'loss.xfs-cow-hole',
        'loss.elastio-discard',
        'loss.thin-delta-last-range',
        'loss.thin-delta-neighbours',
        'loss.vsphere-one-page',
        'loss.vmware-growth',
        'loss.vmware-consolidation',
        'loss.vmware-tracking-off',
        'loss.qemu-detached',
        'loss.wyng-interrupted',
        'loss.unflushed',
      ],
    },
  },
  'loss.ceph-clean-discard': {
    'marks a discard only where the block has changed since the last snapshot': {
      ...delta((blocks, query, state) => {
        const previous = previousOf(query.base, state);
        if (previous === null) return blocks;
        const [freed, dirty] = [freedIn(query), dirtyIn(query.base, state)];
        return blocks.filter((block) => !freed.has(block) || dirty.has(block));
      }),
      mayAlsoFail: ['loss.elastio-discard'],
    },
  },
  'loss.ceph-offset': {
    'adds the distance from the start of an object to every offset': {
      ...after('from', (entries, { start, target }) =>
        entries
          .map(({ offset, size }) => ({ offset: offset + (start % OBJECT_BYTES), size }))
          .filter(({ offset, size }) => offset + size <= target.sizeBytes),
      ),
      mayAlsoFail: ['loss.host-path-offset', 'loss.wyng-interrupted'],
    },
  },
  'loss.ceph-parent': {
    'lists only blocks that were written since the volume was made': {
      ...after('blocks', (blocks, { base, target }, state) => {
        const volume = state.volumes.get(target.volumeId);
        return base === null && volume?.source ? blocks.filter((block) => !volume.inherited.includes(block)) : blocks;
      }),
      mayAlsoFail: ['loss.vmware-branch'],
    },
    'lets a block that was written hide its unwritten neighbours': after(
      'blocks',
      (blocks, { base, target }, state) => {
        const volume = state.volumes.get(target.volumeId);
        if (base !== null || !volume?.source) return blocks;
        const first = state.snapshotsOf(target.volumeId)[0];
        const written = new Set(first === undefined ? [] : differingBlocks(target.bytes, first.bytes));
        const isTouched = (block: number): boolean => [...written].some((each) => each >> 4 === block >> 4);
        return blocks.filter((block) => written.has(block) || !isTouched(block));
      },
    ),
    'forgets what a volume has inherited when the snapshot is deleted': after(
      'blocks',
      (blocks, { base, target }, state) => {
        const volume = state.volumes.get(target.volumeId);
        const source = volume?.source?.['snapshot']?.snapshot_id;
        if (base !== null || !volume || source === undefined || state.snapshots.has(source)) return blocks;
        return blocks.filter((block) => !volume.inherited.includes(block));
      },
    ),
  },
  'loss.zfs-write-in-hole': {
    'forgets the rest of a large hole when something is written into its middle': delta((blocks, query) => {
      const freed = freedIn(query);
      const lost = new Set<number>();
      for (const block of blocks) {
        if (freed.has(block) || !freed.has(block - 1) || !freed.has(block + 1)) continue;
        for (const side of [block - 1, block + 1]) {
          const [first, last] = runAround(side, freed);
          for (let each = first; each <= last; each += 1) lost.add(each);
        }
      }
      return blocks.filter((block) => !lost.has(block));
    }),
  },
  'loss.zfs-rewritten-hole': {
    'lets a write to a group of blocks replace the record of a discard in the same group': {
      ...withoutDiscards((block, freed, { base, target }) => {
        const group = Math.floor(block / GROUP_BLOCKS);
        const old = new Set(base.allocated);
        return target.allocated.some(
          (each) => Math.floor(each / GROUP_BLOCKS) === group && !old.has(each) && !freed.has(each),
        );
      }),
    },
  },
  'loss.btrfs-trailing-hole': {
    'reports a discard when it meets the next data, so never the last one': withoutDiscards(
      (block, _, { target }) => block > (target.allocated.at(-1) ?? -1),
    ),
  },
  'loss.thin-delta-last-range': {
    'drops the range that is still open at the end of the device': {
      ...after('entries', (entries, { target }) =>
        entries.filter(({ offset, size }) => offset + size < target.sizeBytes),
      ),
      mayAlsoFail: ['loss.vmware-growth', 'loss.btrfs-trailing-hole', 'loss.ceph-offset', 'loss.thin-delta-long-range'],
    },
  },
  'loss.thin-delta-long-range': {
    'stops when one side has no further range, though its last one is not used up': after(
      'entries',
      (entries, { base }) =>
        base !== null && base.allocated.length * BLOCK_BYTES === base.sizeBytes ? entries.slice(0, 1) : entries,
    ),
  },
  'loss.thin-delta-neighbours': {
    'joins neighbours, and compares only the first block of what it has joined': {
      ...delta((blocks, { base }) => {
        const [old, changed] = [new Set(base.allocated), new Set(blocks)];
        return blocks.filter((block) => !old.has(block) || changed.has(runAround(block, old)[0]));
      }),
      mayAlsoFail: [
        'loss.thin-delta-long-range',
        'loss.thin-delta-last-range',
        'loss.btrfs-trailing-hole',
        'loss.host-path-offset',
        'loss.ceph-parent',
        'loss.virtnbdbackup-growth',
        'loss.xfs-cow-hole',
        'loss.elastio-discard',
        'loss.wyng-interrupted',
        'loss.vmware-tracking-off',
      ],
    },
  },
  'loss.xfs-cow-hole': {
    'skips what is written into holes beside blocks of a snapshot that are rewritten': {
      ...after('blocks', (blocks, { base, target }, state) => {
        const before = base ?? previousOf(target, state);
        if (before === null) return blocks;
        const [old, written] = [new Set(before.allocated), differingBlocks(target.bytes, before.bytes)];
        const copied = new Set(written.filter((block) => old.has(block)).map(cowExtentOf));
        return blocks.filter((block) => old.has(block) || !copied.has(cowExtentOf(block)));
      }),
      mayAlsoFail: ['loss.vmware-growth', 'loss.vsphere-one-page'],
    },
  },
  'loss.elastio-discard': {
    'marks no discard as a change': { ...withoutDiscards(() => true), mayAlsoFail: DISCARDS },
    'cannot read a snapshot around a discard of less than 64 KiB': instead(
      'CreateVolume',
      (correct, state) => (request) => {
        const id = request['volume_content_source']?.snapshot?.snapshot_id;
        const source = state.snapshots.get(id);
        const held = new Set(source?.allocated);
        const isSmall = [...held].some(
          (block) => !held.has(block + 1) && held.has(block + 2) && (block + 1) >> 4 === block >> 4,
        );
        if (isSmall) throw refusal('INTERNAL', `snapshot '${id}' is corrupted`);
        return correct(request);
      },
    ),
    'zeroes the neighbours of a small discard': {
      ...after('CreateSnapshot', (answer, _, state) => {
        const taken = state.snapshots.get(answer['snapshot'].snapshot_id);
        const held = new Set(taken?.allocated);
        for (const block of held) {
          const isBeside = !held.has(block + 1) && held.has(block + 2) && (block + 1) >> 4 === block >> 4;
          if (isBeside) taken?.bytes.fill(0, block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES);
        }
        return answer;
      }),
      // Blocks that are written with gaps between them look the same.
      mayAlsoFail: ['loss.vsphere-one-page'],
    },
  },
  'loss.wyng-interrupted': {
    'counts what a list has told as told': {
      ...after('blocks', (blocks, { base, target }, state) => {
        const key = `${base?.id} ${target.id}`;
        const isTold = base !== null && asked(state).has(key);
        asked(state).add(key);
        return isTold ? [] : blocks;
      }),
      mayAlsoFail: [
        'loss.vsphere-one-page',
        'loss.ceph-offset',
        'loss.host-path-offset',
        'loss.virtnbdbackup-growth',
        'loss.ceph-parent',
      ],
    },
  },
  'loss.virtnbdbackup-growth': {
    'cuts deltas at the size of the base': {
      ...delta((blocks, { base }) => blocks.filter((block) => block * BLOCK_BYTES < base.sizeBytes)),
      mayAlsoFail: ['loss.vmware-growth'],
    },
    'answers with the capacity that the volume has by now': {
      ...after('messages', (messages, { target }, state) => {
        const live = state.volumes.get(target.volumeId);
        return messages.map((message) => ({ ...message, volume_capacity_bytes: live?.sizeBytes ?? target.sizeBytes }));
      }),
      mayAlsoFail: ['loss.vmware-growth', 'loss.btrfs-trailing-hole'],
    },
  },
  'loss.qemu-detached': {
    'loses its map when the volume is detached': {
      ...forgetfulAt('NodeUnstageVolume'),
      mayAlsoFail: ['loss.wiredtiger-reopened', 'loss.virtualbox-zeros'],
    },
  },
  'loss.wiredtiger-reopened': {
    'begins an empty map when the volume is attached again': {
      ...forgetfulAt('NodeStageVolume'),
      mayAlsoFail: ['loss.qemu-detached', 'loss.virtualbox-zeros'],
    },
  },
  'loss.unflushed': {
    'lists what is on the disk before it flushes the data': instead(
      'CreateSnapshot',
      (correct, state) => async (request) => {
        const volume = state.volume(String(request['source_volume_id']));
        const onDisk = allocatedBlocks(volume.path);
        const answer = await correct(request);
        const taken = state.snapshot(answer['snapshot'].snapshot_id);
        taken.allocated = onDisk;
        return answer;
      },
    ),
  },
  'loss.virtualbox-zeros': {
    'takes zeros for nothing, so that older data shows again': instead(
      'NodeStageVolume',
      (correct, state) => (request) => {
        const volume = state.volume(String(request['volume_id']));
        if (volume.device === null) zerosFallThrough(volume, state);
        return correct(request);
      },
    ),
    'leaves blocks that are all zeros out of deltas': {
      ...delta((blocks, { target }) => blocks.filter((block) => !blockOf(target.bytes, block).equals(ZEROS))),
      mayAlsoFail: not('loss.virtualbox-zeros', ZERO_LOSSES),
    },
  },
  'loss.host-path-offset': {
    'reads from the offset and numbers from the block below it': {
      ...after('from', (entries, { start }) => {
        const shift = start % BLOCK_BYTES === 0 ? 0 : BLOCK_BYTES;
        return entries.map(({ offset, size }) => ({ offset: Math.max(0, offset - shift), size }));
      }),
      mayAlsoFail: ['loss.ceph-offset'],
    },
  },
};
