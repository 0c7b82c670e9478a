/** ControllerModifyVolume where the device does not take what it is given. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { CsiError } from '../../../src/base/errors.js';
import type { VolumeRecord } from '../../../src/driver/catalogue/records.js';
import type { ControllerDependencies } from '../../../src/driver/controller/controller-dependencies.js';
import { modifyVolume } from '../../../src/driver/controller/modify-volume.js';
import { callContext } from '../../support/call-context.js';
import { received } from '../../support/received-request.js';
import { refused } from '../../support/refusal.js';
import { managersOfEachTest } from '../volumes/manager-fixture.js';
import { controllerOf } from './controller-fixture.js';

const managers = managersOfEachTest();
let deps: ControllerDependencies;
/** The settings the device was given, in order, and which of them have to be possible. */
let applied: VolumeRecord['mutableParameters'][];
let demanded: (readonly string[])[];
let failure: Error | null;
let volume: VolumeRecord;

beforeEach(async () => {
  applied = [];
  demanded = [];
  failure = null;
  deps = controllerOf(managers, {
    settings: {
      apply: async ({ mutableParameters }, changed) => {
        applied.push(mutableParameters);
        demanded.push(changed);
        if (failure !== null && applied.length === 1) throw failure;
      },
    },
  });
  volume = await managers.volume({ mutableParameters: { readAheadKiB: '64' } });
});

const modify = (mutable_parameters: object): Promise<unknown> =>
  modifyVolume(
    deps,
    received('ControllerModifyVolume', { volume_id: volume.volumeId, mutable_parameters }),
    callContext(),
  );
const recorded = async (): Promise<unknown> =>
  (await managers.catalogue.volumeById(volume.volumeId))?.mutableParameters;

for (const [title, failed, asked, code, message] of [
  [
    'what the device refuses is INVALID_ARGUMENT',
    CsiError.failedPrecondition('ioScheduler bfq is not offered'),
    { ioScheduler: 'bfq' },
    'INVALID_ARGUMENT',
    /^mutable_parameters: io/,
  ],
  [
    'a failure that is not a matter of the values keeps its code',
    CsiError.internal('the device is dead'),
    { readAheadKiB: '128' },
    'INTERNAL',
    /dead/,
  ],
  [
    'a pod that goes away meanwhile is a matter of trying again',
    CsiError.aborted("the pod's cgroup has gone"),
    { readBytesPerSecond: 'max' },
    'ABORTED',
    /has gone/,
  ],
] as const) {
  test(`MV3: ${title}, taken back and not recorded`, async () => {
    failure = failed;
    await refused(modify(asked), code, message);
    assert.deepEqual(applied, [{ readAheadKiB: '64', ...asked }, { readAheadKiB: '64' }]);
    assert.deepEqual(demanded, [Object.keys(asked), []]);
    assert.deepEqual(await recorded(), { readAheadKiB: '64' });
  });
}

test('MV3: settings that could not be recorded are taken back', async () => {
  deps.catalogue = new Proxy(managers.catalogue, {
    get: (target, name) =>
      name === 'setMutableParameters' ? () => Promise.reject(new Error('disk full')) : Reflect.get(target, name),
  });
  await assert.rejects(modify({ readAheadKiB: '128' }), /disk full/);
  assert.deepEqual(applied, [{ readAheadKiB: '128' }, { readAheadKiB: '64' }]);
});

test('MV1, MV5, MV6: what is not named stays, the same again and an empty map change nothing', async () => {
  await modify({});
  assert.deepEqual(applied, []);
  for (let repeat = 0; repeat < 2; repeat += 1) {
    await modify({ loopDirectIo: 'false' });
    assert.deepEqual(await recorded(), { readAheadKiB: '64', loopDirectIo: 'false' });
  }
});

test('MV3: an unknown key or a value out of range is INVALID_ARGUMENT, and nothing is applied', async () => {
  for (const wrong of [
    { unknown: 'x' },
    { pool: 'main' },
    { ioScheduler: 'cfq' },
    { loopDirectIo: 'yes' },
    { readBytesPerSecond: '0' },
    { readAheadKiB: '16385' },
  ]) {
    const call = modify({ readAheadKiB: '256', ...wrong });
    await refused(call, 'INVALID_ARGUMENT', /^mutable_parameters/);
  }
  assert.deepEqual(applied, []);
  assert.deepEqual(await recorded(), { readAheadKiB: '64' });
});

test('a pool that does not answer is FAILED_PRECONDITION, and no wrong value', async () => {
  managers.backend.check = async () => {
    throw CsiError.failedPrecondition('the pool is away');
  };
  await refused(modify({ readAheadKiB: '128' }), 'FAILED_PRECONDITION', /away/);
  assert.deepEqual(applied, []);
});
