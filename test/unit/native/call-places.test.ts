/** Places for calls that may hang in the kernel: who gets one, who waits for one, and who is refused. The test is the clock. */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { CallPlaces } from '../../../src/driver/native/call-places.js';
import { refused } from '../../support/refusal.js';

mock.timers.enable({ apis: ['setTimeout'] });

class Scene {
  readonly begun: string[] = [];
  readonly refusal: string[] = [];
  readonly places: CallPlaces;
  readonly #ends = new Map<string, () => void>();
  #now = 0;

  constructor(places: number) {
    this.places = new CallPlaces(places, {
      waitFor: 'a volume',
      remedy: 'thaw it',
      now: () => this.#now,
    });
  }

  call(what: string, ...volumes: string[]): Promise<void> {
    const work = (): Promise<void> => {
      this.begun.push(what);
      return new Promise((resolve) => this.#ends.set(what, resolve));
    };
    const call = this.places.hold(what, volumes, work);
    call.catch(() => this.refusal.push(what));
    return call;
  }

  async end(what: string): Promise<void> {
    this.#ends.get(what)?.();
    await turn();
  }

  async pass(ms: number): Promise<void> {
    this.#now += ms;
    mock.timers.tick(ms);
    await turn();
  }
}

test('a volume has one call, whatever other volumes have, and one more when that has ended', async () => {
  const scene = new Scene(3);
  void scene.call('growth', 'v1');
  await scene.pass(7500);
  const refusal = /an earlier call has not ended \(growth of v1 for 7 s\).*wait for a volume: thaw it/;
  await refused(scene.call('snapshot', 'v0', 'v1'), 'ABORTED', refusal);
  assert.deepEqual(scene.places.pending('v1'), { what: 'growth', forMs: 7500 });
  assert.equal(scene.places.pending('v0'), null);
  void scene.call('other', 'v2');
  await scene.end('growth');
  void scene.call('again', 'v1');
  assert.deepEqual(scene.begun, ['growth', 'other', 'again']);
});

test('a call for many volumes has one place, and is the call of each of them', async () => {
  const scene = new Scene(2);
  void scene.call('group', 'v1', 'v2', 'v3', 'v4');
  void scene.call('growth', 'v5');
  await refused(scene.call('mount', 'v4'), 'ABORTED', /group of v1, v2, v3, others for 0 s/);
  assert.deepEqual(scene.begun, ['group', 'growth']);
});

test('calls wait for places in the order in which they came, while others begin and end', async () => {
  const scene = new Scene(2);
  for (const number of [1, 2, 3, 4, 5]) void scene.call(`call ${number}`, `v${number}`);
  await turn();
  assert.deepEqual(scene.begun, ['call 1', 'call 2']);
  for (const [index, what] of ['call 2', 'call 3', 'call 4'].entries()) {
    await scene.pass(3999);
    await scene.end(what);
    assert.deepEqual(scene.begun.length, 3 + index);
  }
  assert.deepEqual(scene.begun, ['call 1', 'call 2', 'call 3', 'call 4', 'call 5']);
  assert.deepEqual(scene.refusal, []);
});

test('waiting calls are refused where no call with a place ends, and later calls at once', async () => {
  const scene = new Scene(2);
  void scene.call('growth', 'v1');
  await scene.pass(3000);
  void scene.call('snapshot', 'v2');
  void scene.call('mount', 'v3');
  await scene.pass(3999);
  assert.deepEqual(scene.refusal, []);
  await scene.pass(1);
  assert.deepEqual(scene.refusal, ['mount']);
  const held = /busy with 2 calls \(growth of v1 for 7 s; snapshot of v2 for 4 s\)/;
  await refused(scene.call('clone', 'v4'), 'ABORTED', held);
  await scene.end('growth');
  void scene.call('clone', 'v4');
  assert.deepEqual(scene.begun, ['growth', 'snapshot', 'clone']);
});

test('the call of a volume is outlasted if it ends soon', async () => {
  const scene = new Scene(2);
  assert.equal(await scene.places.outlast(['v1']), false);
  void scene.call('growth', 'v1');
  const outlasted = scene.places.outlast(['v1']);
  await scene.pass(3000);
  await scene.end('growth');
  assert.equal(await outlasted, true);
  void scene.call('growth', 'v1');
  const refusal = refused(scene.places.outlast(['v1']), 'ABORTED', /growth of v1 for 4 s/);
  await scene.pass(4000);
  await refusal;
});
