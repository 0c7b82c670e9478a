/** Checks lists after a volume was expanded, restored or cloned, or its source or base was deleted. */
import { StatusCode } from '../../../base/errors.js';
import { BlockContent, expectSameBytes, readImage } from '../block-content.js';
import { takePair } from '../changes.js';
import { type CheckContext, checksOf, OF_LISTS } from '../check.js';
import { CheckSkipped, expect } from '../failure.js';
import { allocatedOf, deltaOf } from '../list-request.js';
import { expectSameBytesListed, readList, readToEnd } from '../lists.js';
import type { Snapshot, Volume, VolumeSpec } from '../objects.js';
import { expectSound, type Image, OverReport, zeroImage } from '../oracle.js';
import { describeRefusal } from '../refusal.js';

const OPERATIONS = 80;
const CHANGES = { block: OPERATIONS, mount: 30 };

async function resized(context: CheckContext): Promise<void> {
  const { volumes, random } = context;
  const volume = await volumes.create({ access: 'block' });
  const path = await volumes.publish(volume);
  const sizeBefore = volume.sizeBytes;
  const content = new BlockContent(sizeBefore);
  await content.change(path, random, OPERATIONS);
  const base = await volumes.snapshot(volume);
  const before = content.image();
  await volumes.expand(volume, sizeBefore * 2);
  content.sizeBytes = volume.sizeBytes;
  await content.change(path, random, OPERATIONS, sizeBefore);
  await content.change(path, random, OPERATIONS);
  content.noteLeftOut(context);
  const target = await volumes.snapshot(volume);
  const after = content.image();
  await expectCapacity(context, base, sizeBefore);
  await expectCapacity(context, target, volume.sizeBytes);
  const delta = await readList(context, deltaOf(base, target));
  const subject = 'GetMetadataDelta across an expansion';
  const sums = new OverReport();
  sums.add(expectSound(subject, { base: before, target: after }, delta.entries));
  for (const { capacityBytes } of delta.messages) {
    expect(
      capacityBytes === BigInt(volume.sizeBytes),
      subject,
      `volume_capacity_bytes ${volume.sizeBytes}, the target's size`,
      () => `${capacityBytes}`,
    );
  }
  await expectAllocated(context, target, content.initialImage(), after);
  sums.reportFactor(context);
}

async function expectCapacity(context: CheckContext, snapshot: Snapshot, sizeBytes: number): Promise<void> {
  const { messages } = await readList(context, allocatedOf(snapshot));
  for (const { capacityBytes } of messages) {
    expect(
      capacityBytes === BigInt(sizeBytes),
      'GetMetadataAllocated of a volume that was expanded',
      `volume_capacity_bytes ${sizeBytes}, the size when the snapshot was taken`,
      () => `${capacityBytes}`,
    );
  }
}

async function expectAllocated(context: CheckContext, snapshot: Snapshot, base: Image, target: Image): Promise<void> {
  const { entries } = await readList(context, allocatedOf(snapshot));
  const comparison = { base, target, zerosMayBeMissing: true };
  expectSound('GetMetadataAllocated', comparison, entries);
}

/** Makes a raw block volume with known bytes, and a snapshot of the volume. */
async function makeSource(context: CheckContext): Promise<{ volume: Volume; snapshot: Snapshot; image: Image }> {
  const { volumes, random } = context;
  const volume = await volumes.create({ access: 'block' });
  const content = new BlockContent(volume.sizeBytes);
  const path = await volumes.publish(volume);
  await content.change(path, random, OPERATIONS);
  const snapshot = await volumes.snapshot(volume);
  const image = content.image();
  await volumes.unpublish(volume);
  return { volume, snapshot, image };
}

/** Fails unless a new volume holds the bytes of its source and its own snapshots have complete lists. */
async function expectDescendant(context: CheckContext, spec: VolumeSpec, source: Image): Promise<void> {
  const { volumes, random } = context;
  const volume = await volumes.create({ ...spec, sizeBytes: source.sizeBytes });
  const path = await volumes.publish(volume);
  expectSameBytes('the new volume', source, await readImage(path, volume.sizeBytes));
  const content = new BlockContent(volume.sizeBytes, source);
  const first = { snapshot: await volumes.snapshot(volume), image: content.image() };
  await content.change(path, random, OPERATIONS);
  content.noteLeftOut(context);
  const second = { snapshot: await volumes.snapshot(volume), image: content.image() };
  const zeros = zeroImage(volume.sizeBytes);
  // Inherited data counts as allocated, although it was not written to this volume.
  await expectAllocated(context, first.snapshot, zeros, first.image);
  await expectAllocated(context, second.snapshot, zeros, second.image);
  const { entries } = await readList(context, deltaOf(first.snapshot, second.snapshot));
  const sums = new OverReport();
  sums.add(expectSound('GetMetadataDelta', { base: first.image, target: second.image }, entries));
  sums.reportFactor(context);
}

async function restored(context: CheckContext): Promise<void> {
  const { snapshot, image } = await makeSource(context);
  await expectDescendant(context, { access: 'block', snapshotId: snapshot.id }, image);
}

async function cloned(context: CheckContext): Promise<void> {
  const { volume, image } = await makeSource(context);
  await expectDescendant(context, { access: 'block', volumeId: volume.id }, image);
}

/** Takes two snapshots with changes in between, of a volume of the access type that the run uses. */
async function makePair({ volumes, random, shared }: CheckContext) {
  const pair = await takePair(volumes, shared.access, random, [CHANGES, CHANGES]);
  await volumes.unpublish(pair.volume);
  return pair;
}

async function deletedSource(context: CheckContext): Promise<void> {
  const { volume, base, target } = await makePair(context);
  const lists = [allocatedOf(target), deltaOf(base, target)];
  const before = [];
  for (const list of lists) before.push(await readList(context, list));
  const refusal = await context.volumes.delete(volume);
  if (refusal !== null) {
    const found = describeRefusal(refusal);
    expect(
      refusal.code === StatusCode.FAILED_PRECONDITION,
      'DeleteVolume of a volume with snapshots',
      'OK or FAILED_PRECONDITION',
      () => found,
    );
    throw new CheckSkipped(`the driver does not delete volumes that have snapshots: ${found}`);
  }
  for (const [index, list] of lists.entries()) {
    const { entries } = await readList(context, list);
    const subject = `${list.rpc} after the volume was deleted`;
    expectSameBytesListed(subject, before[index]?.entries ?? [], entries);
  }
}

async function baseDeleted(context: CheckContext): Promise<void> {
  const { base, target } = await makePair(context);
  const whole = await readList(context, deltaOf(base, target));
  await context.volumes.deleteSnapshot(base);
  const { entries, end } = await readToEnd(context, deltaOf(base, target));
  const subject = 'GetMetadataDelta from a deleted base';
  const refused: readonly number[] = [StatusCode.NOT_FOUND, StatusCode.FAILED_PRECONDITION];
  if (refused.includes(end.code)) return;
  expect(end.code === StatusCode.OK, subject, 'NOT_FOUND, FAILED_PRECONDITION or the list', () => describeRefusal(end));
  context.note('the driver serves the delta from a deleted base');
  expectSameBytesListed(subject, whole.entries, entries);
}

const DELTA = 'SnapshotMetadata: GetMetadataDelta';

export const metadataLineageChecks = checksOf(OF_LISTS, DELTA, [
  {
    id: 'delta.resized',
    rule: 'SM24',
    title: 'a delta across an expansion covers the added space, and the capacity is the size of the target',
    also: ['expand', 'block'],
    run: resized,
  },
  {
    id: 'delta.restored',
    rule: 'SM24',
    title: 'lists of a volume restored from a snapshot are complete, including inherited data',
    also: ['block'],
    run: restored,
  },
  {
    id: 'delta.cloned',
    rule: 'SM24',
    title: 'lists of a cloned volume are complete, including inherited data',
    also: ['clone', 'block'],
    run: cloned,
  },
  {
    id: 'delta.base-deleted',
    rule: 'SM26',
    title: 'a delta from a deleted base is refused or complete',
    run: baseDeleted,
  },
  {
    id: 'metadata.deleted-source',
    section: 'Controller: DeleteVolume',
    rule: 'DV4',
    title: 'snapshots that outlive their volume keep their lists',
    run: deletedSource,
  },
]);
