/**
 * The addon against arguments that nobody should give it: every function answers, and neither throws
 * nor ends the process. None of the arguments leads to anything that exists.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type NativeFailure, toSystemError } from '../../../src/base/system/native-result.js';
import { loadAddon } from '../../../src/driver/native/addon.js';

type AnyFunction = (...given: unknown[]) => NativeFailure | { ok: true };

const addon = loadAddon();
const functions = Object.entries(addon as unknown as Record<string, AnyFunction>);

const NOWHERE = '/nonexistent/blockdelta';
/** The fields of all requests, so that each function finds some of its own right. */
const SOUND: Record<string, unknown> = {
  path: NOWHERE,
  directory: NOWHERE,
  sourcePath: NOWHERE,
  temporaryPath: `${NOWHERE}.tmp`,
  finalPath: NOWHERE,
  loopPath: null,
  freezePath: null,
  backingPath: NOWHERE,
  devicePath: NOWHERE,
  mountPoint: NOWHERE,
  label: '',
  readOnly: true,
  directIo: true,
  immutable: true,
  sizeBytes: 4096n,
  source: { kind: 'files', target: null, base: null },
};
const throwing = {
  get path(): string {
    throw new Error('a getter');
  },
};
const ODD: unknown[] = [
  undefined,
  null,
  true,
  0,
  -1,
  Number.NaN,
  2 ** 63,
  -1n,
  2n ** 63n,
  2n ** 64n,
  '',
  `${NOWHERE}\0/etc`,
  'x'.repeat(100_000),
  '\ud800',
  Symbol('odd'),
  throwing,
  [],
  {},
  [null],
  new Array(2 ** 32 - 1),
  new Proxy([], {}),
  new Uint8Array(3),
  new ArrayBuffer(0),
  () => NOWHERE,
];

function answers(name: string, call: () => NativeFailure | { ok: true }): void {
  const answer = call();
  // What is not there is detached, removed and forgotten already.
  if (answer.ok) return;
  assert.equal(typeof answer.code, 'string', name);
  assert.notEqual(answer.before, '', name);
}

test('a function of the addon that is given odd arguments answers, and throws nothing', () => {
  for (const [name, call] of functions) {
    for (const odd of ODD) {
      answers(name, () => call(odd));
      answers(name, () => call(odd, odd));
      for (const field of Object.keys(SOUND)) answers(name, () => call({ ...SOUND, [field]: odd }));
    }
    answers(name, () => call());
  }
});

test('a request without its fields is EINVAL, and the message names function and field', () => {
  for (const [name, call] of functions) {
    // Their requests have no fields.
    if (name === 'dmVersion' || name === 'loopList') continue;
    const answer = call({}, new ArrayBuffer(65536));
    assert.ok(!answer.ok, name);
    assert.equal(answer.code, 'EINVAL', name);
    assert.match(toSystemError(answer).message, new RegExp(`^${name}: .* must be `), name);
  }
});

test('odd members of a group snapshot are EINVAL, wherever they stand', () => {
  const cut = addon.takeSnapshots as unknown as AnyFunction;
  const refusesMembers = (members: unknown): void => {
    const answer = cut({ members });
    assert.ok(!answer.ok && answer.code === 'EINVAL');
  };
  for (const odd of [...ODD, new Array(4097).fill(SOUND)]) refusesMembers(odd);
  for (const odd of ODD.filter((value) => typeof value !== 'string')) {
    refusesMembers([SOUND, odd, SOUND]);
    for (const field of ['sourcePath', 'temporaryPath', 'finalPath']) {
      refusesMembers([SOUND, { ...SOUND, [field]: odd }, SOUND]);
    }
  }
  refusesMembers(
    Object.defineProperty([SOUND], 0, {
      get: () => {
        throw new Error('a getter');
      },
    }),
  );
});
