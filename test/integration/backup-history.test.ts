/**
 * Histories of 30 snapshots on a reflink pool, raw and with a file system: full and incremental backups while bases
 * are deleted and expire, and the volume grows.
 */

import { MIB } from '../support/orchestrator.js';
import { seededRandom } from '../support/random.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { fileSystemUse, proveHistory, RAW, type Use } from '../support/volume-history.js';

const RETAINED = 3;
const running = runPlugin('backup-history', {
  pools: { pool: 'xfs' },
  poolSizeMiB: 1024,
  env: { BLOCKDELTA_RETAINED_BASES_COUNT: String(RETAINED) },
});

async function prove(name: string, use: Use): Promise<void> {
  const options = {
    orchestrator: running.orchestrator,
    socketPath: running.plugin.endpoint.slice('unix://'.length),
    random: seededRandom(`backup-history-${name}`),
    directory: running.workspace.path(`history-${name}`),
    use,
    name,
    sizeBytes: 24 * MIB,
    growthBytes: 4 * MIB,
  };
  await proveHistory(options, RETAINED);
}

test('every backup of a raw volume holds what the volume held, over 30 snapshots', async () => {
  await prove('raw', RAW);
});

test('every backup of a file system holds what the volume held, over 30 snapshots', async () => {
  await prove('ext4', fileSystemUse(running.workspace.path('mounted')));
});
