import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { StagingClearance, withdrawClearance } from '../../../src/driver/volumes/staging-clearance.js';
import { refused } from '../../support/refusal.js';
import { temporaryDirectory } from '../../support/temporary.js';

const boot = '3f2c0d0e-0000-4000-8000-000000000001';

test('a clearance holds for the boot in which it was given, over restarts, and no longer', async () => {
  const directory = temporaryDirectory();
  const given = new StagingClearance(directory, boot);
  assert.equal(await given.isGiven(), false);
  await refused(given.assertGiven('vol-1'), 'UNAVAILABLE', /volume vol-1 .*no router has said .*staging-cleared/);
  await given.give();
  await given.assertGiven('vol-1');
  assert.equal(await new StagingClearance(directory, boot).isGiven(), true);
  const next = new StagingClearance(directory, boot.replace('3f', '4a'));
  assert.equal(await next.isGiven(), false);
  await next.give();
  assert.deepEqual([await next.isGiven(), await given.isGiven()], [true, false]);
  for (let count = 0; count < 2; count += 1) await withdrawClearance(directory);
  assert.equal(await next.isGiven(), false);
});

test('an operator gives it by the command that the refusal names, and a file with anything else gives nothing', async () => {
  const directory = temporaryDirectory();
  const clearance = new StagingClearance(directory, readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim());
  const file = join(directory, 'staging-cleared');
  for (const text of ['', '\n', boot]) {
    writeFileSync(file, text);
    assert.equal(await clearance.isGiven(), false, text);
  }
  writeFileSync(file, readFileSync('/proc/sys/kernel/random/boot_id'));
  assert.equal(await clearance.isGiven(), true);
});
