/**
 * A plugin, its container or its guardian is killed while the volume of a snapshot is suspended. Nobody starts a plugin
 * afterwards: the volume is usable without one.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DEFAULT_FREEZING } from '../../src/driver/backends/freezing.js';
import { newSnapshot } from '../backend/harness.js';
import { Steps } from '../faults/steps.js';
import { BackendProcess } from '../support/backend-process.js';
import { eventually } from '../support/eventually.js';
import { endGuardian, IN_PID_NAMESPACE, startGuardian } from '../support/listening-guardian.js';
import { temporaryDirectory } from '../support/temporary.js';
import { nightlyPoolTest, poolTest, type ThinPoolOnDisks, type ThinVolume } from './thin-pool-on-disks.js';

/** Whatever the pool is named; the first one of a snapshot is create_snap. */
const CREATE_SNAP = /^DM_TARGET_MSG .* #1$/;

interface Way {
  /** Kills something while the volume is suspended. */
  kill: (plugin: BackendProcess) => Promise<void> | void;
  by?: readonly string[];
  guardianSocket?: string | null;
}

/** A snapshot of an attached volume, and what came of it. */
async function snapshotWith(
  pool: ThinPoolOnDisks,
  volume: ThinVolume,
  { kill, by = [], guardianSocket = null }: Way,
): Promise<string> {
  await pool.backend.stop();
  const steps = await Steps.listen(join(temporaryDirectory(), 'steps.sock'), {});
  const options = { ...pool.options, freezing: { ...DEFAULT_FREEZING, guardianSocket } };
  const plugin = await BackendProcess.start(options, [...by, ...steps.command]);
  const take = () => plugin.backend.snapshots.create([{ snapshotId: newSnapshot(), volumeId: volume.id }]);
  try {
    steps.begin();
    await take();
    const step = steps.names.find((name) => CREATE_SNAP.test(name));
    assert.ok(step !== undefined, steps.names.join('; '));
    let suspended: string[] = [];
    const until = async () => {
      suspended = await pool.suspendedDevices();
      await kill(plugin);
    };
    steps.begin({ step, does: 'wait', until });
    const outcome = await take().then(() => 'taken', String);
    assert.deepEqual(suspended, [`blockdelta-${volume.id}`]);
    return outcome;
  } finally {
    await plugin.end();
    await steps.close();
  }
}

async function assertUsable(pool: ThinPoolOnDisks, volume: ThinVolume): Promise<void> {
  const isResumed = async () => (await pool.suspendedDevices()).length === 0;
  await eventually('the volume is resumed', isResumed);
  volume.writeBlock(2);
  volume.sync();
  await pool.next();
  await pool.takeOne(volume);
  assert.ok(volume.read().equals(volume.image));
}

const DIED = /the process died in snapshots\.create/;

poolTest('H19: a volume is resumed when the plugin is killed during its snapshot', async (pool) => {
  const volume = await pool.written(1);
  assert.match(await snapshotWith(pool, volume, { kill: (plugin) => plugin.end() }), DIED);
  await assertUsable(pool, volume);
});

nightlyPoolTest(
  'H19: a guardian in another container resumes the volume when the container of the plugin is killed during a snapshot',
  async (pool) => {
    const volume = await pool.written(1);
    const guardianSocket = join(temporaryDirectory(), 'guardian.sock');
    const guardian = await startGuardian(guardianSocket);
    try {
      const kill = (plugin: BackendProcess) => plugin.end();
      const way = { kill, by: IN_PID_NAMESPACE, guardianSocket };
      assert.match(await snapshotWith(pool, volume, way), DIED);
      await assertUsable(pool, volume);
      await endGuardian(guardian, 'SIGTERM');
      const refused = snapshotWith(pool, volume, { kill: () => undefined, guardianSocket });
      await assert.rejects(refused, /no guardian answers at .*BLOCKDELTA_GUARDIAN_SOCKET/);
      await assertUsable(pool, volume);
    } finally {
      await endGuardian(guardian, 'SIGKILL');
    }
  },
);

poolTest('H19: the plugin resumes the volume when its guardian is killed during a snapshot', async (pool) => {
  const volume = await pool.written(1);
  const way = { kill: (plugin: BackendProcess) => plugin.killGuardian() };
  assert.equal(await snapshotWith(pool, volume, way), 'taken');
  await assertUsable(pool, volume);
});

nightlyPoolTest('no snapshot is taken when the guardian is killed before it suspends the volume', async (pool) => {
  const volume = await pool.written(1);
  await pool.backend.stop();
  const guardianSocket = join(temporaryDirectory(), 'guardian.sock');
  const guardian = await startGuardian(guardianSocket);
  const plugin = await BackendProcess.start({ ...pool.options, freezing: { ...DEFAULT_FREEZING, guardianSocket } });
  try {
    guardian.kill('SIGSTOP');
    const members = [{ snapshotId: newSnapshot(), volumeId: volume.id }];
    const refused = assert.rejects(plugin.backend.snapshots.create(members), /the guardian process was lost/);
    const ends = () => readFileSync('/proc/net/unix', 'utf8').split(guardianSocket).length - 1;
    await eventually('the plugin has connected', () => ends() === 2);
    await endGuardian(guardian, 'SIGKILL');
    await refused;
  } finally {
    await endGuardian(guardian, 'SIGKILL');
    await plugin.end();
  }
  await assertUsable(pool, volume);
});
