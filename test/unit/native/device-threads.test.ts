/** Which threads and places each call of the addon has, with threads that answer when the test wants. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { SystemError } from '../../../src/base/errors.js';
import { CallPlaces } from '../../../src/driver/native/call-places.js';
import { DeviceThreads, type Kind } from '../../../src/driver/native/device-threads.js';
import { type NativePool, ofVolume } from '../../../src/driver/native/pool.js';
import { refused } from '../../support/refusal.js';

type Answer = () => unknown;

/** Two places of each kind. */
class Scene {
  /** What runs, as `threads: method`. */
  readonly running: string[] = [];
  readonly #answers = new Map<string, (answer: Answer) => void>();
  readonly runner: DeviceThreads;

  /** @param now the clock; without it the real one */
  constructor(now?: () => number) {
    const clock = now === undefined ? {} : { now };
    const places = (): CallPlaces => new CallPlaces(2, { waitFor: 'x', remedy: 'y', ...clock });
    const lane = (name: Kind) => ({ threads: { run: this.#runOn(name) }, places: places() });
    this.runner = new DeviceThreads({
      node: lane('node'),
      'look-up': lane('look-up'),
      pool: lane('pool'),
      volume: lane('volume'),
      release: lane('release'),
    });
  }

  #runOn(threads: Kind): NativePool['run'] {
    return async (method) => {
      const name = `${threads}: ${method}`;
      this.running.push(name);
      const answer = await new Promise<Answer>((resolve) => this.#answers.set(name, resolve));
      return answer() as never;
    };
  }

  async answer(name: string, answer: Answer = () => ({})): Promise<void> {
    this.#answers.get(name)?.(answer);
    await turn();
  }
}

/** A clock on which five seconds pass between two looks. */
function leaping(): () => number {
  let ms = 0;
  return () => (ms += 5000);
}

const growth = { mountPoint: '/staging', devicePath: '/dev/loop1' };

test('each kind of call has its threads; one for no volume has those of its pool', async () => {
  const { runner, running } = new Scene();
  void runner.run('openDirectories', { root: '/pool', names: [] });
  void runner.run('createSparseFile', { temporaryPath: '', finalPath: '', sizeBytes: 0n });
  void runner.run('growFileSystem', growth, ['v1']);
  void runner.run('thaw', { path: '/staging' }, ['v1']);
  void runner.run('growFileSystem', growth);
  await turn();
  assert.deepEqual(running.sort(), [
    'look-up: openDirectories',
    'pool: createSparseFile',
    'pool: growFileSystem',
    'release: thaw',
    'volume: growFileSystem',
  ]);
});

test('a release gets past a call of its volume that hangs, and another call does not', async () => {
  const scene = new Scene();
  const native = ofVolume(scene.runner, 'v1');
  void native.run('growFileSystem', growth);
  await refused(native.run('flush', { path: '/dev/loop1' }), 'ABORTED', /growFileSystem of v1/);
  const thawed = native.run('thaw', { path: '/staging' });
  await scene.answer('release: thaw');
  await thawed;
  const detached = native.run('loopDetach', { backingPath: '/pool/volumes/v1', hint: null });
  await scene.answer('release: loopDetach');
  await detached;
});

test('an unmount that finds a call of ours on its volume waits for that, and is repeated', async () => {
  const scene = new Scene();
  const native = ofVolume(scene.runner, 'v1');
  const grown = native.run('growFileSystem', growth);
  const busy = (): never => {
    throw new SystemError('EBUSY', 'umount2', '/staging', 'busy');
  };
  const unmounted = native.run('unmountLayer', { path: '/staging', mountId: 1 });
  await scene.answer('release: unmountLayer', busy);
  await scene.answer('volume: growFileSystem');
  await grown;
  await turn();
  await scene.answer('release: unmountLayer');
  await unmounted;
  const unmount = 'release: unmountLayer';
  assert.deepEqual(scene.running, [unmount, 'volume: growFileSystem', unmount].sort().reverse());
  const refusal = assert.rejects(native.run('unmountLayer', { path: '/x', mountId: 2 }), {
    code: 'EBUSY',
  });
  await scene.answer(unmount, busy);
  await refusal;
});

test('look-ups that do not end are named, not those of a volume', async () => {
  const { runner } = new Scene(leaping());
  for (const root of ['/pools/a', '/pools/b']) {
    runner.run('openDirectories', { root, names: [] }).catch(() => undefined);
  }
  const third = runner.run('fileState', { path: '/proc/self/fd/9/v1' }, ['v1']);
  await refused(third, 'ABORTED', /busy with 2 calls \(openDirectories of \/pools\/a for 15 s/);
});

test('work on a pool that does not end is named with its files', async () => {
  const { runner } = new Scene(leaping());
  const begin = (name: string): Promise<unknown> =>
    runner.run('renameFile', { from: `/pool/${name}.tmp`, to: `/pool/${name}` });
  for (const name of ['one', 'two']) begin(name).catch(() => undefined);
  const named = /busy with 2 calls \(renameFile of one for \d+ s; renameFile of two for \d+ s\)/;
  await refused(begin('three'), 'ABORTED', named);
});
