/** deploy/nightly-backup beside a plugin: its exit codes, and a night under the limits of deploy/systemd/blockdelta-backup.service. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packagePath } from '../../src/base/package-root.js';
import { blockCapability } from '../support/csi-client.js';
import { isNightly } from '../support/nightly.js';
import { MIB, Orchestrator } from '../support/orchestrator.js';
import { Plugin } from '../support/plugin.js';
import { PROGRAM } from '../support/program.js';
import { test } from '../support/running-plugin.js';
import { BACKUP_UNIT_PATH, backupCommand, serviceSettings, settingsWithoutTest } from '../support/service-unit.js';
import { temporaryDirectory } from '../support/temporary.js';
import { Workspace } from '../support/workspace.js';
import { writeAt } from '../support/write-at.js';

const SCRIPT = packagePath('deploy/nightly-backup');
const UNITS = packagePath('deploy/systemd');

/** Writes a program for the script. */
function programIn(directory: string, lines = `exec ${process.execPath} ${PROGRAM} "$@"`): string {
  const path = join(directory, 'blockdelta');
  writeFileSync(path, `#!/bin/sh\n${lines}\n`, { mode: 0o755 });
  return path;
}

test('under the limits of the unit, nights are backed up to a remote, the second one by its changes, and pruned', async (t) => {
  const workspace = new Workspace('restricted-backup');
  let plugin: Plugin | undefined;
  t.after(async () => {
    await plugin?.kill();
    workspace.dispose();
  });
  const { directory } = workspace;
  // Shared, as systemd makes the root directory of every host.
  execFileSync('mount', ['--bind', directory, directory]);
  execFileSync('mount', ['--make-shared', directory]);
  plugin = await Plugin.start(workspace);
  const { client, endpoint } = plugin;
  const orchestrator = new Orchestrator(workspace, () => client);
  const volume = await orchestrator.create('nightly', { capability: blockCapability(), sizeBytes: 16 * MIB });
  await orchestrator.bringUp(volume);
  const objects = workspace.path('objects');
  writeFileSync(workspace.path('rclone.conf'), `[far]\ntype = alias\nremote = ${objects}\n`, { mode: 0o600 });
  const night = async (name: string) => {
    writeAt(volume.targetPath, 0, Buffer.alloc(64 * 1024, name));
    await orchestrator.snapshot(volume, name);
    const [program = '', ...args] = [...backupCommand(directory), SCRIPT];
    const env = {
      PATH: process.env['PATH'],
      BLOCKDELTA: programIn(directory),
      CSI_ENDPOINT: endpoint,
      BLOCKDELTA_RUNTIME_DIR: workspace.path(),
      RCLONE_CONFIG: workspace.path('rclone.conf'),
      XDG_CACHE_HOME: workspace.path('cache'),
      REPOSITORY: 'rclone:far:backups',
      BACKUP: '--compress=zstd --jobs=2',
      PRUNE: '--keep-last=1',
    };
    return spawnSync(program, args, { env, encoding: 'utf8' });
  };
  const first = await night('first');
  assert.equal(first.status, 0, first.stderr);
  if (!isNightly) return;
  const second = await night('second');
  assert.equal(second.status, 0, second.stderr);
  assert.match(second.stdout, /1 new backups, 0 of them full; 1 snapshots had one/);
  const images = readdirSync(`${objects}/backups/${volume.id}`).filter((name) => name.endsWith('.qcow2'));
  assert.equal(images.length, 1, 'prune has removed the first one');
  assert.deepEqual(readdirSync(workspace.path('cache')), ['blockdelta']);
});

test('the unit of the backups has no setting that these tests do not know, and systemd accepts it and its timer', () => {
  assert.deepEqual(settingsWithoutTest(BACKUP_UNIT_PATH), []);
  const directory = temporaryDirectory();
  const names = ['blockdelta-backup.service', 'blockdelta-backup.timer'];
  for (const name of names) {
    // The programs that the unit starts are not installed on the machine of a test.
    const unit = readFileSync(join(UNITS, name), 'utf8').replace(/^ExecStart=.*$/m, 'ExecStart=/bin/true');
    writeFileSync(join(directory, name), unit);
  }
  const paths = names.map((name) => join(directory, name));
  const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', ...paths], { encoding: 'utf8' });
  assert.deepEqual([status, stdout + stderr], [0, '']);
});

test('the unit starts the script, and the example of its settings has what the script reads', () => {
  const [start] = serviceSettings(BACKUP_UNIT_PATH).get('ExecStart') ?? [];
  assert.equal(start, '/opt/blockdelta/lib/node_modules/blockdelta/deploy/nightly-backup');
  const script = readFileSync(SCRIPT, 'utf8');
  const example = readFileSync(join(UNITS, 'blockdelta-backup.env'), 'utf8');
  const names = [...example.matchAll(/^([A-Z]+)=/gm)].map(([, name]) => name);
  assert.deepEqual(names, ['REPOSITORY', 'BACKUP', 'PRUNE']);
  for (const name of names) assert.match(script, new RegExp(`\\$\\{?${name}\\b`), name);
});

for (const { title, backup, pruned, options, code, runs } of [
  { title: 'prunes after backups', backup: 0, pruned: 0, options: '--keep-last=1', code: 0, runs: 'backup prune' },
  { title: 'prunes after failures', backup: 9, pruned: 0, options: '--keep-last=1', code: 9, runs: 'backup prune' },
  { title: 'tells that prune fails', backup: 0, pruned: 5, options: '--keep-last=1', code: 5, runs: 'backup prune' },
  { title: 'tells of backups first', backup: 8, pruned: 5, options: '--keep-last=1', code: 8, runs: 'backup prune' },
  { title: 'ends when it is stopped', backup: 130, pruned: 0, options: '--keep-last=1', code: 130, runs: 'backup' },
  { title: 'prunes nothing without a rule', backup: 0, pruned: 1, options: '', code: 0, runs: 'backup' },
]) {
  test(`nightly-backup ${title}`, () => {
    const directory = temporaryDirectory();
    const lines = `echo "$1" >>${directory}/runs\n[ "$1" = backup ] && exit ${backup}\nexit ${pruned}`;
    const env = {
      PATH: process.env['PATH'],
      REPOSITORY: '/backups',
      PRUNE: options,
      BLOCKDELTA: programIn(directory, lines),
    };
    assert.equal(spawnSync(SCRIPT, { env }).status, code);
    assert.equal(readFileSync(join(directory, 'runs'), 'utf8').trim().replace('\n', ' '), runs);
  });
}
