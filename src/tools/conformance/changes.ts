/** Random changes to a published volume, of either access type. */
import type { Random } from '../random.js';
import { BlockContent } from './block-content.js';
import { changeFiles } from './mount-content.js';
import type { Snapshot, Volume } from './objects.js';
import type { AccessType } from './options.js';
import type { Volumes } from './volumes.js';

/** The number of changes for each access type. */
export type ChangeCounts = Readonly<Record<AccessType, number>>;
type Change = (counts: ChangeCounts) => Promise<unknown>;

interface ChangedPair {
  readonly volume: Volume;
  readonly base: Snapshot;
  readonly target: Snapshot;
  readonly change: Change;
}

/** Returns a function that changes a new volume, published at `path`. */
function changerOf(volume: Volume, path: string, random: Random): Change {
  if (volume.access === 'mount') return ({ mount }) => changeFiles(path, random, mount);
  const content = new BlockContent(volume.sizeBytes);
  return ({ block }) => content.change(path, random, block);
}

/** Takes two snapshots of a new volume, each after the given number of changes. The volume stays published. */
export async function takePair(
  volumes: Volumes,
  access: AccessType,
  random: Random,
  [first, second]: readonly [ChangeCounts, ChangeCounts],
): Promise<ChangedPair> {
  const volume = await volumes.create({ access });
  const change = changerOf(volume, await volumes.publish(volume), random);
  await change(first);
  const base = await volumes.snapshot(volume);
  await change(second);
  const target = await volumes.snapshot(volume);
  return { volume, base, target, change };
}
