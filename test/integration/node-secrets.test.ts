/** Secrets of the node's RPCs are accepted, and never appear in the log. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { statusOf } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const SECRETS = { 'canary-key.one': 'canary-value-1', canary_key_two: 'canary-value-\n"2"' };
const CANARY = /canary/;

const running = runPlugin('secrets', {
  pools: { main: 'xfs' },
  env: { BLOCKDELTA_LOG_LEVEL: 'trace' },
});
const { orchestrator } = running;

test('secrets of the RPCs of the node are accepted', async () => {
  const volume = await orchestrator.create('on the node');
  const request = {
    volume_id: volume.id,
    staging_target_path: volume.stagingPath,
    volume_capability: volume.capability,
    secrets: SECRETS,
  };
  mkdirSync(volume.stagingPath, { recursive: true });
  const target_path = orchestrator.target(volume.id, 'secret');
  mkdirSync(dirname(target_path), { recursive: true });
  const { node } = running.client;
  assert.equal(await statusOf(node.NodeStageVolume(request)), 'OK');
  assert.equal(await statusOf(node.NodePublishVolume({ ...request, target_path })), 'OK');
  await orchestrator.unpublish(volume, target_path);
  await orchestrator.takeDown(volume);
  await orchestrator.delete(volume);
});

test('E9: none of them appears in the log, even at the most verbose level', async () => {
  await running.client.identity.Probe({});
  const { log } = running.plugin;
  assert.match(log, /NodePublishVolume/, 'calls are logged at this level');
  const [line] = log.split('\n').filter((text) => CANARY.test(text));
  assert.equal(line, undefined);
});
