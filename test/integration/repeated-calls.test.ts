/** Callers that time out, retry, or set default values explicitly; and a plugin in its own namespaces. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { packagePath } from '../../src/base/package-root.js';
import { mountCapability } from '../support/csi-client.js';
import { createRequest, untilSettled } from '../support/orchestrator.js';
import { statusOf } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const MIB = 1 << 20;
const running = runPlugin('repeated-calls', { pools: { main: 'xfs' } });

test('G13 and G14: calls that miss their deadlines are repeated and end like one uninterrupted call', async () => {
  const { controller } = running.client;
  const request = createRequest('impatient', { sizeBytes: 32 * MIB });
  const seen = new Set<string>();
  for (const deadlineMs of [1, 2, 4, 8, 16]) {
    seen.add(await statusOf(controller.CreateVolume(request, { deadlineMs })));
  }
  assert.ok(seen.has('DEADLINE_EXCEEDED'), [...seen].join());
  const volume = await untilSettled(() => controller.CreateVolume(request));
  const again = await untilSettled(() => controller.CreateVolume(request));
  assert.equal(volume['volume'].volume_id, again['volume'].volume_id);
  const listed = await controller.ListVolumes({});
  assert.equal(listed['entries'].length, 1, 'made once');
  await controller.DeleteVolume({ volume_id: volume['volume'].volume_id });
});

test('G16: an optional field at its zero value counts as not set', async () => {
  const { controller } = running.client;
  const plain = createRequest('zeros', {
    capability: mountCapability('ext4'),
    sizeBytes: 32 * MIB,
  });
  const { volume } = await controller.CreateVolume(plain);
  const spelt = {
    ...plain,
    capacity_range: { required_bytes: String(32 * MIB), limit_bytes: '0' },
    parameters: {},
    mutable_parameters: {},
    secrets: {},
  };
  assert.equal((await controller.CreateVolume(spelt))['volume'].volume_id, volume.volume_id);
  const list = await controller.ListVolumes({ max_entries: 0, starting_token: '' });
  assert.equal(list['entries'].length, 1);
  await controller.DeleteVolume({ volume_id: volume.volume_id });
});

test('E12: the plugin works fully in its own mount and process namespaces', async () => {
  const script = packagePath('.test-build/test/support/namespaced-lifecycle.js');
  const args = ['-m', '-p', '-f', '--mount-proc', process.execPath, script];
  const child = spawn('unshare', args, {
    stdio: ['ignore', 'inherit', 'pipe'],
  });
  let told = '';
  child.stderr.on('data', (chunk: Buffer) => {
    told += chunk.toString();
  });
  const [code] = await once(child, 'close');
  assert.equal(code, 0, told);
});
