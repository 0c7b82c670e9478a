/** A driver with two sockets and with secrets is called as its orchestrator would call it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CsiDriver } from '../../../src/tools/client/csi-driver.js';
import { RecordingDriver } from '../../support/recording-driver.js';
import { Workspace } from '../../support/workspace.js';

test('calls of the Controller go to its socket, with the secrets of the RPC or else those of all', async (t) => {
  const workspace = new Workspace('two-sockets');
  t.after(() => workspace.dispose());
  const [node, controller] = await Promise.all(
    ['node', 'controller'].map((name) => RecordingDriver.start(workspace, {}, name)),
  );
  assert.ok(node !== undefined && controller !== undefined);
  t.after(() => [node, controller].map((each) => each.stop()));
  const path = ({ endpoint }: RecordingDriver): string => endpoint.slice('unix://'.length);
  const secrets = { CreateVolume: { key: 'made' }, '*': { key: 'other' } };
  const reach = { controllerSocketPath: path(controller), secrets };
  const driver = new CsiDriver(path(node), new AbortController().signal, reach);
  t.after(() => driver.close());

  await driver.info();
  await driver.call('CreateVolume', { name: 'a' });
  await driver.call('DeleteVolume', { volume_id: 'a' });
  await driver.call('NodeStageVolume', { volume_id: 'a' });
  const seen = (of: RecordingDriver): string[] =>
    of.calls.map(({ rpc, request }) => `${rpc} ${request['secrets']?.key ?? '-'}`);
  assert.deepEqual(seen(controller), ['ControllerGetCapabilities -', 'CreateVolume made', 'DeleteVolume other']);
  assert.deepEqual(seen(node).slice(0, 2), ['GetPluginInfo -', 'GetPluginCapabilities -']);
  assert.equal(seen(node).at(-1), 'NodeStageVolume other');
  // Another connection of the same driver is the same in both.
  const again = driver.withSignal(new AbortController().signal);
  t.after(() => again.close());
  await again.call('CreateSnapshot', { source_volume_id: 'a' });
  assert.equal(seen(controller).at(-1), 'CreateSnapshot other');
});
