/** Publications on a node that was renamed while catalogues recorded no node id. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before } from 'node:test';
import { blockCapability, type Message } from '../support/csi-client.js';
import { forgetNodeId } from '../support/direct-database.js';
import { createRequest } from '../support/orchestrator.js';
import { Plugin } from '../support/plugin.js';
import { refused } from '../support/refusal.js';
import { test } from '../support/running-plugin.js';
import { skipUnlessRoot, Workspace } from '../support/workspace.js';

let workspace: Workspace;
let plugin: Plugin | undefined;

const start = async (nodeId: string, publishing = 'on'): Promise<Plugin> => {
  await plugin?.stop();
  const catalogue = workspace.path('plugin', 'catalogue.sqlite');
  if (existsSync(catalogue)) forgetNodeId(catalogue);
  const env = { BLOCKDELTA_NODE_ID: nodeId, BLOCKDELTA_CONTROLLER_PUBLISH: publishing };
  plugin = await Plugin.start(workspace, { env });
  return plugin;
};

before(() => {
  if (skipUnlessRoot === false) workspace = new Workspace('publish-moved');
});
after(async () => {
  await plugin?.kill();
  if (skipUnlessRoot === false) workspace.dispose();
});

test('CP6, CU4: a volume published on another node is FAILED_PRECONDITION naming it, until that node is unpublished', async () => {
  const publication = (volume_id: string, node_id: string): Message => ({
    ...{ volume_id, node_id },
    volume_capability: blockCapability(),
  });
  const first = (await start('node-one')).client.controller;
  const { volume } = await first.CreateVolume(createRequest('moving'));
  const volumeId = String(volume.volume_id);
  await first.ControllerPublishVolume(publication(volumeId, 'node-one'));
  const second = (await start('node-two')).client.controller;
  const call = second.ControllerPublishVolume(publication(volumeId, 'node-two'));
  await refused(call, 'FAILED_PRECONDITION', /node-one/);
  const { status } = await second.ControllerGetVolume({ volume_id: volumeId });
  assert.deepEqual(status.published_node_ids, ['node-one']);
  await second.ControllerUnpublishVolume({ volume_id: volumeId, node_id: 'node-one' });
  await second.ControllerPublishVolume(publication(volumeId, 'node-two'));
});

test('G10, DV3: with controller publish off the RPCs are UNIMPLEMENTED and old publications block nothing', async () => {
  const { controller } = (await start('node-two', 'off')).client;
  const { entries } = await controller.ListVolumes({});
  assert.deepEqual(entries[0].status.published_node_ids, []);
  const { volume_id } = entries[0].volume;
  const request = { volume_id, node_id: 'node-two', volume_capability: blockCapability() };
  await refused(controller.ControllerPublishVolume(request), 'UNIMPLEMENTED');
  await refused(controller.ControllerUnpublishVolume(request), 'UNIMPLEMENTED');
  await controller.DeleteVolume({ volume_id });
});
