/** A plugin with two snapshots of one volume, for the example clients: random writes lie before each of them. */
import { BLOCK_OPERATIONS, BlockWriter } from './block-writer.js';
import { seededRandom } from './random.js';
import { runPlugin } from './running-plugin.js';

const VOLUME_BYTES = 16 << 20;

/** Call where runPlugin may be called. The ids are there when the tests run. */
export function exampleSnapshots(label: string) {
  const ids = { first: '', second: '' };
  const running = runPlugin(label, {
    pools: { main: 'xfs' },
    async prepare({ orchestrator }) {
      const volume = await orchestrator.create('source', { sizeBytes: VOLUME_BYTES });
      const device = await orchestrator.bringUp(volume);
      const writer = new BlockWriter(device, VOLUME_BYTES, seededRandom('examples'));
      writer.randomOperations(60, BLOCK_OPERATIONS);
      ids.first = await orchestrator.snapshot(volume);
      writer.randomOperations(40, BLOCK_OPERATIONS);
      ids.second = await orchestrator.snapshot(volume);
      writer.close();
      await orchestrator.takeDown(volume);
    },
  });
  const fileOf = (id: string): string => running.poolPath('main', 'snapshots', id);
  return { running, ids, fileOf };
}
