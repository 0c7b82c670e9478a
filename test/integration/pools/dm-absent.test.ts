/** Device-mapper control on a machine whose kernel has no device-mapper: every call says so. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { toSystemError } from '../../../src/base/system/native-result.js';
import { DEFAULT_FREEZING, freezeRequest } from '../../../src/driver/backends/freezing.js';
import { loadAddon } from '../../../src/driver/native/addon.js';
import { skipUnlessRoot } from '../../support/workspace.js';

const freezing = freezeRequest(DEFAULT_FREEZING, Number.POSITIVE_INFINITY);

const hasDeviceMapper = /\bdevice-mapper$/m.test(readFileSync('/proc/misc', 'utf8'));
const skip = hasDeviceMapper ? 'this machine has device-mapper' : skipUnlessRoot;

test('every call that needs device-mapper fails without it, and reports that it is missing', {
  skip,
}, () => {
  const addon = loadAddon();
  const name = 'blockdelta-none';
  const table = { readOnly: false, sizeSectors: 8n, type: 'zero', table: '' };
  const answers = [
    addon.dmVersion({}),
    addon.dmFind({ name }),
    addon.dmCreate({ name, uuid: '', ...table }),
    addon.thinPoolStatus({ name, commit: false }),
    addon.thinMessages({ pool: name, messages: ['create_thin 1'] }),
    addon.takeThinSnapshots({ pool: name, members: [{ deviceName: null, originId: 1, snapshotId: 2 }], ...freezing }),
  ];
  for (const answer of answers) {
    assert.ok(!answer.ok);
    assert.match(answer.code, /^(ENOENT|ENXIO|ENODEV)$/);
    assert.equal(answer.path, '/dev/mapper/control');
  }
});

test('an invalid device-mapper request is refused, naming the field', () => {
  const addon = loadAddon();
  const name = 'blockdelta-none';
  const members = [{ deviceName: null, originId: 2 ** 24, snapshotId: 2 }];
  const answers = [
    ['originId', addon.takeThinSnapshots({ pool: name, members, ...freezing })],
    ['members', addon.takeThinSnapshots({ pool: name, members: [], ...freezing })],
    ['messages', addon.thinMessages({ pool: name, messages: [] })],
  ] as const;
  for (const [field, answer] of answers) {
    assert.ok(!answer.ok);
    assert.equal(answer.code, 'EINVAL');
    assert.match(toSystemError(answer).message, new RegExp(field));
  }
});
