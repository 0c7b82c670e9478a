/** GetCapacity and CreateVolume in a pool with overcommitment and a reserve. */
import assert from 'node:assert/strict';
import type { Message } from '../support/csi-client.js';
import { MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const POOL_MIB = 1024;
const running = runPlugin('capacity', {
  pools: { main: 'xfs' },
  poolSizeMiB: POOL_MIB,
  env: { BLOCKDELTA_OVERCOMMIT: '3', BLOCKDELTA_RESERVE_PERCENT: '20' },
});
const { orchestrator } = running;
async function capacity(): Promise<{ available: number; maximum: number }> {
  const answer: Message = await running.client.controller.GetCapacity({});
  return {
    available: Number(answer['available_capacity']),
    maximum: Number(answer['maximum_volume_size'].value),
  };
}

test('the capacity is the free space less the reserve, times the overcommitment', async () => {
  const { available } = await capacity();
  assert.ok(available > 2 * POOL_MIB * MIB, `${available}`);
  assert.ok(available < 3 * 0.8 * POOL_MIB * MIB, `${available}`);
});

test('no volume is larger than its pool, and a volume of the maximum size can be created', async () => {
  const { available, maximum } = await capacity();
  assert.ok(maximum < available);
  assert.ok(maximum <= POOL_MIB * MIB);
  const over = orchestrator.create('over', { sizeBytes: maximum + 4096 });
  await refused(over, 'OUT_OF_RANGE', /whole pool/);
  const volume = await orchestrator.create('largest', { sizeBytes: maximum });
  const left = await capacity();
  assert.ok(Math.abs(available - left.available - maximum) < 2 * MIB, 'its promise counts whole');
  await orchestrator.delete(volume);
});

test('volumes can be created up to the remaining capacity, and no further', async () => {
  const { available, maximum } = await capacity();
  const volumes = [
    await orchestrator.create('first', { sizeBytes: maximum }),
    await orchestrator.create('second', { sizeBytes: maximum }),
  ];
  assert.ok(available < 3 * maximum, 'a third one exceeds the promises');
  const third = orchestrator.create('third', { sizeBytes: maximum });
  await refused(third, 'RESOURCE_EXHAUSTED', /'main'/);
  for (const volume of volumes) await orchestrator.delete(volume);
});
