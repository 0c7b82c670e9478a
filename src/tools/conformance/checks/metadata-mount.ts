/**
 * Compares lists with the bytes of mounted volumes. What a file system writes cannot be predicted, so
 * the snapshots are restored as raw block volumes, where the driver supports that, and read.
 */
import { readImage } from '../block-content.js';
import { type CheckContext, checksOf } from '../check.js';
import { allocatedOf, deltaOf } from '../list-request.js';
import { readList } from '../lists.js';
import { changeFiles } from '../mount-content.js';
import type { Snapshot } from '../objects.js';
import { volumeSizeOf } from '../options.js';
import { expectSound, type Image, type Judgement, OverReport, zeroImage } from '../oracle.js';
import { withRestored } from '../restored-snapshot.js';

const NEEDS = ['metadata', 'snapshots', 'volumes', 'publish', 'mount'] as const;
const CHANGES = 60;
/** Takes snapshots of a mounted volume, and changes files in between. */
async function makeSnapshots(context: CheckContext, count: number): Promise<Snapshot[]> {
  const { volumes, random } = context;
  const volume = await volumes.create({ access: 'mount' });
  const path = await volumes.publish(volume);
  const snapshots: Snapshot[] = [];
  for (let round = 0; round < count; round += 1) {
    await changeFiles(path, random, CHANGES);
    snapshots.push(await volumes.snapshot(volume));
  }
  await volumes.unpublish(volume);
  return snapshots;
}

function imageOf(context: CheckContext, snapshot: Snapshot): Promise<Image> {
  const sizeBytes = snapshot.sizeBytes === 0 ? volumeSizeOf(context.options, 'mount') : snapshot.sizeBytes;
  return withRestored(context, snapshot, sizeBytes, readImage);
}

function reportJudgement(context: CheckContext, judgement: Judgement): void {
  const sums = new OverReport();
  sums.add(judgement);
  sums.report(context);
}

async function deltaContentMount(context: CheckContext): Promise<void> {
  const [first, second] = (await makeSnapshots(context, 2)) as [Snapshot, Snapshot];
  // The list comes first: a driver that refuses lists of mounted volumes may not restore their snapshots either.
  const { entries } = await readList(context, deltaOf(first, second));
  const base = await imageOf(context, first);
  const target = await imageOf(context, second);
  reportJudgement(context, expectSound('GetMetadataDelta', { base, target }, entries));
}

async function allocatedContentMount(context: CheckContext): Promise<void> {
  const [snapshot] = (await makeSnapshots(context, 1)) as [Snapshot];
  const { entries } = await readList(context, allocatedOf(snapshot));
  const target = await imageOf(context, snapshot);
  const comparison = { base: zeroImage(target.sizeBytes), target, zerosMayBeMissing: true };
  reportJudgement(context, expectSound('GetMetadataAllocated', comparison, entries));
}

export const metadataMountChecks = checksOf(NEEDS, 'SnapshotMetadata: GetMetadataDelta', [
  {
    id: 'delta.content-mount',
    rule: 'SM24',
    title: 'every byte that changed on a mounted volume is reported',
    run: deltaContentMount,
  },
  {
    id: 'allocated.content-mount',
    section: 'SnapshotMetadata: GetMetadataAllocated',
    rule: 'SM23',
    title: 'every byte that was written to a mounted volume is reported',
    run: allocatedContentMount,
  },
]);
