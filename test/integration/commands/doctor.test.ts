/** `blockdelta doctor` against a healthy plugin and against set-ups that are broken on purpose. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { newVolumeId, nodeKey } from '../../../src/base/csi/handles.js';
import { runCommand } from '../../support/command.js';
import { specOf } from '../../support/contents.js';
import { freeze } from '../../support/freeze.js';
import { attachAsPlugin, detachLoop, sparseFile } from '../../support/loops.js';
import { MIB } from '../../support/orchestrator.js';
import { runPlugin, test } from '../../support/running-plugin.js';

interface Result {
  check: string;
  detail: string;
  findings: { found: string; remedy: string }[];
}

const running = runPlugin('doctor', { pools: { main: 'xfs' } });

/** What depends on the machine that runs the test and not on the plugin. */
const OF_THE_MACHINE = /^(kernel|capabilities|programs|cgroup|udev rule|device-mapper)$/;

/** The findings about the plugin, by check. A temporary directory may be a tmpfs or an overlay. */
async function findings(t: TestContext, more: Record<string, string> = {}): Promise<Result[]> {
  const ended = await runCommand(t, ['doctor', '--json'], { ...running.settings, ...more });
  const results = JSON.parse(ended.stdout) as Result[];
  const total = results.flatMap((result) => result.findings);
  assert.equal(ended.code, total.length === 0 ? 0 : 1, ended.stderr);
  for (const { found, remedy } of total) assert.ok(found !== '' && remedy !== '');
  return results
    .filter(({ check }) => !OF_THE_MACHINE.test(check))
    .map((result) => ({ ...result, findings: result.findings.filter(({ found }) => !/does not outlive/.test(found)) }))
    .filter((result) => result.findings.length > 0);
}

/** The only finding, and its check. */
async function onlyFinding(t: TestContext, more?: Record<string, string>): Promise<[string, string, string]> {
  const [result, ...others] = await findings(t, more);
  assert.ok(result !== undefined && others.length === 0, JSON.stringify([result, ...others]));
  assert.equal(result.findings.length, 1, JSON.stringify(result));
  const [{ found, remedy } = { found: '', remedy: '' }] = result.findings;
  return [result.check, found, remedy];
}

test('a file system that is frozen and mounted nowhere is found', async (t) => {
  const { orchestrator } = running;
  const volume = await orchestrator.create('left frozen', specOf('ext4'));
  await orchestrator.bringUp(volume);
  freeze(volume.targetPath);
  for (const path of [volume.targetPath, volume.stagingPath]) execFileSync('umount', [path]);
  try {
    const found = (await findings(t)).find(({ check }) => check === 'freezes')?.findings ?? [];
    assert.equal(found.length, 1);
    assert.match(found[0]?.found ?? '', new RegExp(`volume ${volume.id}: .*its file system is frozen`));
  } finally {
    await orchestrator.remove(volume);
  }
});

test('a healthy plugin with volumes in use has no findings', async (t) => {
  const { orchestrator } = running;
  const mounted = await orchestrator.create('mounted', specOf('ext4'));
  const raw = await orchestrator.create('raw');
  await orchestrator.bringUp(mounted);
  await orchestrator.bringUp(raw);
  // In a container everything but the directories of the plugin is read-only.
  const env = { TMPDIR: '/no-such-directory' };
  assert.deepEqual(await findings(t, env), []);
  const { stdout } = await runCommand(t, ['doctor'], { ...running.settings, ...env });
  assert.match(stdout, /^ok {7}pools +main$/m);
  assert.match(stdout, /^ok {7}contents +2 volumes and snapshots compared$/m);
  assert.match(stdout, / capabilities +of the plugin \(process \d+\)$/m);
  await orchestrator.takeDown(mounted);
  await orchestrator.takeDown(raw);
});

test('a plugin that could not write down its process id is named without one', async (t) => {
  const lock = running.workspace.path('plugin', 'catalogue.sqlite-lock');
  const id = readFileSync(lock);
  const holder = async (): Promise<string | undefined> => {
    const { stdout } = await runCommand(t, ['doctor'], running.settings);
    return /^ok {7}catalogue +.*, (held by .*)$/m.exec(stdout)?.[1];
  };
  assert.match((await holder()) ?? '', /^held by process [1-9]\d*\b/);
  truncateSync(lock);
  assert.match((await holder()) ?? '', /^held by a process whose id is unknown\b/);
  writeFileSync(lock, id);
});

test('a volume whose file is gone, and one that was truncated, are found', async (t) => {
  const volume = await running.orchestrator.create('damaged');
  const file = running.poolPath('main', 'volumes', volume.id);
  renameSync(file, `${file}.aside`);
  const [result] = await findings(t);
  assert.match(JSON.stringify(result), new RegExp(`has lost ${volume.id}.*did not create it`));
  renameSync(`${file}.aside`, file);
  truncateSync(file, MIB);
  const [check, found, remedy] = await onlyFinding(t);
  const said = `${volume.id} has ${MIB} bytes in pool 'main' and ${volume.sizeBytes} in the catalogue`;
  assert.deepEqual([check, found], ['contents', said]);
  assert.match(remedy, /something truncated it/);
  truncateSync(file, volume.sizeBytes);
});

test('an object without a row is found, and neither doctor nor gc touches it', async (t) => {
  const path = running.poolPath('main', 'volumes', newVolumeId(nodeKey('test-node')));
  writeFileSync(path, 'data of somebody');
  const [check, found, remedy] = await onlyFinding(t);
  assert.equal(check, 'contents');
  assert.ok(found.startsWith(`${path} in pool 'main': it holds data`), found);
  assert.match(remedy, /backup of the catalogue/);
  await runCommand(t, ['gc'], running.settings);
  assert.ok(existsSync(path));
  unlinkSync(path);
});

test('a loop device of a removed volume is found; one of another file is not', async (t) => {
  const path = running.poolPath('main', 'volumes', newVolumeId(nodeKey('test-node')));
  const other = running.workspace.path('other');
  const devices = [path, other].map((file) => {
    const device = attachAsPlugin(sparseFile(file, 4 * MIB));
    unlinkSync(file);
    return device;
  });
  const [check, found, remedy] = await onlyFinding(t);
  const said = `loop device of a removed volume ${devices[0]} of pool 'main' is left over`;
  assert.deepEqual([check, found], ['orphans', said]);
  assert.match(remedy, /gc --apply/);
  for (const device of devices) detachLoop(device);
});

test('a mount that the plugin did not make, and a missing one, are found', async (t) => {
  const { orchestrator } = running;
  const volume = await orchestrator.create('elsewhere', specOf('ext4'));
  const target = await orchestrator.bringUp(volume);
  const elsewhere = running.workspace.path('elsewhere');
  mkdirSync(elsewhere);
  execFileSync('mount', ['--bind', volume.stagingPath, elsewhere]);
  execFileSync('umount', [target]);
  const [result] = await findings(t);
  const text = JSON.stringify(result?.findings);
  assert.match(text, new RegExp(`is recorded as published at ${target}, and nothing is mounted`));
  assert.match(text, new RegExp(`is mounted at ${elsewhere}, where the plugin did not put it`));
  execFileSync('umount', [elsewhere]);
  await orchestrator.takeDown(volume);
});

test('a mounted file system that has shut down is found', async (t) => {
  const { orchestrator } = running;
  const volume = await orchestrator.create('shut down', { ...specOf('xfs'), sizeBytes: 320 * MIB });
  await orchestrator.bringUp(volume);
  execFileSync('xfs_io', ['-x', '-c', 'shutdown', volume.stagingPath]);
  const [check, found, remedy] = await onlyFinding(t);
  assert.equal(check, 'mounts');
  assert.ok(found.startsWith(`volume ${volume.id}: its xfs at ${volume.stagingPath} has shut down or become`), found);
  assert.match(remedy, /stage it again/);
  await orchestrator.remove(volume);
});

test('a pool that is nearly full, away, of another catalogue or not configured is found', async (t) => {
  const filler = running.poolPath('main', 'filler');
  execFileSync('fallocate', ['-l', '1850M', filler]);
  assert.match((await onlyFinding(t))[1], /^pool 'main' is 9\d % full: .* are free$/);
  rmSync(filler);
  const file = (name: string) => running.poolPath('main', name);
  renameSync(file('pool-id'), file('aside'));
  assert.match((await onlyFinding(t))[1], /pool 'main' cannot be inspected: .* holds no pool/);
  renameSync(file('aside'), file('pool-id'));
  const other = running.workspace.path('other-pool');
  mkdirSync(other);
  writeFileSync(join(other, 'pool-owner'), `${'5'.repeat(32)}\n`);
  const text = JSON.stringify(await findings(t, { BLOCKDELTA_POOLS: `other=${other}` }));
  assert.match(text, /belongs to another catalogue, 5555/);
  assert.match(text, /the catalogue has pool 'main', which is not configured/);
});

test('settings that cannot be right are found', async (t) => {
  assert.match((await onlyFinding(t, { BLOCKDELTA_POOL: 'x' }))[2], /BLOCKDELTA_POOLS/);
  const [, found, remedy] = await onlyFinding(t, { BLOCKDELTA_NODE_ID: 'pod-7' });
  assert.match(found, /belongs to node 'test-node', and the node id here is 'pod-7'/);
  assert.match(remedy, /BLOCKDELTA_NODE_ID=test-node/);
});

test('a socket that others may use, or that is missing, is found', async (t) => {
  const path = running.plugin.endpoint.slice('unix://'.length);
  chmodSync(path, 0o666);
  assert.match((await onlyFinding(t))[1], /has mode 666, more than 600/);
  chmodSync(path, 0o600);
  const missing = running.workspace.path('missing.sock');
  const found = await onlyFinding(t, { CSI_ENDPOINT: `unix://${missing}` });
  assert.match(found[1], /there is no socket at .*missing\.sock: start the plugin/);
});

test('a missing capability is found', async (t) => {
  await running.plugin.stop();
  const drop = '-linux_immutable';
  const by = ['setpriv', `--bounding-set=${drop}`, `--inh-caps=${drop}`];
  const { code, stdout } = await runCommand(t, ['doctor', '--json'], running.settings, by);
  assert.equal(code, 1);
  const results = JSON.parse(stdout) as Result[];
  const text = JSON.stringify(results.find(({ check }) => check === 'capabilities'));
  assert.match(text, /this command lacks CAP_LINUX_IMMUTABLE, which the plugin needs to keep/);
  assert.doesNotMatch(text, /lacks CAP_SYS_ADMIN/);
  await running.start();
});

test('a missing and a damaged catalogue are one finding each, and nothing is printed twice', async (t) => {
  const empty = running.workspace.path('empty');
  mkdirSync(empty, { mode: 0o700 });
  const env = { BLOCKDELTA_STATE_DIR: empty };
  const [check, found] = await onlyFinding(t, env);
  assert.deepEqual([check, /there is no catalogue/.test(found)], ['catalogue', true]);
  writeFileSync(join(empty, 'catalogue.sqlite'), 'damaged'.repeat(1000));
  assert.match((await onlyFinding(t, env))[1], /is not an SQLite database/);
  const { stdout } = await runCommand(t, ['doctor'], { ...running.settings, ...env });
  assert.match(stdout, /FINDING {2}catalogue/);
  assert.match(stdout, /skipped {2}pools +the catalogue or the devices cannot be read/);
  assert.match(stdout, /, 5 checks skipped\n$/);
});

test('what was not examined is not called healthy', async (t) => {
  const { CSI_ENDPOINT: _, ...settings } = running.settings;
  const { code, stdout } = await runCommand(t, ['doctor', '--json'], settings);
  const results = JSON.parse(stdout) as (Result & { skipped?: true })[];
  assert.deepEqual(
    results.filter(({ skipped }) => skipped).map(({ check }) => check),
    ['socket'],
  );
  const isClean = results.every((result) => result.findings.length === 0);
  assert.equal(code, isClean ? 7 : 1);
  const said = isClean ? /no findings, 1 checks skipped\n$/ : /findings, 1 checks skipped\n$/;
  assert.match((await runCommand(t, ['doctor'], settings)).stdout, said);
});
