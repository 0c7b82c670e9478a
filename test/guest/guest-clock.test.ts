/**
 * The guest's own clock. The plugin gives up what takes too many seconds, so tests in a guest whose clock runs too fast
 * fail for no other reason; scripts/run-in-guest tells the kernel the frequency of its counter.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from './guest.js';

const numberIn = (path: string): number => Number.parseFloat(readFileSync(path, 'utf8'));

test('the clock of the guest runs as fast as the clock of the machine', () => {
  // The emulated clock chip has the time of the machine. The kernel took it over when it started, in whole seconds.
  const before = Date.now() / 1000;
  const machine = numberIn('/sys/class/rtc/rtc0/since_epoch');
  const after = Date.now() / 1000;
  const uptime = numberIn('/proc/uptime');
  const mayDiffer = 3 + uptime / 20;
  const found = `after ${uptime} s the clock says ${before} to ${after}, that of the machine ${machine}`;
  assert.ok(before - mayDiffer < machine && machine < after + mayDiffer, found);
});
