/**
 * kill -9 of the real plugin in the middle of calls that change a thin pool, the pool in use meanwhile.
 * In the long mode only: every start of the plugin takes the guest ten seconds and more.
 */
import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type HeldVolume, MIB, Orchestrator, untilSettled } from '../support/orchestrator.js';
import { Plugin } from '../support/plugin.js';
import { startReport } from '../support/plugin-log.js';
import { type Random, seededRandom } from '../support/random.js';
import { statusOf } from '../support/refusal.js';
import { Workspace } from '../support/workspace.js';
import { guestSkip } from './guest.js';

const longOnly =
  process.env['BLOCKDELTA_TEST_LONG'] === '1' ? false : 'takes minutes: scripts/test --long';
const skip = guestSkip === false ? longOnly : guestSkip;

/** About what a call takes on an emulated processor. */
const CALL_MS = 250;

class KilledPlugin {
  #plugin: Plugin | undefined;
  readonly orchestrator: Orchestrator;

  constructor(
    private readonly workspace: Workspace,
    private readonly random: Random,
  ) {
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

  /** Killed in it, started again, and called again. */
  async through<T>(call: () => Promise<T>): Promise<T> {
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
  const { ranges } = await killed.plugin.client.delta(base, snapshot);
  assert.deepEqual(ranges, [{ offset: 0n, size: BigInt(MIB) }]);
  const wish = { sizeBytes: 8 * MIB, snapshotId: snapshot };
  const copy: HeldVolume = await killed.through(() => orchestrator.create('copy', wish));
  await assertHolds(await orchestrator.bringUp(copy), 2);
  await assertHolds(target, 3);
  await orchestrator.takeDown(copy);
  await killed.through(() => orchestrator.delete(copy));
  await killed.through(() => orchestrator.deleteSnapshot(base));
  await orchestrator.takeDown(volume);
  await orchestrator.deleteSnapshot(snapshot);
  await orchestrator.delete(volume);
  assert.deepEqual(
    [...(await orchestrator.volumeIds()), ...(await orchestrator.snapshotIds())],
    [],
  );
  assert.equal(await killed.plugin.stop(), 0);
}

test('kill -9 in any call loses nothing of a thin pool, and the call can be repeated', {
  skip,
  timeout: 600_000,
}, async () => {
  const workspace = new Workspace('thin-kill');
  const killed = new KilledPlugin(workspace, seededRandom('kill -9 on a thin pool'));
  try {
    await killed.start();
    await live(killed);
  } finally {
    await killed.end();
    workspace.dispose();
  }
});
