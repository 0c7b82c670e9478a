/**
 * kill -9 of the plugin while file systems are frozen for a group snapshot: their writers resume without a
 * restart of the plugin, and no file system is forced read-only. A raw volume of many extents, which takes
 * long to clone, keeps the others frozen meanwhile.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { after } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { FILE_SYSTEMS } from '../../src/host/file-systems.js';
import { mountCapability } from '../support/csi-client.js';
import { isNightly } from '../support/nightly.js';
import { MIB } from '../support/orchestrator.js';
import { statusOf } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { makeSlowVolume } from '../support/slow-volume.js';

const ROUNDS = isNightly ? 100 : 10;
const EXTENTS = 30_000;
/** A writer without progress for this long is blocked: the file systems are in memory or on fast disks. */
const STILL_MS = 80;
/** After this a writer counts as blocked permanently, so that a failing test ends. */
const NEVER_MS = 60_000;

const WRITER = `
  const fs = require('node:fs');
  const fd = fs.openSync(process.argv[1], 'w');
  for (;;) {
    fs.writeSync(fd, 'x', 0);
    fs.fsyncSync(fd);
    fs.writeSync(1, '.');
  }
`;

const running = runPlugin('kill-frozen', { pools: { main: 'xfs' }, poolSizeMiB: 4096 });
const { orchestrator } = running;
const writers: Writer[] = [];

/** A process that writes to a file and syncs it in a loop. */
class Writer {
  readonly #child: ChildProcess;
  #last = performance.now();
  #writes = 0;

  constructor(private readonly directory: string) {
    this.#child = spawn(process.execPath, ['-e', WRITER, join(directory, 'file')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#child.stdout?.on('data', (chunk: Buffer) => {
      this.#last = performance.now();
      this.#writes += chunk.length;
    });
  }

  get stillMs(): number {
    return performance.now() - this.#last;
  }

  /** Resolves after two more writes: one may have been in flight. */
  async goOn(): Promise<void> {
    const enough = this.#writes + 2;
    for (const begun = performance.now(); this.#writes < enough; await delay(5)) {
      assert.equal(this.#child.exitCode, null, `${this.directory} cannot be written to`);
      assert.ok(performance.now() - begun < NEVER_MS, `${this.directory} stays frozen`);
    }
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const ended = once(this.#child, 'close');
    this.#child.kill('SIGKILL');
    // If the test has failed: a process blocked on a frozen file system cannot be killed.
    const thaw = setTimeout(() => spawnSync('fsfreeze', ['--unfreeze', this.directory]), 1000);
    await ended;
    clearTimeout(thaw);
  }
}

after(async () => {
  for (const writer of writers) await writer.stop();
});

/** Whether every writer was seen blocked before the snapshot call ended. */
async function killWhileFrozen(taking: Promise<string>): Promise<boolean> {
  let isOver = false;
  void taking.finally(() => {
    isOver = true;
  });
  while (!isOver && writers.some(({ stillMs }) => stillMs < STILL_MS)) await delay(2);
  const wasFrozen = !isOver;
  await running.plugin.kill();
  await taking;
  return wasFrozen;
}

test('H19: writers on ext4, xfs and btrfs resume when the plugin is killed while it holds them frozen', async () => {
  const volumes = [await makeSlowVolume(orchestrator, 'slow', EXTENTS)];
  for (const type of FILE_SYSTEMS) {
    const spec = { capability: mountCapability(type), sizeBytes: 320 * MIB };
    const volume = await orchestrator.create(type, spec);
    writers.push(new Writer(await orchestrator.bringUp(volume)));
    volumes.push(volume);
  }
  let frozen = 0;
  let slowestMs = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const writer of writers) await writer.goOn();
    const taking = statusOf(orchestrator.groupSnapshot(volumes, `killed ${round}`));
    if (await killWhileFrozen(taking)) frozen += 1;
    const killed = performance.now();
    await Promise.all(writers.map((writer) => writer.goOn()));
    slowestMs = Math.max(slowestMs, performance.now() - killed);
    await running.start();
  }
  console.log(
    `# killed ${frozen} of ${ROUNDS} times while frozen; all wrote again in ${slowestMs.toFixed(0)} ms`,
  );
  assert.ok(frozen > 0, 'it was never killed while frozen');
  for (const writer of writers) await writer.stop();
  for (const volume of volumes) await orchestrator.takeDown(volume);
});
