/** The condition of volumes in the controller's answers, where pools are slow and volumes vanish. */
import assert from 'node:assert/strict';
import { beforeEach, type TestContext, test } from 'node:test';
import type { ResponseOf } from '../../../src/base/csi/service.js';
import { CsiError } from '../../../src/base/errors.js';
import type { ControllerDependencies } from '../../../src/driver/controller/controller-dependencies.js';
import { getVolume, listVolumes } from '../../../src/driver/controller/lists.js';
import { storageConditionOf } from '../../../src/driver/health/controller-health.js';
import { PoolProbe } from '../../../src/driver/health/storage-observations.js';
import type { VolumeCondition } from '../../../src/driver/health/volume-health.js';
import { noContext, received } from '../../support/received-request.js';
import { managersOfEachTest } from '../volumes/manager-fixture.js';
import { controllerOf } from './controller-fixture.js';

const HEALTHY: VolumeCondition = { abnormal: false, message: 'the volume is healthy' };
const VOLUMES = 50;

const managers = managersOfEachTest();
let deps: ControllerDependencies;

beforeEach(() => {
  const { catalogue, registry } = managers.deps;
  const backendOf = (pool: string) => registry.owning(pool);
  deps = controllerOf(managers, { conditionOf: storageConditionOf({ catalogue, backendOf }) });
});

async function listed(): Promise<VolumeCondition[]> {
  const { entries } = (await listVolumes(deps, received('ListVolumes'), noContext)) as {
    entries: unknown;
  };
  return (entries as { status: { volume_condition: VolumeCondition } }[]).map(({ status }) => status.volume_condition);
}

/** A clock that advances only when a test advances it. */
function stopClock(t: TestContext): { advance(ms: number): void } {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  return {
    advance: (ms) => {
      now += ms;
    },
  };
}

/** A pool that takes the full time to be found dead; how often it was looked at. */
function killPool(clock: { advance(ms: number): void }): { looks: number } {
  const seen = { looks: 0 };
  managers.backend.check = async () => {
    seen.looks += 1;
    await new Promise(setImmediate);
    clock.advance(5000);
    throw CsiError.failedPrecondition('it does not answer');
  };
  return seen;
}

test('a list is answered from one look at its pool, however long the pool takes to answer', async (t) => {
  for (let index = 0; index < VOLUMES; index += 1) await managers.volume();
  const clock = stopClock(t);
  const seen = killPool(clock);
  const conditions = await listed();
  assert.equal(conditions.length, VOLUMES);
  for (const { abnormal, message } of conditions) {
    assert.equal(abnormal, true);
    assert.match(message, /^PoolUnreachable: it does not answer/);
  }
  assert.equal(seen.looks, 1);
  clock.advance(1001);
  await listed();
  assert.equal(seen.looks, 2, 'another list is not answered from a look long ago');
});

test('a pool that dies while a list is made is waited for by few of its volumes', async (t) => {
  for (let index = 0; index < VOLUMES; index += 1) await managers.volume();
  const clock = stopClock(t);
  let asked = 0;
  let waited = 0;
  const { condition } = managers.backend.volumes;
  managers.backend.volumes.condition = async (volumeId) => {
    asked += 1;
    if (asked <= 10) return condition(volumeId);
    killPool(clock);
    waited += 1;
    return managers.backend.check().then(() => condition(volumeId));
  };
  const conditions = await listed();
  assert.equal(conditions.filter(({ abnormal }) => !abnormal).length, 10);
  assert.ok(waited <= 4, `${waited} volumes have waited`);
});

test('a volume that is deleted meanwhile is not reported as lost', async () => {
  const volume = await managers.volume();
  const { backend } = managers;
  const request = received('ControllerGetVolume', { volume_id: volume.volumeId });
  const conditionOfOne = async (): Promise<unknown> => {
    const answer = await getVolume(deps, request, noContext);
    return (answer as ResponseOf<'ControllerGetVolume'>).status?.volume_condition;
  };
  const { condition } = backend.volumes;
  await backend.volumes.delete(volume.volumeId);
  const lost = {
    abnormal: true,
    message: 'BackingFileMissing: its file is gone from the pool; restore a snapshot or a backup',
  };
  assert.deepEqual(await listed(), [lost], 'without a deletion');
  assert.deepEqual(await conditionOfOne(), lost);
  for (const ask of [async () => (await listed())[0], conditionOfOne]) {
    await managers.catalogue.setVolumeState(volume.volumeId, 'ready');
    backend.volumes.condition = async (volumeId) => {
      await managers.catalogue.setVolumeState(volumeId, 'deleting');
      return condition(volumeId);
    };
    assert.deepEqual(await ask(), HEALTHY);
  }
});

test('a pool that hangs after its check, or while a volume is read, is unreachable, and probed once', async () => {
  const { catalogue, registry } = managers.deps;
  const probe = new PoolProbe({ catalogue, backendOf: (pool) => registry.owning(pool) }, 0, 10);
  const volume = await managers.volume();
  managers.backend.volumes.condition = () => new Promise(() => undefined);
  assert.match((await probe.volume(volume)).pool.failure ?? '', /does not answer/);
  let asked = 0;
  managers.backend.capacity = () => {
    asked += 1;
    return new Promise(() => undefined);
  };
  for (let round = 0; round < 3; round += 1) {
    assert.match((await probe.pool('default')).failure ?? '', /pool 'default' does not answer/);
  }
  assert.equal(asked, 1);
});
