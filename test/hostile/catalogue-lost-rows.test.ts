/** A catalogue that was damaged, rolled back or restored: the plugin detects it, and no volume is lost. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { TestContext } from 'node:test';
import Database from 'better-sqlite3';
import { checkoutText } from '../support/checkout-text.js';
import { mountCapability } from '../support/csi-client.js';
import { eventually } from '../support/eventually.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { startCompleted } from '../support/plugin-log.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('lost-rows', { pools: { main: 'xfs' } });
const { orchestrator } = running;

const state = (...names: string[]): string => running.workspace.path('plugin', ...names);

const catalogueCommand = (t: TestContext, action: 'unknown' | 'confirm'): Promise<string> =>
  running.output(t, 'catalogue', action);

/** The commands that the documentation gives for the restore, on this state directory. */
function restoreAsDocumented(): void {
  const text = checkoutText('docs/backends.md');
  const section = text.slice(text.indexOf('### Restoring the catalogue'));
  const [, commands = ''] = /```sh\n([\s\S]*?)```/.exec(section) ?? [];
  assert.match(commands, /\/var\/lib\/blockdelta/);
  const script = commands.replaceAll('/var/lib/blockdelta', state());
  execFileSync('sh', ['-eu', '-c', script]);
}

/** Every change is refused, and names what is lost. */
async function assertRefusesChanges(known: HeldVolume, snapshotId: string, lost: string) {
  const words = `the catalogue has lost rows.*1 objects.*${lost}.*blockdelta catalogue confirm`;
  for (const call of [
    () => orchestrator.create('another'),
    () => orchestrator.delete(known),
    () => orchestrator.expand(known, 64 * MIB),
    () => orchestrator.snapshot(known, 'another'),
    () => orchestrator.deleteSnapshot(snapshotId),
    () => orchestrator.groupSnapshot([known], 'group'),
    () => orchestrator.modify(known, { readAheadBytes: '4096' }),
    () => orchestrator.deleteGroup({ id: 'group', snapshotIds: [] }),
  ]) {
    await refused(call(), 'FAILED_PRECONDITION', new RegExp(`refused: ${words}`));
  }
  assert.deepEqual(await orchestrator.volumeIds(), [known.id]);
  assert.deepEqual(await orchestrator.snapshotIds(), [snapshotId]);
  await running.client.allocated(snapshotId);
  await orchestrator.bringUp(known);
  await orchestrator.takeDown(known);
}

const refusesNew = (words = '') => {
  const message = new RegExp(`refused: the catalogue has lost rows${words}`);
  return refused(orchestrator.create('another'), 'FAILED_PRECONDITION', message);
};

test('H21: a catalogue that was rolled back refuses changes until exactly what it lost is confirmed', async (t) => {
  const capability = mountCapability('ext4');
  const known = await orchestrator.create('known', { capability, sizeBytes: 32 * MIB });
  const snapshotId = await orchestrator.snapshot(known, 'snapshot');
  await eventually('the log is empty', () => readFileSync(state('catalogue.sqlite-wal')).length === 0);
  const older = readFileSync(state('catalogue.sqlite'));
  const lost = await orchestrator.create('lost');
  const rollBack = (): void => {
    writeFileSync(state('catalogue.sqlite'), older);
    rmSync(state('catalogue.sqlite-commits'));
  };
  await running.restart(rollBack);
  assert.match(running.plugin.log, /"level":"error".*every change is refused/);
  assert.equal(await catalogueCommand(t, 'unknown'), `main ${lost.id}\n`);
  await assertRefusesChanges(known, snapshotId, lost.id);
  await running.restart();
  await refusesNew();

  // What was lost may say that a volume is superseded.
  const cleared = state('staging-cleared');
  writeFileSync(cleared, 'boot id');
  assert.equal(await catalogueCommand(t, 'confirm'), `main ${lost.id}\n`);
  assert.equal(existsSync(cleared), false);
  await refusesNew();
  await running.restart();
  assert.equal(await catalogueCommand(t, 'unknown'), '');
  assert.ok(existsSync(running.poolPath('main', 'volumes', lost.id)), 'a lost volume was removed');
  const next = await orchestrator.create('next');

  await running.restart(rollBack);
  assert.equal(await catalogueCommand(t, 'unknown'), `main ${next.id}\n`);
  await refusesNew(`.*${next.id}`);
  for (const { id } of [lost, next]) rmSync(running.poolPath('main', 'volumes', id));
  await running.restart();
  await orchestrator.deleteSnapshot(snapshotId);
  await orchestrator.delete(known);
});

test('H30: an object that was being created when the catalogue was copied is completed, whoever copied the catalogue', async (t) => {
  const used = await orchestrator.create('used');
  await orchestrator.bringUp(used);
  await orchestrator.takeDown(used);
  const unused = await orchestrator.create('unused');
  const clone = await orchestrator.create('clone', { volumeId: used.id });
  const snapshotId = await orchestrator.snapshot(used, 'taken');
  const gone = await orchestrator.create('gone');
  const lost = await orchestrator.create('lost');
  await running.restart(() => {
    const database = new Database(state('catalogue.sqlite'));
    database.exec(`UPDATE volumes SET state = 'creating' WHERE volume_id <> '${lost.id}';
      UPDATE snapshots SET state = 'creating';
      DELETE FROM volumes WHERE volume_id = '${lost.id}'`);
    database.close();
    rmSync(running.poolPath('main', 'volumes', gone.id));
  });
  const kept = [used, unused, clone].map(({ id }) => id);
  for (const id of [...kept, lost.id]) {
    assert.ok(existsSync(running.poolPath('main', 'volumes', id)), `${id} was removed`);
  }
  assert.deepEqual((await orchestrator.volumeIds()).sort(), [...kept].sort());
  await catalogueCommand(t, 'confirm');
  await running.restart();
  assert.deepEqual((await orchestrator.volumeIds()).sort(), [...kept].sort());
  assert.equal(await orchestrator.snapshot(used, 'taken'), snapshotId);
  await orchestrator.deleteSnapshot(snapshotId);
  rmSync(running.poolPath('main', 'volumes', lost.id));
  for (const volume of [clone, unused, used]) await orchestrator.delete(volume);
});

test('H21: a corrupt catalogue fails the start with its path, and the documented restore recovers everything', async () => {
  const capability = mountCapability('xfs');
  const volume = await orchestrator.create('restored', { capability, sizeBytes: 320 * MIB });
  const target = await orchestrator.bringUp(volume);
  writeFileSync(`${target}/data`, 'kept', { flush: true });
  const snapshotId = await orchestrator.snapshot(volume, 'of restored');
  await orchestrator.takeDown(volume);
  await running.restart();
  await startCompleted(() => running.plugin.log);
  const backups = readdirSync(state('backups'));
  assert.ok(backups.length > 0 && backups.length <= 4, backups.join());
  await running.plugin.kill();

  writeFileSync(state('catalogue.sqlite'), Buffer.alloc(65536, 0x5a));
  rmSync(state('catalogue.sqlite-wal'), { force: true });
  await assert.rejects(
    running.start(),
    /\(exit code 1\):.*the catalogue .*catalogue\.sqlite is not an SQLite database; stop the plugin.*Restoring/s,
  );
  assert.deepEqual(readdirSync(state('backups')), backups, 'a failed start touched the backups');
  restoreAsDocumented();
  await running.start();
  assert.equal(readFileSync(`${await orchestrator.bringUp(volume)}/data`, 'utf8'), 'kept');
  await orchestrator.takeDown(volume);
  assert.match(await orchestrator.snapshot(volume, 'after'), /^snap-/);
  await orchestrator.deleteSnapshot(snapshotId);
});
