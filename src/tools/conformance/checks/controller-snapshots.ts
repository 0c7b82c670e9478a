/** Controller checks of snapshots: idempotent creation, required fields, listing, deletion. */
import { StatusCode } from '../../../base/errors.js';
import { type CheckContext, checksOf } from '../check.js';
import { expect } from '../failure.js';
import { expectRefusal } from '../judged-driver.js';
import type { Message } from '../objects.js';

const NEEDS = ['snapshots', 'volumes'] as const;
const INVALID = [StatusCode.INVALID_ARGUMENT] as const;

const unknownId = (context: CheckContext): string => `no-such-snapshot-${context.random.below(1e9)}`;

async function createIdempotent(context: CheckContext): Promise<void> {
  const { volumes, driver, shared, options } = context;
  const volume = await volumes.create({ access: shared.access });
  const request = {
    source_volume_id: volume.id,
    name: volumes.name(),
    parameters: options.snapshotParameters,
  };
  const first = (await driver.call('CreateSnapshot', request))['snapshot'] as Message;
  volumes.adoptSnapshot(first);
  const again = (await driver.call('CreateSnapshot', request))['snapshot'] as Message;
  volumes.adoptSnapshot(again);
  expect(first['snapshot_id'] !== '', 'CreateSnapshot', 'a snapshot_id', () => 'none');
  expect(first['creation_time'] !== null, 'CreateSnapshot', 'a creation_time', () => 'none');
  const source = String(first['source_volume_id']);
  expect(source === volume.id, 'CreateSnapshot: source_volume_id', volume.id, () => source);
  const id = String(again['snapshot_id']);
  expect(id === first['snapshot_id'], 'CreateSnapshot a second time', first['snapshot_id'], () => id);
}

async function createConflict(context: CheckContext): Promise<void> {
  const { volumes, driver, shared, options } = context;
  const one = await volumes.create({ access: shared.access });
  const other = await volumes.create({ access: shared.access });
  const name = volumes.name();
  const request = { name, parameters: options.snapshotParameters };
  const made = await driver.call('CreateSnapshot', { ...request, source_volume_id: one.id });
  volumes.adoptSnapshot(made['snapshot']);
  const outcome = await driver.outcome('CreateSnapshot', { ...request, source_volume_id: other.id });
  if (outcome.response !== null) volumes.adoptSnapshot(outcome.response['snapshot']);
  expectRefusal('CreateSnapshot with the name of a snapshot of another volume', outcome, [StatusCode.ALREADY_EXISTS]);
}

async function missingFields(context: CheckContext): Promise<void> {
  const { volumes, driver, shared } = context;
  const volume = await volumes.create({ access: shared.access });
  const request = { source_volume_id: volume.id, name: volumes.name() };
  for (const field of ['source_volume_id', 'name']) {
    const outcome = await driver.outcome('CreateSnapshot', { ...request, [field]: '' });
    if (outcome.response !== null) volumes.adoptSnapshot(outcome.response['snapshot']);
    expectRefusal(`CreateSnapshot without ${field}`, outcome, INVALID);
  }
}

async function deleteSnapshot(context: CheckContext): Promise<void> {
  const { volumes, driver, shared } = context;
  const volume = await volumes.create({ access: shared.access });
  const snapshot = await volumes.snapshot(volume);
  for (const id of [snapshot.id, snapshot.id, unknownId(context)]) {
    await driver.call('DeleteSnapshot', { snapshot_id: id });
  }
  const outcome = await driver.outcome('DeleteSnapshot', {});
  expectRefusal('DeleteSnapshot without snapshot_id', outcome, INVALID);
}

async function list(context: CheckContext): Promise<void> {
  const { volumes, driver, shared } = context;
  const volume = await volumes.create({ access: shared.access });
  const made = [await volumes.snapshot(volume), await volumes.snapshot(volume)];
  const idsOf = async (request: Message): Promise<string[]> => {
    const { entries } = await driver.call('ListSnapshots', request);
    return entries.map((entry: Message) => String(entry['snapshot'].snapshot_id)).sort();
  };
  const wanted = made.map(({ id }) => id).sort();
  const [first] = wanted as [string];
  const rows: [string, Message, string[]][] = [
    ['by snapshot_id', { snapshot_id: first }, [first]],
    ['by source_volume_id', { source_volume_id: volume.id }, wanted],
    ['by an unknown snapshot_id', { snapshot_id: unknownId(context) }, []],
    ['by an unknown source_volume_id', { source_volume_id: unknownId(context) }, []],
  ];
  for (const [how, request, ids] of rows) {
    const found = await idsOf(request);
    expect(found.join() === ids.join(), `ListSnapshots ${how}`, ids.length === 0 ? 'nothing' : ids.join(', '), () =>
      found.join(', '),
    );
  }
  const outcome = await driver.attempt('ListSnapshots', { starting_token: 'no-such-token' });
  expectRefusal('ListSnapshots with an invalid token', outcome, [StatusCode.ABORTED]);
}

async function get(context: CheckContext): Promise<void> {
  const { volumes, driver, shared } = context;
  const volume = await volumes.create({ access: shared.access });
  const made = await volumes.snapshot(volume);
  const { snapshot } = await driver.call('GetSnapshot', { snapshot_id: made.id });
  const id = String(snapshot?.snapshot_id);
  expect(id === made.id, 'GetSnapshot', made.id, () => id);
  const unknown = await driver.outcome('GetSnapshot', { snapshot_id: unknownId(context) });
  expectRefusal('GetSnapshot of an unknown snapshot', unknown, [StatusCode.NOT_FOUND]);
  expectRefusal('GetSnapshot without snapshot_id', await driver.outcome('GetSnapshot', {}), INVALID);
}

export const controllerSnapshotChecks = checksOf(NEEDS, 'Controller: CreateSnapshot', [
  {
    id: 'snapshot.create-idempotent',
    rule: 'CS2',
    title: 'repeating CreateSnapshot returns the same snapshot, with every field set',
    run: createIdempotent,
  },
  {
    id: 'snapshot.create-conflict',
    section: 'Controller: CreateSnapshot Errors',
    rule: 'CS3',
    title: 'a name in use by a snapshot of another volume: ALREADY_EXISTS',
    run: createConflict,
  },
  {
    id: 'snapshot.create-missing-fields',
    rule: 'CS1',
    title: 'a missing required field: INVALID_ARGUMENT',
    run: missingFields,
  },
  {
    id: 'snapshot.delete',
    section: 'Controller: DeleteSnapshot',
    rule: 'DS2',
    title: 'deleting an unknown id succeeds; a missing id: INVALID_ARGUMENT',
    run: deleteSnapshot,
  },
  {
    id: 'snapshot.list',
    section: 'Controller: ListSnapshots',
    rule: 'LS3',
    title: 'filters return exactly the matching snapshots; an invalid token: ABORTED',
    also: ['list-snapshots'],
    run: list,
  },
  {
    id: 'snapshot.get',
    section: 'Controller: GetSnapshot',
    rule: 'GS2',
    title: 'a snapshot is returned by its id; an unknown id: NOT_FOUND',
    also: ['get-snapshot'],
    run: get,
  },
]);
