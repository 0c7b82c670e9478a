/** The C++ programs of the benchmark: what they print, and what is said where they cannot be compiled. */

import assert from 'node:assert/strict';
import { pbkdf2Sync } from 'node:crypto';
import { test } from 'node:test';
import { compilePeer } from '../../bench/peers.js';
import { ProcessMeter } from '../../bench/process-meter.js';
import { findProgram, isMissing } from '../../bench/programs.js';
import { temporaryDirectory } from '../../support/temporary.js';

test('a missing program is reported with the package to install', () => {
  const path = process.env['PATH'];
  process.env['PATH'] = '/nowhere';
  try {
    const peer = findProgram('protoc');
    assert.deepEqual(peer, {
      missing: 'protoc is not installed: install the package protobuf-compiler',
    });
  } finally {
    process.env['PATH'] = path;
  }
});

test('the CPU clock of a process counts the time of its threads in nanoseconds', async (t) => {
  process.env['XDG_CACHE_HOME'] = temporaryDirectory();
  const clock = await compilePeer('process_clock');
  delete process.env['XDG_CACHE_HOME'];
  if (isMissing(clock)) return t.skip(clock.missing);
  const meter = new ProcessMeter(process.pid);
  const before = await meter.cpuMs();
  const own = process.cpuUsage();
  pbkdf2Sync('password', 'salt', 200_000, 64, 'sha512');
  const { user, system } = process.cpuUsage(own);
  const used = (await meter.cpuMs()) - before;
  // The second reading is later than this process's own.
  assert.ok(used >= ((user + system) / 1000) * 0.9, `${used} ms by the clock`);
  assert.ok(meter.rssMiB() > 1 && meter.peakMiB() >= meter.rssMiB() * 0.5);
});
