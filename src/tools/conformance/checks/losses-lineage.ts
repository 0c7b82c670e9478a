/**
 * Repeats how products have lost changes between snapshots, in descendants of snapshots, and when tracking was interrupted.
 * docs/lost-blocks.md tells of each loss.
 */
import { StatusCode } from '../../../base/errors.js';
import { readImage } from '../block-content.js';
import { type CheckContext, checksOf, OF_LISTS } from '../check.js';
import { allocatedOf, deltaOf } from '../list-request.js';
import { expectSameBytesListed, expectTail, readList, withList } from '../lists.js';
import { LossHistory, type TakenSnapshot, UNIT } from '../loss-history.js';
import type { Snapshot } from '../objects.js';
import { CHUNK_BYTES, expectSound, type Image, zeroImage } from '../oracle.js';

async function writeDuringDeletion(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  await history.write([0, CHUNK_BYTES]);
  const first = await history.snapshot();
  await history.write([history.at(1 / 4), CHUNK_BYTES]);
  const second = await history.snapshot();
  const deletion = context.volumes.deleteSnapshot(first.snapshot);
  for (let part = 0; part < 8; part += 1) await history.write([history.at(1 / 2 + part / 32), UNIT]);
  await deletion;
  await history.write([history.at(1 / 8), UNIT]);
  await history.expectDelta(second, await history.snapshot());
}

async function abandonedBranch(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  await history.write([0, CHUNK_BYTES]);
  const first = await history.snapshot();
  await history.write([0, CHUNK_BYTES]);
  const second = await history.snapshot();
  const reverted = await history.descendant(first);
  const third = await reverted.snapshot();
  const codes = [StatusCode.INVALID_ARGUMENT, StatusCode.NOT_FOUND, StatusCode.FAILED_PRECONDITION];
  for (const base of [second, first]) {
    const subject = 'GetMetadataDelta to a snapshot of a volume that was restored from an earlier one';
    await history.expectDeltaOrRefusal(subject, base, third, codes);
  }
}

async function trackingOff(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  await history.write([0, CHUNK_BYTES]);
  const first = await history.quietSnapshot();
  await history.write([history.at(1 / 4), CHUNK_BYTES]);
  const second = await history.quietSnapshot();
  const subject = 'GetMetadataDelta, the first list of a volume';
  await history.expectDeltaOrRefusal(subject, first, second);
  await history.write([UNIT, UNIT]);
  const third = await history.snapshot();
  await history.expectDelta(second, third);
  await history.expectDeltaOrRefusal('GetMetadataDelta from the first snapshot', first, third);
}

async function dirtyTwice(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  const place = history.at(1 / 2);
  const snapshots = [await history.snapshot()];
  for (let round = 0; round < 5; round += 1) {
    await history.write([place, CHUNK_BYTES]);
    snapshots.push(await history.snapshot());
  }
  await history.expectAllDeltas(snapshots);
}

async function inherited(context: CheckContext): Promise<void> {
  const parent = await LossHistory.start(context);
  await parent.write([0, 2 * CHUNK_BYTES], [parent.at(1 / 2), CHUNK_BYTES]);
  const source = await parent.snapshot();
  const children = [await parent.descendant(source)];
  if (context.advertised.controller.has('CLONE_VOLUME')) children.push(await parent.descendant('volume'));
  const taken: [LossHistory, TakenSnapshot, TakenSnapshot][] = [];
  for (const child of children) {
    const first = await child.snapshot();
    await child.write([UNIT, UNIT], [child.at(1 / 4), UNIT]);
    const second = await child.snapshot();
    await child.expectDelta(first, second);
    taken.push([child, first, second]);
  }
  await parent.close();
  await context.volumes.deleteSnapshot(source.snapshot);
  if ((await context.volumes.delete(parent.volume)) !== null) {
    context.note('the driver does not delete a volume with descendants, so its snapshot alone was deleted');
  }
  for (const [child, first, second] of taken) {
    for (const each of [first, second]) await child.expectAllocated(each);
    await child.expectDelta(first, second);
  }
}

async function interruptedQuery(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  await history.write([0, CHUNK_BYTES]);
  const first = await history.snapshot();
  await history.write(...Array.from({ length: 32 }, (_, index) => [history.at(index / 32), UNIT] as const));
  const second = await history.snapshot();
  const list = deltaOf(first.snapshot, second.snapshot);
  const next = await withList(context, list, { maxResults: 1 }, async (stream) => {
    const [entry] = (await stream.next())?.entries ?? [];
    return entry === undefined ? 0n : entry.offset + entry.size;
  });
  const whole = await history.expectDelta(first, second);
  const rest = await readList(context, list, { startingOffset: next });
  expectTail('GetMetadataDelta resumed after an interruption', whole.entries, rest.entries, next);
  for (const { entries } of await Promise.all([readList(context, list), readList(context, list)])) {
    expectSameBytesListed('one of two deltas at once', whole.entries, entries);
  }
  await history.write([UNIT, UNIT]);
  await history.expectAllDeltas([first, second, await history.snapshot()]);
}

async function whileDetached(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  await history.write([0, CHUNK_BYTES]);
  const first = await history.snapshot();
  await history.close();
  await history.open();
  await history.write([history.at(1 / 2), CHUNK_BYTES]);
  await history.close();
  const second = await history.snapshot();
  await history.open();
  await history.write([history.at(1 / 4), UNIT]);
  await history.expectAllDeltas([first, second, await history.snapshot()]);
}

async function reopened(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  await history.write([0, CHUNK_BYTES]);
  const first = await history.snapshot();
  await history.write([history.at(1 / 4), CHUNK_BYTES]);
  await history.close();
  await history.open();
  await history.write([history.at(1 / 2), CHUNK_BYTES]);
  await history.expectAllDeltas([first, await history.snapshot()]);
}

async function unflushed(context: CheckContext): Promise<void> {
  const history = await LossHistory.start(context);
  await history.write([0, CHUNK_BYTES]);
  const snapshots = [(await history.snapshot()).snapshot];
  for (const [round, waitMs] of [0, 10, 100, 1000].entries()) {
    const places = [[history.at((1 + round) / 8), CHUNK_BYTES] as const, [history.at(1 / 16), UNIT] as const];
    snapshots.push(await history.snapshotUnflushed(places, waitMs));
  }
  await history.close();
  // What a snapshot reads as is what its lists must cover: it need not have what was never flushed.
  let before: { snapshot: Snapshot; image: Image } | null = null;
  for (const snapshot of snapshots) {
    const image = await contentOf(context, snapshot, history.sizeBytes);
    const allocated = await readList(context, allocatedOf(snapshot));
    const comparison = { base: zeroImage(image.sizeBytes), target: image, zerosMayBeMissing: true };
    expectSound('GetMetadataAllocated', comparison, allocated.entries);
    if (before !== null) {
      const delta = await readList(context, deltaOf(before.snapshot, snapshot));
      expectSound('GetMetadataDelta', { base: before.image, target: image }, delta.entries);
    }
    before = { snapshot, image };
  }
}

/** Reads what a volume that is restored from the snapshot has. */
async function contentOf({ volumes }: CheckContext, snapshot: Snapshot, sizeBytes: number): Promise<Image> {
  const volume = await volumes.create({ access: 'block', snapshotId: snapshot.id, sizeBytes });
  const image = await readImage(await volumes.publish(volume), volume.sizeBytes);
  await volumes.unpublish(volume);
  return image;
}

export const lossOfLineageChecks = checksOf(
  [...OF_LISTS, 'block'],
  'Losses: chains of snapshots, and interrupted tracking',
  [
    {
      id: 'loss.vmware-consolidation',
      rule: 'SM24',
      title: 'writes while an older snapshot is deleted are changes (VMware, 2015)',
      run: writeDuringDeletion,
    },
    {
      id: 'loss.vmware-branch',
      rule: 'SM24',
      title: 'a delta between branches is refused, or has all that differs (VMware, 2010)',
      run: abandonedBranch,
    },
    {
      id: 'loss.vmware-tracking-off',
      rule: 'SM24',
      title: 'a delta from before the first list of a volume is refused, or complete (VMware, 2016)',
      run: trackingOff,
    },
    {
      id: 'loss.ceph-dirty-twice',
      rule: 'SM24',
      title: 'a block that is written before each of several snapshots is in every delta between them (Ceph, 2015)',
      run: dirtyTwice,
    },
    {
      id: 'loss.ceph-parent',
      rule: 'SM24',
      title:
        'what a volume has inherited is allocated, also once its parent is deleted (Ceph, 2015 to 2022; ceph-csi, 2026)',
      run: inherited,
    },
    {
      id: 'loss.wyng-interrupted',
      rule: 'SM24',
      title: 'a delta that was read in part, resumed or read twice at once is the same delta (wyng, 2022)',
      run: interruptedQuery,
    },
    {
      id: 'loss.qemu-detached',
      rule: 'SM24',
      title:
        'a snapshot of a volume that is not attached has what was written while it was (QEMU, 2019; KubeVirt, 2026)',
      run: whileDetached,
    },
    {
      id: 'loss.wiredtiger-reopened',
      rule: 'SM24',
      title: 'writes before and after the volume was staged again are changes (WiredTiger, 2021)',
      run: reopened,
    },
    {
      id: 'loss.unflushed',
      rule: 'SM24',
      title: 'lists cover what a snapshot reads as, also of data that was not flushed (FIEMAP, 2011; OpenZFS, 2023)',
      run: unflushed,
    },
  ],
);
