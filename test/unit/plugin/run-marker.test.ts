/**
 * How the last run of the plugin ended, by the file that a run leaves behind. integration/plugin/server-process has the ends
 * of plugins that run.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { RunMarker } from '../../../src/driver/plugin/run-marker.js';
import { temporaryDirectory } from '../../support/temporary.js';

async function run(directory: string, end: 'stop' | 'kill'): Promise<string> {
  const marker = new RunMarker(directory);
  const found = await marker.begin(false);
  await marker.started();
  if (end === 'stop') await marker.end();
  return found;
}

test('a run of an earlier boot ended with the machine', async () => {
  const directory = temporaryDirectory();
  writeFileSync(join(directory, 'running'), '00000000-0000-4000-8000-000000000000\n');
  assert.equal(await run(directory, 'kill'), 'the machine stopped');
  assert.equal(await run(directory, 'stop'), 'killed or crashed');
});

test('a start that fails keeps what it found for the next one', async () => {
  const directory = temporaryDirectory();
  await run(directory, 'kill');
  const failed = new RunMarker(directory);
  assert.equal(await failed.begin(false), 'killed or crashed');
  await failed.end();
  assert.equal(await run(directory, 'stop'), 'killed or crashed');
});
