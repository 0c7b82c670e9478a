/** Checks of the content of group snapshots: lists of members, restored volumes, one point in time. */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../../../base/errors.js';
import { BlockContent, expectSameBytes, readImage } from '../block-content.js';
import { type CheckContext, checksOf } from '../check.js';
import { CheckSkipped, ConformanceFailure, expect } from '../failure.js';
import { allocatedOf, deltaOf } from '../list-request.js';
import { readList } from '../lists.js';
import type { Group, Snapshot, Volume } from '../objects.js';
import { expectSound, type Image, OverReport } from '../oracle.js';
import { describeRefusal, type Refusal } from '../refusal.js';

const NEEDS = ['groups', 'volumes', 'publish', 'block'] as const;
const OPERATIONS = 60;
const CREATE = 'CreateVolumeGroupSnapshot';
const BLOCK_BYTES = 4096;
/** Groups taken while the volumes are written to. */
const BUSY_GROUPS = 2;
/** The longest pause between two writes. */
const PAUSE_MS = 40;

interface Member {
  readonly volume: Volume;
  readonly path: string;
  readonly content: BlockContent;
}

async function makeMembers(context: CheckContext): Promise<Member[]> {
  const members: Member[] = [];
  for (let made = 0; made < 2; made += 1) {
    const volume = await context.volumes.create({ access: 'block' });
    const path = await context.volumes.publish(volume);
    members.push({ volume, path, content: new BlockContent(volume.sizeBytes) });
  }
  return members;
}

/** Changes all volumes, then takes a group snapshot. Returns the members by volume id. */
async function takeGroup(
  context: CheckContext,
  members: readonly Member[],
): Promise<Map<string, { snapshot: Snapshot; image: Image }>> {
  for (const { content, path } of members) await content.change(path, context.random, OPERATIONS);
  const group = await context.volumes.createGroup(members.map(({ volume }) => volume));
  const taken = new Map<string, { snapshot: Snapshot; image: Image }>();
  for (const { volume, content } of members) {
    const snapshot = memberOf(group.snapshots, volume);
    taken.set(volume.id, { snapshot, image: content.image() });
  }
  return taken;
}

async function groupDelta(context: CheckContext): Promise<void> {
  const members = await makeMembers(context);
  const before = await takeGroup(context, members);
  const after = await takeGroup(context, members);
  for (const { content } of members) content.noteLeftOut(context);
  const sums = new OverReport();
  for (const { volume, content } of members) {
    const base = before.get(volume.id);
    const target = after.get(volume.id);
    if (base === undefined || target === undefined) continue;
    const delta = await readList(context, deltaOf(base.snapshot, target.snapshot));
    const comparison = { base: base.image, target: target.image };
    sums.add(expectSound('GetMetadataDelta between groups', comparison, delta.entries));
    const allocated = await readList(context, allocatedOf(target.snapshot));
    expectSound(
      'GetMetadataAllocated of a member',
      { base: content.initialImage(), target: target.image, zerosMayBeMissing: true },
      allocated.entries,
    );
  }
  sums.reportFactor(context);
}

async function restoreMember(context: CheckContext): Promise<void> {
  const { volumes } = context;
  const members = await makeMembers(context);
  const taken = await takeGroup(context, members);
  for (const { volume } of members) await volumes.unpublish(volume);
  for (const { snapshot, image } of taken.values()) {
    const spec = { access: 'block', snapshotId: snapshot.id, sizeBytes: image.sizeBytes } as const;
    const restored = await volumes.create(spec);
    const found = await readImage(await volumes.publish(restored), image.sizeBytes);
    expectSameBytes('the volume restored from a member', image, found);
  }
}

/** Writes the number of the round to the first volume and then to the second, durably, until `isOver` returns true. */
async function writeInTurn(context: CheckContext, members: readonly Member[], isOver: () => boolean): Promise<void> {
  const flags = constants.O_RDWR | constants.O_DSYNC;
  const devices = await Promise.all(members.map(({ path }) => open(path, flags)));
  try {
    for (let round = 1; !isOver(); round += 1) {
      const block = Buffer.alloc(BLOCK_BYTES);
      block.writeUInt32LE(round, 0);
      for (const device of devices) {
        await device.write(block, 0, block.length, 0);
        await delay(context.random.below(PAUSE_MS));
      }
    }
  } finally {
    for (const device of devices) await device.close();
  }
}

async function takeGroupsWhileWriting(context: CheckContext, members: readonly Member[]): Promise<Group[]> {
  let isOver = false;
  const writing = writeInTurn(context, members, () => isOver || context.signal.aborted);
  const groups: Group[] = [];
  try {
    for (let count = 0; count < BUSY_GROUPS; count += 1) {
      const { response, refusal } = await context.driver.outcome(CREATE, {
        name: context.volumes.name(),
        source_volume_ids: members.map(({ volume }) => volume.id),
        parameters: context.options.snapshotParameters,
      });
      if (refusal !== null) throw refusedWhileWriting(refusal);
      groups.push(context.volumes.adoptGroup(response['group_snapshot']));
    }
  } finally {
    isOver = true;
    await writing;
  }
  return groups;
}

/** A driver may refuse the call, but may not take the members at different times. */
function refusedWhileWriting(refusal: Refusal): Error {
  const found = describeRefusal(refusal);
  const conforming: readonly number[] = [StatusCode.ABORTED, StatusCode.FAILED_PRECONDITION];
  return conforming.includes(refusal.code)
    ? new CheckSkipped(`the driver does not snapshot volumes that are being written to: ${found}`)
    : new ConformanceFailure(`${CREATE} of volumes that are being written to`, 'OK', found);
}

/** Returns the number of the last round whose write is in the snapshot. */
async function readCounter(context: CheckContext, snapshot: Snapshot): Promise<number> {
  const { volumes } = context;
  const size = snapshot.sizeBytes === 0 ? {} : { sizeBytes: snapshot.sizeBytes };
  const restored = await volumes.create({ access: 'block', snapshotId: snapshot.id, ...size });
  const device = await open(await volumes.publish(restored), 'r');
  try {
    const { buffer } = await device.read(Buffer.alloc(BLOCK_BYTES), 0, BLOCK_BYTES, 0);
    return buffer.readUInt32LE(0);
  } finally {
    await device.close();
    await volumes.unpublish(restored);
  }
}

async function writeOrder(context: CheckContext): Promise<void> {
  const members = await makeMembers(context);
  for (const { path, content } of members) await content.write(path, 0, Buffer.alloc(BLOCK_BYTES));
  for (const { snapshots } of await takeGroupsWhileWriting(context, members)) {
    const counters: number[] = [];
    for (const { volume } of members) {
      counters.push(await readCounter(context, memberOf(snapshots, volume)));
    }
    const [first = 0, second = 0] = counters;
    expect(
      first === second || first === second + 1,
      `${CREATE} of volumes written to in turn`,
      'members taken at one point in the order of writes',
      () => `write ${first} of the first volume and write ${second} of the second`,
    );
  }
}

function memberOf(snapshots: readonly Snapshot[], volume: Volume): Snapshot {
  const member = snapshots.find(({ sourceVolumeId }) => sourceVolumeId === volume.id);
  if (member === undefined) throw new ConformanceFailure(CREATE, `a member of ${volume.id}`, 'none');
  return member;
}

export const groupContentChecks = checksOf(NEEDS, `GroupController: ${CREATE}`, [
  {
    id: 'groups.delta',
    section: 'SnapshotMetadata: GetMetadataDelta',
    rule: 'SM24',
    title: 'lists of members, and deltas between groups, are complete',
    also: ['metadata'],
    run: groupDelta,
  },
  {
    id: 'groups.restore',
    rule: 'GA12',
    title: 'a volume restored from a member holds its bytes',
    also: ['snapshots'],
    run: restoreMember,
  },
  {
    id: 'groups.write-order',
    rule: 'GA2',
    title: 'all members are taken at one point in the order of writes to all volumes',
    also: ['snapshots'],
    run: writeOrder,
  },
]);
