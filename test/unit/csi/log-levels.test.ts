/** The level of a call's line in the log, and docs/logs.md, which explains the levels. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { CsiError, StatusCode } from '../../../src/base/errors.js';
import { packagePath } from '../../../src/base/package-root.js';
import { FAILURE_LEVELS, levelOfCall, ROUTINE_RPCS } from '../../../src/csi/log-levels.js';

const text = readFileSync(packagePath('docs/logs.md'), 'utf8');
const createVolume = { name: 'CreateVolume' };

test("a caller's mistake is info, what an operator should look at is warn, a defect is error", () => {
  const levelOf = (code: StatusCode) => levelOfCall(createVolume, new CsiError(code, 'why'));
  assert.equal(levelOf(StatusCode.INVALID_ARGUMENT), 'info');
  assert.equal(levelOf(StatusCode.NOT_FOUND), 'info');
  assert.equal(levelOf(StatusCode.RESOURCE_EXHAUSTED), 'warn');
  assert.equal(levelOf(StatusCode.FAILED_PRECONDITION), 'warn');
  assert.equal(levelOf(StatusCode.INTERNAL), 'error');
  assert.equal(levelOf(15 as StatusCode), 'error', 'a code that is not in the table');
});

test('a success is info, and debug for what callers repeat all day', () => {
  assert.equal(levelOfCall(createVolume, null), 'info');
  assert.equal(levelOfCall({ name: 'Probe' }, null), 'debug');
  const failed = CsiError.failedPrecondition('the pool is away');
  assert.equal(levelOfCall({ name: 'Probe' }, failed), 'warn');
});

test('docs/logs.md has a row with the level and the reason for every status code', () => {
  const [, section = ''] = text.split('### Level by status');
  const rows = [...section.matchAll(/^\| `([A-Z_]+)` \| (\w+) \| .+ \|$/gm)];
  const found = Object.fromEntries(rows.map(([, code = '', level]) => [code, level]));
  assert.deepEqual(found, { OK: 'info', ...FAILURE_LEVELS });
});

test('docs/logs.md names the RPCs whose successes are debug', () => {
  const [, list = ''] = text.split('Successes of these RPCs');
  const names = [...(list.split('.\n')[0] ?? '').matchAll(/`([A-Z]\w+)`/g)].map(([, name]) => name);
  assert.deepEqual(names, [...ROUTINE_RPCS]);
});
