/** Checks of group snapshots: members, idempotence, refusals, deletion. */
import { StatusCode } from '../../../base/errors.js';
import { type CheckContext, checksOf } from '../check.js';
import { CheckSkipped, ConformanceFailure, expect } from '../failure.js';
import { expectRefusal, type Outcome } from '../judged-driver.js';
import type { Message } from '../objects.js';
import { type Group, groupOf, groupRequest, type Snapshot, type Volume } from '../objects.js';
import { describeRefusal } from '../refusal.js';

const NEEDS = ['groups', 'volumes'] as const;
const CREATE = 'CreateVolumeGroupSnapshot';

async function makeVolumes(context: CheckContext, count = 2): Promise<Volume[]> {
  const volumes: Volume[] = [];
  for (let made = 0; made < count; made += 1) {
    volumes.push(await context.volumes.create({ access: context.shared.access }));
  }
  return volumes;
}

function requestOf(context: CheckContext, name: string, volumes: readonly Volume[]): Message {
  return {
    name,
    source_volume_ids: volumes.map(({ id }) => id),
    parameters: context.options.snapshotParameters,
  };
}

async function create(context: CheckContext): Promise<void> {
  const volumes = await makeVolumes(context);
  const request = requestOf(context, context.volumes.name(), volumes);
  const answer = (await context.driver.call(CREATE, request))['group_snapshot'] as Message;
  const group = context.volumes.adoptGroup(answer);
  expect(group.id !== '', CREATE, 'a group_snapshot_id', () => 'none');
  expect(answer['creation_time'] !== null, CREATE, 'a creation_time', () => 'none');
  const sources = group.snapshots.map(({ sourceVolumeId }) => sourceVolumeId).sort();
  const wanted = volumes.map(({ id }) => id).sort();
  expect(
    sources.join() === wanted.join(),
    CREATE,
    `one snapshot for each of ${wanted.join(', ')}`,
    () => `snapshots of ${sources.join(', ')}`,
  );
  expectMembers(group);
  const members = answer['snapshots'] as Message[];
  const isReady = members.every((member) => member['ready_to_use'] === true);
  expect(
    answer['ready_to_use'] === isReady || (!answer['ready_to_use'] && isReady),
    CREATE,
    'ready_to_use false while a member is not ready',
    () => 'true',
  );
  if (!isReady) context.note('members are not ready to use when the call returns');
}

function expectMembers(group: Group): void {
  const ids = new Set(group.snapshots.map(({ id }) => id));
  expect(ids.size === group.snapshots.length && !ids.has(''), CREATE, 'a snapshot_id of its own for each member', () =>
    [...ids].join(', '),
  );
  for (const { id, groupId } of group.snapshots) {
    expect(groupId === group.id, `${CREATE}: member ${id}`, `group_snapshot_id ${group.id}`, () =>
      groupId === '' ? 'none' : groupId,
    );
  }
}

async function idempotent(context: CheckContext): Promise<void> {
  const name = context.volumes.name();
  const volumes = await makeVolumes(context);
  const first = await context.volumes.createGroup(volumes, name);
  const again = await context.volumes.createGroup(volumes, name);
  const ids = (group: Group): string => [group.id, ...memberIds(group)].join(', ');
  expect(ids(first) === ids(again), `${CREATE} a second time`, `the same group ${ids(first)}`, () => ids(again));
}

function memberIds(group: Group): string[] {
  return group.snapshots.map(({ id }) => id).sort();
}

async function mismatch(context: CheckContext): Promise<void> {
  const name = context.volumes.name();
  const [one, two] = (await makeVolumes(context)) as [Volume, Volume];
  await context.volumes.createGroup([one, two], name);
  const outcome = await context.driver.outcome(CREATE, requestOf(context, name, [one]));
  if (outcome.response !== null) context.volumes.adoptGroup(outcome.response['group_snapshot']);
  expectRefusal(`${CREATE} with the name of a group of other volumes`, outcome, [StatusCode.ALREADY_EXISTS]);
}

/** Requests a group of one volume and one that does not exist. Whatever the driver makes of the request is deleted later. */
async function askWithMissing(context: CheckContext): Promise<{ outcome: Outcome; left: readonly Snapshot[] }> {
  const { volumes, driver, advertised, random } = context;
  const [volume] = (await makeVolumes(context, 1)) as [Volume];
  const request = {
    ...requestOf(context, volumes.name(), [volume]),
    source_volume_ids: [volume.id, `no-such-volume-${random.below(1e9)}`],
  };
  const outcome = await driver.outcome(CREATE, request);
  if (outcome.response !== null) volumes.adoptGroup(outcome.response['group_snapshot']);
  if (outcome.response !== null || !advertised.controller.has('LIST_SNAPSHOTS')) {
    return { outcome, left: [] };
  }
  const { entries } = await driver.call('ListSnapshots', { source_volume_id: volume.id });
  const left = (entries as Message[]).map(({ snapshot }) => volumes.adoptSnapshot(snapshot));
  return { outcome, left };
}

async function sourceMissing(context: CheckContext): Promise<void> {
  const { outcome } = await askWithMissing(context);
  expectRefusal(`${CREATE} with a volume that does not exist`, outcome, [StatusCode.NOT_FOUND]);
}

async function refusedLeavesNothing(context: CheckContext): Promise<void> {
  const { outcome, left } = await askWithMissing(context);
  if (outcome.response !== null) {
    throw new CheckSkipped('the driver takes such a group: see groups.source-missing');
  }
  expect(left.length === 0, `ListSnapshots after a refused ${CREATE}`, 'no snapshot of its volumes', () =>
    left.map(({ id }) => id).join(', '),
  );
}

async function memberDelete(context: CheckContext): Promise<void> {
  const { volumes, driver } = context;
  const group = await volumes.createGroup(await makeVolumes(context));
  const member = group.snapshots[0] as Snapshot;
  const { refusal } = await driver.outcome('DeleteSnapshot', { snapshot_id: member.id });
  if (refusal !== null && (member.groupId === '' || refusal.code !== StatusCode.INVALID_ARGUMENT)) {
    throw new ConformanceFailure(
      `DeleteSnapshot of a member ${member.groupId === '' ? 'without' : 'with'} group_snapshot_id`,
      member.groupId === '' ? 'OK' : 'OK or INVALID_ARGUMENT',
      describeRefusal(refusal),
    );
  }
  context.note(refusal === null ? 'members can be deleted one by one' : 'members cannot be deleted one by one');
  // Either way, the rest of the group can be deleted as a whole.
  const left = refusal === null ? group.snapshots.slice(1) : group.snapshots;
  await driver.call('DeleteVolumeGroupSnapshot', groupRequest({ ...group, snapshots: left }));
  volumes.forgetGroup(group);
}

async function deleteGroup(context: CheckContext): Promise<void> {
  const { volumes, driver } = context;
  const group = await volumes.createGroup(await makeVolumes(context));
  await volumes.deleteGroup(group);
  await driver.call('DeleteVolumeGroupSnapshot', groupRequest(group));
  const never = { id: `no-such-group-${context.random.below(1e9)}`, snapshots: group.snapshots };
  await driver.call('DeleteVolumeGroupSnapshot', groupRequest(never));
  const outcome = await driver.outcome('GetVolumeGroupSnapshot', groupRequest(group));
  expectRefusal('GetVolumeGroupSnapshot of a deleted group', outcome, [StatusCode.NOT_FOUND]);
  if (!context.advertised.controller.has('LIST_SNAPSHOTS')) return;
  for (const { id } of group.snapshots) {
    const { entries } = await driver.call('ListSnapshots', { snapshot_id: id });
    expect(entries.length === 0, `ListSnapshots of ${id}`, 'no entry, as its group is deleted', () => id);
  }
}

async function listMismatch(context: CheckContext): Promise<void> {
  const { volumes, driver } = context;
  const group = await volumes.createGroup(await makeVolumes(context));
  const other = {
    group_snapshot_id: group.id,
    snapshot_ids: [`no-such-snapshot-${context.random.below(1e9)}`],
  };
  for (const rpc of ['GetVolumeGroupSnapshot', 'DeleteVolumeGroupSnapshot']) {
    const outcome = await driver.outcome(rpc, other);
    if (outcome.refusal === null && rpc.startsWith('Delete')) volumes.forgetGroup(group);
    expectRefusal(`${rpc} with snapshot_ids that are not its members`, outcome, [StatusCode.INVALID_ARGUMENT]);
  }
}

async function get(context: CheckContext): Promise<void> {
  const { volumes, driver } = context;
  const group = await volumes.createGroup(await makeVolumes(context));
  const rpc = 'GetVolumeGroupSnapshot';
  const answer = (await driver.call(rpc, groupRequest(group)))['group_snapshot'] as Message;
  const found = groupOf(answer);
  expect(found.id === group.id, rpc, `group ${group.id}`, () => found.id);
  expect(memberIds(found).join() === memberIds(group).join(), rpc, `the members ${memberIds(group).join(', ')}`, () =>
    memberIds(found).join(', '),
  );
  const never = { group_snapshot_id: `no-such-group-${context.random.below(1e9)}` };
  const outcome = await driver.outcome(rpc, { ...never, snapshot_ids: memberIds(group) });
  expectRefusal(`${rpc} of an unknown group`, outcome, [StatusCode.NOT_FOUND]);
}

async function missingFields(context: CheckContext): Promise<void> {
  const { driver, volumes } = context;
  const [volume] = (await makeVolumes(context, 1)) as [Volume];
  const name = volumes.name();
  const requests: [string, Message, string][] = [
    [CREATE, { ...requestOf(context, name, [volume]), name: '' }, 'name'],
    [CREATE, { ...requestOf(context, name, [volume]), source_volume_ids: [] }, 'source_volume_ids'],
    ['DeleteVolumeGroupSnapshot', { snapshot_ids: ['one'] }, 'group_snapshot_id'],
    ['GetVolumeGroupSnapshot', { snapshot_ids: ['one'] }, 'group_snapshot_id'],
  ];
  for (const [rpc, request, field] of requests) {
    const outcome = await driver.outcome(rpc, request);
    expectRefusal(`${rpc} without ${field}`, outcome, [StatusCode.INVALID_ARGUMENT]);
  }
}

const GROUPS = `GroupController: ${CREATE}`;
const ERRORS = `${GROUPS} Errors`;

export const groupChecks = checksOf(NEEDS, ERRORS, [
  {
    id: 'groups.create',
    section: GROUPS,
    rule: 'GA9',
    title: 'a group has one snapshot of each volume, and each snapshot names its group',
    run: create,
  },
  {
    id: 'groups.idempotent',
    section: GROUPS,
    rule: 'GA3',
    title: 'repeating CreateVolumeGroupSnapshot returns the same group',
    run: idempotent,
  },
  {
    id: 'groups.mismatch',
    rule: 'GA4',
    title: 'a name in use by a group of other volumes: ALREADY_EXISTS',
    run: mismatch,
  },
  {
    id: 'groups.source-missing',
    rule: 'GA5',
    title: 'a volume that does not exist: NOT_FOUND',
    level: 'should',
    run: sourceMissing,
  },
  {
    id: 'groups.refused-leaves-nothing',
    rule: 'GA5',
    title: 'a group that is refused leaves no snapshot of its volumes',
    level: 'should',
    also: ['list-snapshots'],
    run: refusedLeavesNothing,
  },
  {
    id: 'groups.missing-fields',
    section: 'Error Scheme',
    rule: 'GA1',
    title: 'a missing required field: INVALID_ARGUMENT',
    run: missingFields,
  },
  {
    id: 'groups.member-delete',
    section: 'Controller: DeleteSnapshot Errors',
    rule: 'DS3',
    title: 'deleting a single member succeeds or is refused with INVALID_ARGUMENT',
    also: ['snapshots'],
    run: memberDelete,
  },
  {
    id: 'groups.delete',
    section: 'GroupController: DeleteVolumeGroupSnapshot',
    rule: 'GD5',
    title: 'deleting a group deletes its members, and can be repeated',
    run: deleteGroup,
  },
  {
    id: 'groups.list-mismatch',
    section: 'GroupController: DeleteVolumeGroupSnapshot Errors, GetVolumeGroupSnapshot Errors',
    rule: 'GD3',
    title: 'snapshot_ids that are not the members: INVALID_ARGUMENT',
    level: 'should',
    run: listMismatch,
  },
  {
    id: 'groups.get',
    section: 'GroupController: GetVolumeGroupSnapshot',
    rule: 'GE4',
    title: 'a group is returned as it was created; an unknown group: NOT_FOUND',
    run: get,
  },
]);
