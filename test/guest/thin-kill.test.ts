/**
 * kill -9 of the real plugin in the middle of calls that change a thin pool, the pool in use meanwhile.
 */
import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { isNightly } from '../support/nightly.js';
import { type HeldVolume, MIB, Orchestrator, untilSettled } from '../support/orchestrator.js';
import { Plugin } from '../support/plugin.js';
import { startReport } from '../support/plugin-log.js';
import { type Random, seededRandom } from '../support/random.js';
import { statusOf } from '../support/refusal.js';
import { Workspace } from '../support/workspace.js';
import { guestTest } from './guest.js';

/** Every start of the plugin takes the guest twenty seconds: in a short run it is killed in every third call. */
const STRIDE = isNightly ? 1 : 3;
const ROUNDS = isNightly ? 3 : 1;
/** About what a call takes on an emulated processor. */
const CALL_MS = 250;

class KilledPlugin {
  #plugin: Plugin | undefined;
  #untilKill: number;
  readonly orchestrator: Orchestrator;

  constructor(
    private readonly workspace: Workspace,
    private readonly random: Random,
  ) {
    this.#untilKill = random.below(STRIDE);
    this.orchestrator = new Orchestrator(workspace, () => this.plugin.client);
  }

  get plugin(): Plugin {
    assert.ok(this.#plugin !== undefined);
    return this.#plugin;
  }

  async start(): Promise<void> {
    this.#plugin = await Plugin.start(this.workspace, {
      pools: `main=thin:${this.workspace.path('pool')}`,
      env: { BLOCKDELTA_SCAN_THREADS: '1', BLOCKDELTA_DEVICE_THREADS: '1' },
    });
    assert.deepEqual(startReport(this.#plugin.log).differences, []);
  }

  /** Killed in it, if it is its turn, started again, and called again. */
  async through<T>(call: () => Promise<T>): Promise<T> {
    if (this.#untilKill-- > 0) return untilSettled(call);
    this.#untilKill = STRIDE - 1;
    const running = statusOf(call());
    await delay(this.random.unit() * CALL_MS);
    await this.plugin.kill();
    await running;
    await this.start();
    return untilSettled(call);
  }

  async end(): Promise<void> {
    await this.#plugin?.kill();
  }
}

async function write(path: string, value: number): Promise<void> {
  const device = await open(path, 'r+');
  try {
    await device.write(Buffer.alloc(MIB, value), 0, MIB, 0);
    await device.sync();
  } finally {
    await device.close();
  }
}

async function assertHolds(path: string, value: number): Promise<void> {
  const device = await open(path, 'r');
  try {
    const { buffer } = await device.read(Buffer.alloc(MIB), 0, MIB, 0);
    assert.ok(buffer.equals(Buffer.alloc(MIB, value)), `${path} holds ${value}`);
  } finally {
    await device.close();
  }
}

async function live(killed: KilledPlugin): Promise<void> {
  const { orchestrator } = killed;
  const volume = await killed.through(() => orchestrator.create('first', { sizeBytes: 8 * MIB }));
  const target = await killed.through(() => orchestrator.bringUp(volume));
  await write(target, 1);
  const base = await orchestrator.snapshot(volume, 'base');
  await write(target, 2);
  const snapshot = await killed.through(() => orchestrator.snapshot(volume, 'second'));
  await write(target, 3);
  await assertFirstChanged(killed, base, snapshot);
  const spec = { sizeBytes: 8 * MIB, snapshotId: snapshot };
  const copy: HeldVolume = await killed.through(() => orchestrator.create('copy', spec));
  await assertHolds(await orchestrator.bringUp(copy), 2);
  await assertHolds(target, 3);
  const group = await killed.through(() => orchestrator.groupSnapshot([volume, copy], 'both'));
  assert.equal(await killed.through(() => orchestrator.expand(volume, 12 * MIB)), 12 * MIB);
  await killed.through(() => orchestrator.deleteGroup(group));
  await orchestrator.takeDown(copy);
  await killed.through(() => orchestrator.delete(copy));
  await killed.through(() => orchestrator.deleteSnapshot(base));
  await assertFirstChanged(killed, base, snapshot);
  await assertHolds(target, 3);
  await orchestrator.takeDown(volume);
  await orchestrator.deleteSnapshot(snapshot);
  await orchestrator.delete(volume);
  assert.deepEqual(
    [...(await orchestrator.volumeIds()), ...(await orchestrator.snapshotIds())],
    [],
  );
}

/** The base may have been deleted: no death of a process is a reason to lose what is kept of it. */
async function assertFirstChanged(killed: KilledPlugin, base: string, target: string) {
  const { ranges } = await killed.plugin.client.delta(base, target);
  assert.deepEqual(ranges, [{ offset: 0n, size: BigInt(MIB) }]);
}

guestTest(
  'kill -9 in any call loses nothing of a thin pool, and the call can be repeated',
  async () => {
    const workspace = new Workspace('thin-kill');
    const killed = new KilledPlugin(workspace, seededRandom('kill -9 on a thin pool'));
    try {
      await killed.start();
      for (let round = 0; round < ROUNDS; round++) await live(killed);
      assert.equal(await killed.plugin.stop(), 0);
    } finally {
      await killed.end();
      workspace.dispose();
    }
  },
  { timeoutFactor: 4 },
);
