/** The log lines of calls: what was created, and the level of routine calls and mistakes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest, MIB } from '../support/orchestrator.js';
import { logLines } from '../support/plugin-log.js';

const running = runMemoryPlugin('log-lines', { env: { BLOCKDELTA_LOG_LEVEL: 'debug' } });

function lineOf(method: string, msg: string): Record<string, unknown> {
  const found = logLines(running.log).findLast(
    (line) => line['method'] === method && line['msg'] === msg,
  );
  assert.ok(found, `${method} ${msg}`);
  return found;
}

test('the lines of created volumes, snapshots and groups have the new id, the pool and the size', async () => {
  const { controller, groups } = running.client;
  const { volume } = await controller.CreateVolume(createRequest('logged'));
  const { volume_id: volumeId, capacity_bytes: sizeBytes } = volume as Record<string, string>;
  const created = lineOf('Controller.CreateVolume', 'call ended');
  assert.deepEqual(
    [
      created['level'],
      created['name'],
      created['volume_id'],
      created['pool'],
      created['sizeBytes'],
    ],
    ['info', 'logged', volumeId, 'main', sizeBytes],
  );

  const { snapshot } = await controller.CreateSnapshot({ name: 's', source_volume_id: volumeId });
  const taken = lineOf('Controller.CreateSnapshot', 'call ended');
  assert.deepEqual(
    [taken['snapshot_id'], taken['source_volume_id'], taken['pool'], taken['sizeBytes']],
    [(snapshot as Record<string, string>)['snapshot_id'], volumeId, 'main', sizeBytes],
  );

  const request = { name: 'g', source_volume_ids: [volumeId] };
  const { group_snapshot: group } = await groups.CreateVolumeGroupSnapshot(request);
  const grouped = lineOf('GroupController.CreateVolumeGroupSnapshot', 'call ended');
  assert.deepEqual(
    [grouped['group_snapshot_id'], grouped['pool'], grouped['members'], grouped['sizeBytes']],
    [(group as Record<string, string>)['group_snapshot_id'], 'main', 1, sizeBytes],
  );
});

test('probes and capacity are logged at debug, a mistake of the caller at info', async () => {
  await running.client.identity.Probe({});
  assert.equal(lineOf('Identity.Probe', 'call ended')['level'], 'debug');
  await running.client.controller.GetCapacity({});
  assert.equal(lineOf('Controller.GetCapacity', 'call ended')['level'], 'debug');
  await assert.rejects(running.client.controller.CreateVolume({ name: '' }));
  assert.equal(lineOf('Controller.CreateVolume', 'call failed')['level'], 'info');
});

test('a pool that has too little space is logged at warn', async () => {
  const { controller } = running.client;
  await controller.CreateVolume(createRequest('large', { sizeBytes: 1500 * MIB }));
  await assert.rejects(controller.CreateVolume(createRequest('full', { sizeBytes: 1500 * MIB })));
  const line = lineOf('Controller.CreateVolume', 'call failed');
  assert.deepEqual(
    [line['name'], line['code'], line['level']],
    ['full', 'RESOURCE_EXHAUSTED', 'warn'],
  );
});
