/**
 * What says that a snapshot is deleted, and its file the base of deltas, goes from the pool while no plugin runs: the
 * directory `bases`, its content, or the view of it.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { setImmutable } from '../../support/ioctls.js';
import type { HeldVolume } from '../../support/orchestrator.js';
import { Plugin } from '../../support/plugin.js';
import { logLines } from '../../support/plugin-log.js';
import { refused } from '../../support/refusal.js';
import { runPlugin, test } from '../../support/running-plugin.js';

const running = runPlugin('lost-marks', { pools: { main: 'xfs' }, poolSizeMiB: 512 });

const bases = (): string => running.poolPath('main', 'bases');
const fileOf = (snapshotId: string): string => running.poolPath('main', 'snapshots', snapshotId);

/** A volume whose only snapshot was deleted: its file stays, with a mark. */
async function withBase(name: string): Promise<{ volume: HeldVolume; base: string }> {
  const { orchestrator } = running;
  const volume = await orchestrator.create(name);
  const base = await orchestrator.snapshot(volume, `${name} base`);
  await orchestrator.deleteSnapshot(base);
  assert.ok(existsSync(fileOf(base)) && existsSync(`${bases()}/${base}.hidden`));
  return { volume, base };
}

test('a base whose mark is lost is marked again, and nothing is refused', async () => {
  const { orchestrator } = running;
  const { volume, base } = await withBase('lost');
  await running.crash(() => rmSync(bases(), { recursive: true }));
  assert.ok(existsSync(`${bases()}/${base}.hidden`));
  assert.deepEqual(await orchestrator.snapshotIds(), []);
  const target = await orchestrator.snapshot(volume, 'target');
  await running.client.delta(base, target);
  await orchestrator.deleteSnapshot(target);
  await orchestrator.remove(volume);
});

for (const [what, change, said, undo] of [
  [
    'whose file was written to as well',
    (base: string) => {
      rmSync(bases(), { recursive: true });
      setImmutable(fileOf(base), false);
      writeFileSync(fileOf(base), 'x', { flag: 'r+' });
      setImmutable(fileOf(base), true);
    },
    /written to after it/,
    () => undefined,
  ],
  [
    'because something is mounted over the marks',
    () => void execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', bases()]),
    /mounted over the directory bases/,
    () => void execFileSync('umount', [bases()]),
  ],
] as const) {
  test(`a base whose mark is lost, ${what}, is given up with the reason, and its file goes`, async () => {
    const { orchestrator } = running;
    const { volume, base } = await withBase(what);
    await running.crash(() => change(base));
    assert.ok(!existsSync(fileOf(base)));
    const target = await orchestrator.snapshot(volume, `target ${what}`);
    await refused(running.client.delta(base, target), 'NOT_FOUND', said);
    const warnings = logLines(running.plugin.log).filter(({ snapshotId }) => snapshotId === base);
    assert.match(String(warnings[0]?.['reason']), said);
    await orchestrator.deleteSnapshot(target);
    await orchestrator.remove(volume);
    undo();
    await running.crash();
    assert.equal((await orchestrator.snapshotIds()).length, 0);
  });
}

test('a file in the place of `bases` has the only pool refused until it goes, and not the start', async () => {
  const { orchestrator } = running;
  const { volume, base } = await withBase('replaced');
  const saved = `${bases()}.saved`;
  await running.plugin.kill();
  renameSync(bases(), saved);
  writeFileSync(bases(), '');
  const pools = `main=${running.poolPath('main')}`;
  const damaged = Plugin.launch(running.workspace, { pools });
  while (!/"msg":"ready"/.test(damaged.log)) {
    assert.equal(damaged.process.exitCode, null, damaged.log);
    await delay(100);
  }
  const said = /bases of pool 'main' should be a directory and is a regular file/;
  const { controller, identity } = damaged.client;
  await refused(identity.Probe({}), 'FAILED_PRECONDITION', said);
  const deletion = controller.DeleteVolume({ volume_id: volume.id });
  await refused(deletion, 'FAILED_PRECONDITION', said);
  rmSync(bases());
  renameSync(saved, bases());
  await damaged.ready();
  await damaged.kill();
  await running.start();
  const target = await orchestrator.snapshot(volume, 'after');
  await running.client.delta(base, target);
  await orchestrator.deleteSnapshot(target);
  await orchestrator.remove(volume);
});
