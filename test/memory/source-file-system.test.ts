/** CreateVolume from a source whose pool cannot read its superblock: the record decides, where it does. */
import { test } from 'node:test';
import { mountCapability } from '../support/csi-client.js';
import { openCatalogueHere } from '../support/direct-database.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const running = runMemoryPlugin('source-type', { pools: ['main'], poolBytes: 8n << 30n });
const { orchestrator } = running;
const SIZE = 512 * MIB;

/** As if the volume had been staged. */
async function use(volumeId: string): Promise<void> {
  await running.stop();
  const catalogue = openCatalogueHere(running.path('state', 'catalogue.sqlite'));
  catalogue.markVolumeInitialized(volumeId);
  catalogue.close();
  await running.start();
}

test('a volume that was made for one file system holds that; a copy or a default says nothing', async () => {
  const ext4 = mountCapability('ext4');
  const named = await orchestrator.create('named', { capability: ext4, sizeBytes: SIZE });
  const unnamed = await orchestrator.create('unnamed', {
    capability: mountCapability(''),
    sizeBytes: SIZE,
  });
  for (const { id } of [named, unnamed]) await use(id);
  const copy = (name: string, volumeId: string) =>
    running.client.controller.CreateVolume(
      createRequest(name, { volumeId, capability: mountCapability('xfs'), sizeBytes: SIZE }),
    );
  await refused(copy('of named', named.id), 'INVALID_ARGUMENT', /holds ext4/);
  await copy('of unnamed', unnamed.id);
  const again = await orchestrator.create('again', {
    ...{ capability: ext4, sizeBytes: SIZE, volumeId: unnamed.id },
  });
  await copy('of a copy', again.id);
});
