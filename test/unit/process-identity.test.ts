import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { isRunning, ownIdentity } from '../../src/base/process-identity.js';

test('a process runs as long as its id has the same start', async () => {
  const own = ownIdentity();
  assert.equal(own.pid, process.pid);
  assert.ok(isRunning(own));
  assert.ok(!isRunning({ ...own, started: `${own.started}0` }), 'another process has the id');
  const child = spawn('sleep', ['100']);
  const stat = readFileSync(`/proc/${child.pid}/stat`, 'latin1').split(' ');
  const identity = { pid: child.pid ?? 0, started: stat[21] ?? '' };
  assert.ok(isRunning(identity));
  child.kill();
  await once(child, 'exit');
  assert.ok(!isRunning(identity));
});
