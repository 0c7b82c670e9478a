/** A catalogue that was damaged, rolled back or restored: the plugin detects it, and no volume is lost. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { packagePath } from '../../src/base/package-root.js';
import { mountCapability } from '../support/csi-client.js';
import { eventually } from '../support/eventually.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { Plugin } from '../support/plugin.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const running = runPlugin('lost-rows', { pools: { main: 'xfs' } });
const { orchestrator } = running;

const state = (...names: string[]): string => running.workspace.path('plugin', ...names);

/** Ends the plugin, does the work on its state directory, and starts it again. */
async function whileStopped(work: () => void): Promise<void> {
  assert.equal(await running.plugin.stop(), 0);
  work();
  await running.start();
}

function catalogueCommand(action: 'unknown' | 'confirm'): string {
  const main = packagePath('.test-build/src/main.js');
  const env = { ...process.env, BLOCKDELTA_STATE_DIR: state() };
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, 'catalogue', action], {
    env,
    encoding: 'utf8',
  });
  assert.equal(status, 0, stderr);
  return stdout;
}

/** The start ends with 1 and these words. */
async function failedStart(words: RegExp): Promise<void> {
  const pools = `main=${running.poolPath('main')}`;
  const failed = Plugin.launch(running.workspace, { pools });
  assert.equal(await failed.exitCode(), 1, failed.log);
  assert.match(failed.log, words);
}

/** The commands that the documentation gives for the restore, on this state directory. */
function restoreAsDocumented(): void {
  const text = readFileSync(packagePath('docs/backends.md'), 'utf8');
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

test('H21: a catalogue that was rolled back refuses changes until exactly what it lost is confirmed', async () => {
  const capability = mountCapability('ext4');
  const known = await orchestrator.create('known', { capability, sizeBytes: 32 * MIB });
  const snapshotId = await orchestrator.snapshot(known, 'snapshot');
  await eventually(
    'the log is empty',
    () => readFileSync(state('catalogue.sqlite-wal')).length === 0,
  );
  const older = readFileSync(state('catalogue.sqlite'));
  const lost = await orchestrator.create('lost');
  const rollBack = (): void => writeFileSync(state('catalogue.sqlite'), older);
  await whileStopped(rollBack);
  assert.match(running.plugin.log, /"level":"error".*every change is refused/);
  assert.equal(catalogueCommand('unknown'), `main ${lost.id}\n`);
  await assertRefusesChanges(known, snapshotId, lost.id);
  await running.restart();
  await refusesNew();

  assert.equal(catalogueCommand('confirm'), `main ${lost.id}\n`);
  await refusesNew();
  await running.restart();
  assert.equal(catalogueCommand('unknown'), '');
  assert.ok(existsSync(running.poolPath('main', 'volumes', lost.id)), 'a lost volume was removed');
  const next = await orchestrator.create('next');

  await whileStopped(rollBack);
  assert.equal(catalogueCommand('unknown'), `main ${next.id}\n`);
  await refusesNew(`.*${next.id}`);
  for (const { id } of [lost, next]) rmSync(running.poolPath('main', 'volumes', id));
  await running.restart();
  await orchestrator.deleteSnapshot(snapshotId);
  await orchestrator.delete(known);
});

test('H21: incomplete objects in a catalogue that has lost rows are not rolled back, because they may be in use', async () => {
  const used = await orchestrator.create('used');
  await orchestrator.bringUp(used);
  await orchestrator.takeDown(used);
  const unused = await orchestrator.create('unused');
  const database = state('catalogue.sqlite');
  const lost = await orchestrator.create('lost');
  const sql = (statements: string): void => {
    const script =
      "const D=require('better-sqlite3');const d=new D(process.argv[1]);d.exec(process.argv[2]);d.close()";
    execFileSync(process.execPath, ['-e', script, database, statements], { cwd: packagePath('.') });
  };
  await whileStopped(() =>
    sql(`UPDATE volumes SET state = 'creating' WHERE volume_id <> '${lost.id}';
      DELETE FROM volumes WHERE volume_id = '${lost.id}'`),
  );
  for (const { id } of [used, unused, lost]) {
    assert.ok(existsSync(running.poolPath('main', 'volumes', id)), `${id} was removed`);
  }
  catalogueCommand('confirm');
  await running.restart();
  assert.deepEqual(await orchestrator.volumeIds(), [used.id]);
  assert.match(running.plugin.log, new RegExp(`volume ${used.id} was in use`));
  assert.ok(!existsSync(running.poolPath('main', 'volumes', unused.id)), 'it was half made');
  rmSync(running.poolPath('main', 'volumes', lost.id));
  await orchestrator.delete(used);
});

test('H21: a corrupt catalogue fails the start with its path, and the documented restore recovers everything', async () => {
  const capability = mountCapability('xfs');
  const volume = await orchestrator.create('restored', { capability, sizeBytes: 320 * MIB });
  const target = await orchestrator.bringUp(volume);
  writeFileSync(`${target}/data`, 'kept', { flush: true });
  const snapshotId = await orchestrator.snapshot(volume, 'of restored');
  await orchestrator.takeDown(volume);
  await running.restart();
  const backups = readdirSync(state('backups'));
  assert.ok(backups.length > 0 && backups.length <= 4, backups.join());
  await running.plugin.kill();

  writeFileSync(state('catalogue.sqlite'), Buffer.alloc(65536, 0x5a));
  rmSync(state('catalogue.sqlite-wal'), { force: true });
  await failedStart(
    /the catalogue .*catalogue\.sqlite is not an SQLite database; stop the plugin.*Restoring/,
  );
  assert.deepEqual(readdirSync(state('backups')), backups, 'a failed start touched the backups');
  restoreAsDocumented();
  await running.start();
  assert.equal(readFileSync(`${await orchestrator.bringUp(volume)}/data`, 'utf8'), 'kept');
  await orchestrator.takeDown(volume);
  assert.match(await orchestrator.snapshot(volume, 'after'), /^snap-/);
  await orchestrator.deleteSnapshot(snapshotId);
});
