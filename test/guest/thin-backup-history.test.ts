/**
 * A history of 30 snapshots on a thin pool: full and incremental backups while bases are deleted and expire, the
 * volume grows and old backups are pruned. Minutes, since each program starts slowly in the guest.
 */
import { after, before } from 'node:test';
import { MIB } from '../support/orchestrator.js';
import { seededRandom } from '../support/random.js';
import { RunningPlugin } from '../support/running-plugin.js';
import { proveHistory, RAW } from '../support/volume-history.js';
import { guestTest, isGuest } from './guest.js';

const RETAINED = 3;
const running = new RunningPlugin();
before(async () => {
  if (!isGuest) return;
  // Every thread takes a second to start on an emulated processor.
  const env = {
    BLOCKDELTA_SCAN_THREADS: '1',
    BLOCKDELTA_DEVICE_THREADS: '2',
    BLOCKDELTA_RETAINED_BASES_COUNT: String(RETAINED),
  };
  await running.setUp('thin-history', { pools: { default: 'thin' }, env });
});
after(() => running.tearDown());

guestTest(
  'every backup of a thin volume holds what the volume held, over 30 snapshots',
  async () => {
    const options = {
      orchestrator: running.orchestrator,
      socketPath: running.plugin.endpoint.slice('unix://'.length),
      random: seededRandom('thin-backup-history-raw'),
      directory: running.workspace.path('history'),
      use: RAW,
      name: 'raw',
      sizeBytes: 16 * MIB,
      growthBytes: 4 * MIB,
    };
    await proveHistory(options, RETAINED);
  },
  { timeoutFactor: 2 },
);
