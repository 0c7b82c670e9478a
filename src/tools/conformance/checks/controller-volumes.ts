/** Controller and node checks of volumes: idempotent creation, refusals, deletion, publishing. */
import { lstat } from 'node:fs/promises';
import { errorCode, StatusCode } from '../../../base/errors.js';
import { type CheckContext, checksOf } from '../check.js';
import { expect } from '../failure.js';
import { expectRefusal } from '../judged-driver.js';
import type { Message } from '../objects.js';
import { volumeSizeOf } from '../options.js';

const NEEDS = ['volumes'] as const;
const INVALID = [StatusCode.INVALID_ARGUMENT] as const;

const unknownId = (context: CheckContext): string => `no-such-volume-${context.random.below(1e9)}`;

async function createIdempotent(context: CheckContext): Promise<void> {
  const { volumes, driver, shared, options } = context;
  const name = volumes.name();
  const spec = { access: shared.access };
  const request = volumes.createRequest(name, spec);
  const first = (await driver.call('CreateVolume', request))['volume'] as Message;
  volumes.adopt(name, spec, first);
  const again = (await driver.call('CreateVolume', request))['volume'] as Message;
  volumes.adopt(name, spec, again);
  expect(first['volume_id'] !== '', 'CreateVolume', 'a volume_id', () => 'none');
  expect(first['volume_id'] === again['volume_id'], 'CreateVolume a second time', `volume ${first['volume_id']}`, () =>
    String(again['volume_id']),
  );
  const wanted = volumeSizeOf(options, shared.access);
  const capacity = Number(first['capacity_bytes']);
  expect(
    capacity === 0 || capacity >= wanted,
    'CreateVolume: capacity_bytes',
    `at least the ${wanted} asked for`,
    () => `${capacity}`,
  );
}

async function createConflict(context: CheckContext): Promise<void> {
  const { volumes, driver, shared } = context;
  const name = volumes.name();
  const spec = { access: shared.access };
  const request = volumes.createRequest(name, spec);
  const { volume } = await driver.call('CreateVolume', request);
  const { sizeBytes } = volumes.adopt(name, spec, volume);
  const outcome = await driver.outcome('CreateVolume', {
    ...request,
    capacity_range: { required_bytes: String(sizeBytes * 2) },
  });
  expectRefusal('CreateVolume with the name of a smaller volume', outcome, [StatusCode.ALREADY_EXISTS]);
}

async function createMissingFields(context: CheckContext): Promise<void> {
  const { volumes, driver, shared } = context;
  const request = volumes.createRequest(volumes.name(), { access: shared.access });
  for (const field of ['name', 'volume_capabilities']) {
    const { [field]: _left, ...rest } = request;
    const outcome = await driver.outcome('CreateVolume', rest);
    expectRefusal(`CreateVolume without ${field}`, outcome, INVALID);
  }
}

async function createFromMissing(context: CheckContext): Promise<void> {
  const { volumes, driver, shared } = context;
  const snapshotId = `no-such-snapshot-${context.random.below(1e9)}`;
  const request = volumes.createRequest(volumes.name(), { access: shared.access, snapshotId });
  const outcome = await driver.outcome('CreateVolume', request);
  expectRefusal('CreateVolume from an unknown snapshot', outcome, [StatusCode.NOT_FOUND]);
}

async function deleteVolume(context: CheckContext): Promise<void> {
  const { volumes, driver, shared } = context;
  const volume = await volumes.create({ access: shared.access });
  await driver.call('DeleteVolume', { volume_id: volume.id });
  await driver.call('DeleteVolume', { volume_id: volume.id });
  await driver.call('DeleteVolume', { volume_id: unknownId(context) });
  expectRefusal('DeleteVolume without volume_id', await driver.outcome('DeleteVolume', {}), INVALID);
}

async function validate(context: CheckContext): Promise<void> {
  const { volumes, driver, shared } = context;
  const rpc = 'ValidateVolumeCapabilities';
  const volume = await volumes.create({ access: shared.access });
  const request = {
    volume_id: volume.id,
    volume_context: volume.context,
    volume_capabilities: [volume.capability],
    parameters: context.options.parameters,
  };
  const { confirmed } = await driver.call(rpc, request);
  expect(
    confirmed !== null && confirmed.volume_capabilities.length > 0,
    rpc,
    'the capability the volume was created with to be confirmed',
    () => 'not confirmed',
  );
  const without = { ...request, volume_id: '' };
  expectRefusal(`${rpc} without volume_id`, await driver.outcome(rpc, without), INVALID);
  const unknown = { ...request, volume_id: unknownId(context) };
  expectRefusal(`${rpc} of an unknown volume`, await driver.outcome(rpc, unknown), [StatusCode.NOT_FOUND]);
}

async function list(context: CheckContext): Promise<void> {
  const { volumes, driver, shared } = context;
  const made = [];
  for (let count = 0; count < 2; count += 1) {
    made.push((await volumes.create({ access: shared.access })).id);
  }
  const found: string[] = [];
  let token = '';
  do {
    const answer = await driver.call('ListVolumes', { max_entries: 1, starting_token: token });
    const { entries } = answer;
    expect(entries.length <= 1, 'ListVolumes with max_entries 1', 'one', () => `${entries.length}`);
    found.push(...entries.map((entry: Message) => String(entry['volume'].volume_id)));
    token = answer['next_token'];
  } while (token !== '');
  const lost = made.filter((id) => !found.includes(id));
  expect(lost.length === 0, 'ListVolumes page by page', 'every volume', () => `not ${lost.join()}`);
  const outcome = await driver.attempt('ListVolumes', { starting_token: 'no-such-token' });
  expectRefusal('ListVolumes with an invalid token', outcome, [StatusCode.ABORTED]);
}

async function publishTwice(context: CheckContext): Promise<void> {
  const { volumes, driver, shared } = context;
  const volume = await volumes.create({ access: shared.access });
  for (let round = 0; round < 2; round += 1) {
    const path = await volumes.publish(volume);
    await volumes.publish(volume);
    await volumes.unpublish(volume);
    const left = await lstat(path).catch((error: unknown) => errorCode(error));
    expect(left === 'ENOENT', 'NodeUnpublishVolume', `nothing left at ${path}`, () => 'something');
    const request = { volume_id: volume.id, target_path: path };
    await driver.call('NodeUnpublishVolume', request);
  }
}

export const controllerVolumeChecks = checksOf(NEEDS, 'Controller: CreateVolume', [
  {
    id: 'volume.create-idempotent',
    rule: 'CV2',
    title: 'repeating CreateVolume returns the same volume, and it is large enough',
    run: createIdempotent,
  },
  {
    id: 'volume.create-conflict',
    section: 'Controller: CreateVolume Errors',
    rule: 'CV3',
    title: 'a name in use by a volume of another size: ALREADY_EXISTS',
    run: createConflict,
  },
  {
    id: 'volume.create-missing-fields',
    rule: 'CV1',
    title: 'a missing required field: INVALID_ARGUMENT',
    run: createMissingFields,
  },
  {
    id: 'volume.create-from-missing',
    section: 'Controller: CreateVolume Errors',
    rule: 'CV11',
    title: 'a source that does not exist: NOT_FOUND',
    also: ['snapshots'],
    run: createFromMissing,
  },
  {
    id: 'volume.delete',
    section: 'Controller: DeleteVolume',
    rule: 'DV2',
    title: 'deleting an unknown id succeeds; a missing id: INVALID_ARGUMENT',
    run: deleteVolume,
  },
  {
    id: 'volume.validate',
    section: 'Controller: ValidateVolumeCapabilities',
    rule: 'VV3',
    title: 'a volume is confirmed for the capabilities it was created with',
    run: validate,
  },
  {
    id: 'volume.list',
    section: 'Controller: ListVolumes',
    rule: 'LV2',
    title: 'the pages together list every volume; an invalid token: ABORTED',
    also: ['list-volumes'],
    run: list,
  },
  {
    id: 'volume.publish-twice',
    section: 'Node: NodePublishVolume, NodeUnpublishVolume',
    rule: 'NQ2',
    title: 'staging and publishing can be repeated, and unpublishing leaves nothing behind',
    also: ['publish'],
    run: publishTwice,
  },
]);
