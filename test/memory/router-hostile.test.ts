/** A thousand malformed and hostile requests to the router: each gets a CSI status, and calls are served after it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { blockCapability } from '../support/csi-client.js';
import { FuzzRun } from '../support/fuzz-run.js';
import { runMemoryCluster } from '../support/memory-cluster.js';
import { seededRandom } from '../support/random.js';

const cluster = runMemoryCluster();

test('H12: hostile requests are answered by the router or a node, and harm neither', async () => {
  const world = {
    ...{ volumeIds: [], snapshotIds: [], sources: new Map<string, string>(), groups: [] },
    ...{ paths: ['/x'], otherPaths: ['/y'], stagingPaths: ['/s'], targetPaths: ['/t'] },
    pool: 'main',
  };
  const fuzz = new FuzzRun(cluster.endpoint, process.pid, seededRandom('router-hostile'), world);
  try {
    await fuzz.run(1000, 500);
  } finally {
    fuzz.close();
  }
  assert.deepEqual(fuzz.faults, []);
  assert.ok((fuzz.answers.get('OK') ?? 0) > 50, JSON.stringify([...fuzz.answers]));
  const lines = [cluster.log, ...cluster.nodes.map(({ plugin }) => plugin.log)]
    .join('\n')
    .split('\n');
  assert.deepEqual(
    lines.filter((line) => line.includes('"INTERNAL"')),
    [],
  );
  const { volume } = await cluster.client.controller.CreateVolume({
    name: 'after',
    capacity_range: { required_bytes: 1 << 20 },
    volume_capabilities: [blockCapability()],
    accessibility_requirements: {
      requisite: [{ segments: { 'blockdelta.csi/node': 'node-a' } }],
    },
  });
  await cluster.client.controller.DeleteVolume({ volume_id: volume.volume_id });
});
