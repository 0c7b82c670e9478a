/**
 * A program that runs a plugin and the lifecycle of one volume in the namespaces it is started in. Exits
 * with 0 if the volume's content survives unpublishing and publishing again.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mountCapability } from './csi-client.js';
import { MIB, Orchestrator } from './orchestrator.js';
import { Plugin } from './plugin.js';
import { Workspace } from './workspace.js';

const workspace = new Workspace('namespaced');
const plugin = await Plugin.start(workspace);
try {
  const orchestrator = new Orchestrator(workspace, () => plugin.client);
  const spec = { capability: mountCapability('ext4'), sizeBytes: 32 * MIB };
  const volume = await orchestrator.create('namespaced', spec);
  await orchestrator.bringUp(volume);
  writeFileSync(join(volume.targetPath, 'file'), 'content', { flush: true });
  await orchestrator.takeDown(volume);
  await orchestrator.bringUp(volume);
  const found = readFileSync(join(volume.targetPath, 'file'), 'utf8');
  if (found !== 'content') throw new Error(`the file holds '${found}'`);
  await orchestrator.takeDown(volume);
  await orchestrator.delete(volume);
  await plugin.stop();
} finally {
  await plugin.kill();
  workspace.dispose();
}
