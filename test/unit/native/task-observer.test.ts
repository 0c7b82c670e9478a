import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SystemError } from '../../../src/base/errors.js';
import type { NativeRunner } from '../../../src/driver/native/pool.js';
import { observeTasks } from '../../../src/driver/native/task-observer.js';

/** A runner whose every task returns this value, or fails. */
function runnerOf(value: object): NativeRunner {
  return {
    run: async () => {
      if (value instanceof Error) throw value;
      return value as never;
    },
  };
}

async function observed(method: 'takeSnapshots' | 'takeThinSnapshots' | 'loopList', value: object) {
  const reports: unknown[] = [];
  const runner = observeTasks(runnerOf(value), {
    taskEnded: (task, seconds, hasFailed) => {
      assert.ok(seconds >= 0);
      reports.push([task, hasFailed]);
    },
    writersStalled: (seconds) => reports.push(seconds),
  });
  const result = await runner.run(method as 'loopList', {} as never).catch((thrown) => thrown);
  return { reports, result };
}

test('a task is reported when it ends, and its result or failure passes through', async () => {
  const devices = { ok: true, devices: [] };
  const done = await observed('loopList', devices);
  assert.deepEqual(done, { reports: [['loopList', false]], result: devices });
  const error = new SystemError('EIO', 'ioctl', '/dev/loop0', 'no');
  const failed = await observed('loopList', error);
  assert.deepEqual(failed, { reports: [['loopList', true]], result: error });
});

test('the time that writers waited is reported for frozen and for suspended volumes', async () => {
  const frozen = await observed('takeSnapshots', { ok: true, takenAtNs: 1n, frozenNs: 2_500_000n });
  assert.deepEqual(frozen.reports, [0.0025, ['takeSnapshots', false]]);
  const suspended = await observed('takeThinSnapshots', { ok: true, suspendedNs: 10_000_000n });
  assert.deepEqual(suspended.reports, [0.01, ['takeThinSnapshots', false]]);
  const idle = await observed('takeSnapshots', { ok: true, takenAtNs: 1n, frozenNs: 0n });
  assert.deepEqual(idle.reports, [['takeSnapshots', false]]);
});
