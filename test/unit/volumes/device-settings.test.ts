import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasLimits, MUTABLE_PARAMETERS, parseDeviceSettings } from '../../../src/driver/volumes/device-settings.js';
import { throwsRefusal } from '../../support/refusal.js';

const parse = (map: Record<string, string>) => parseDeviceSettings(map, 'mutable_parameters');

test('absent parameters request nothing', () => {
  const limits = {
    readBytesPerSecond: null,
    writeBytesPerSecond: null,
    readOperationsPerSecond: null,
    writeOperationsPerSecond: null,
  };
  const none = { readAheadKiB: null, ioScheduler: null, loopDirectIo: null, limits };
  assert.deepEqual(parse({}), none);
  assert.deepEqual(parse({ readBytesPerSecond: 'max' }), none);
  assert.equal(hasLimits(parse({ readBytesPerSecond: 'max', readAheadKiB: '1' })), false);
  assert.equal(hasLimits(parse({ writeOperationsPerSecond: '1' })), true);
});

test('every value within its range is accepted', () => {
  assert.equal(parse({ readAheadKiB: '0' }).readAheadKiB, 0);
  assert.equal(parse({ readAheadKiB: '16384' }).readAheadKiB, 16384);
  for (const name of ['none', 'mq-deadline', 'kyber', 'bfq']) {
    assert.equal(parse({ ioScheduler: name }).ioScheduler, name);
  }
  assert.equal(parse({ loopDirectIo: 'true' }).loopDirectIo, true);
  assert.equal(parse({ loopDirectIo: 'false' }).loopDirectIo, false);
  const { limits } = parse({ readBytesPerSecond: '1', writeBytesPerSecond: '9223372036854775807' });
  assert.equal(limits.readBytesPerSecond, 1n);
  assert.equal(limits.writeBytesPerSecond, 2n ** 63n - 1n);
});

test('a value out of range is INVALID_ARGUMENT with its key, value and range', () => {
  const rates = MUTABLE_PARAMETERS.map(({ name }) => name).filter((name) => /Second$/.test(name));
  const cases: [string, string[]][] = [
    ['readAheadKiB', ['-1', '16385', '1.5', '', ' 1', '0x10', '128KiB', 'max']],
    ['ioScheduler', ['', 'cfq', 'None', 'none ', '../none']],
    ['loopDirectIo', ['', 'yes', '1', 'True']],
    ...rates.map((name): [string, string[]] => [
      name,
      ['0', '-1', '', 'Max', '1M', '9223372036854775808', '01', '1e3'],
    ]),
  ];
  assert.equal(rates.length, 4);
  for (const [key, values] of cases) {
    for (const value of values) {
      const { range } = MUTABLE_PARAMETERS.find(({ name }) => name === key) ?? { range: '?' };
      assert.throws(
        () => parse({ [key]: value }),
        (thrown) =>
          thrown instanceof Error &&
          thrown.message.includes(`['${key}'] is '${value}'`) &&
          thrown.message.includes(range),
      );
      throwsRefusal(() => parse({ [key]: value }), 'INVALID_ARGUMENT');
    }
  }
});

test('an unknown key is INVALID_ARGUMENT, with a list of the known ones', () => {
  for (const key of ['readahead', 'constructor', '__proto__', '']) {
    const map = Object.fromEntries([[key, '1']]);
    const all = new RegExp(MUTABLE_PARAMETERS.map(({ name }) => name).join('.*'));
    throwsRefusal(() => parse(map), 'INVALID_ARGUMENT', all);
  }
});
