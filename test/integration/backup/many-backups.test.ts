/** `blockdelta backup --all` and `backup -` as processes, beside the plugin: exit codes, lines, images and the metrics file. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { newSnapshotId, nodeKey } from '../../../src/base/csi/handles.js';
import { chainIn } from '../../support/backups.js';
import { type Ended, runCommand } from '../../support/command.js';
import { type HeldVolume, MIB } from '../../support/orchestrator.js';
import { PROGRAM } from '../../support/program.js';
import { prometheusProgram } from '../../support/prometheus.js';
import { seededRandom } from '../../support/random.js';
import { runPlugin, test } from '../../support/running-plugin.js';
import { writeAt } from '../../support/write-at.js';

const running = runPlugin('many-backups', { pools: { pool: 'xfs' }, poolSizeMiB: 1024 });
const random = seededRandom('many-backups');

const environment = (): Record<string, string> => ({
  CSI_ENDPOINT: running.plugin.endpoint,
  BLOCKDELTA_RUNTIME_DIR: running.workspace.path(),
});

const directory = (): string => running.workspace.path('backups');

const runAll = (t: Parameters<typeof runCommand>[0], ...more: string[]): Promise<Ended> =>
  runCommand(t, ['backup', '--all', '--to', directory(), ...more], environment());

/** Runs `backup -` with these lines on standard input. */
function runListed(
  lines: readonly string[],
  ...more: string[]
): { code: number | null; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [PROGRAM, 'backup', '-', '--to', directory(), ...more],
    { env: { PATH: process.env['PATH'], ...environment() }, input: lines.join('\n'), encoding: 'utf8' },
  );
  return { code: status, stdout, stderr };
}

async function volumeWithSnapshots(name: string, count: number): Promise<{ volume: HeldVolume; snapshots: string[] }> {
  const volume = await running.orchestrator.create(name, { sizeBytes: 16 * MIB });
  await running.orchestrator.bringUp(volume);
  const snapshots: string[] = [];
  for (let taken = 0; taken < count; taken += 1) {
    writeAt(volume.targetPath, taken * MIB, random.bytes(64 * 1024));
    snapshots.push(await running.orchestrator.snapshot(volume, `${name}-${taken}`));
  }
  return { volume, snapshots };
}

/** The samples of the metrics file: each line up to its value, and the value. */
function samplesIn(path: string): Map<string, number> {
  const lines = readFileSync(path, 'utf8').split('\n');
  const samples = lines.filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    samples.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  );
}

test('one bad volume stops no other, the exit code says so, and the next run makes what is missing', async (t) => {
  const good = await volumeWithSnapshots('good', 2);
  const bad = await volumeWithSnapshots('bad', 1);
  const first = await runAll(t, '--json', '--jobs', '2');
  assert.equal(first.code, 0, first.stderr);
  const lines = first.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const of = (id: string | undefined) => lines.find((line) => line.snapshot_id === id);
  assert.equal(of(good.snapshots[0]).method, 'full');
  assert.equal(of(good.snapshots[1]).base_snapshot_id, good.snapshots[0], 'the older snapshot is backed up first');
  assert.deepEqual([lines.at(-1).new, lines.at(-1).full, lines.at(-1).failed], [3, 2, 0]);
  assert.equal((await chainIn(of(good.snapshots[1]).image)).length, 2);

  for (const { volume } of [good, bad]) {
    writeAt(volume.targetPath, 8 * MIB, random.bytes(4096));
    await running.orchestrator.snapshot(volume, `${volume.id}-later`);
  }
  const place = join(directory(), bad.volume.id);
  chmodSync(place, 0o777);
  const metrics = running.workspace.path('blockdelta.prom');
  const second = await runAll(t, '--metrics', metrics);
  assert.equal(second.code, 9, second.stderr);
  assert.match(second.stdout, new RegExp(`failed: .*${bad.volume.id}`));
  assert.match(second.stdout, /\n1 new backups, 0 of them full; 2 snapshots had one, 0 were skipped, 2 failed; /);
  const [failed, sound] = [`{volume="${bad.volume.id}"}`, `{volume="${good.volume.id}"}`];
  let samples = samplesIn(metrics);
  assert.equal(samples.get(`blockdelta_backup_failures${sound}`), 0);
  assert.equal(samples.get(`blockdelta_backup_failures${failed}`), 2);
  assert.equal(samples.has(`blockdelta_backup_image_bytes${failed}`), false, 'what others can write is not described');
  assert.equal(samples.get(`blockdelta_backup_info{volume="${good.volume.id}",method="delta",reason=""}`), 1);

  chmodSync(place, 0o700);
  const third = await runAll(t, '--metrics', metrics);
  assert.equal(third.code, 0, third.stderr);
  samples = samplesIn(metrics);
  const [newest] = readdirSync(place)
    .filter((name) => name.endsWith('.json'))
    .sort()
    .reverse();
  const manifest = JSON.parse(readFileSync(join(place, `${newest}`), 'utf8'));
  assert.equal(
    samples.get(`blockdelta_backup_snapshot_timestamp_seconds${failed}`),
    Date.parse(manifest.snapshot.creationTime) / 1000,
  );
  assert.equal(samples.get(`blockdelta_backup_image_bytes${failed}`), Number(manifest.image.bytes));
  assert.equal(samples.get(`blockdelta_backup_failures${failed}`), 0);
  assert.equal(statSync(metrics).mode & 0o777, 0o644, 'node_exporter runs as another user');
  assert.deepEqual(
    readdirSync(running.workspace.path()).filter((name) => name.endsWith('.partial')),
    [],
  );
  const promtool = prometheusProgram('promtool');
  if (promtool === null) return t.diagnostic('promtool is not here, so it does not check the metrics file');
  const checked = spawnSync(promtool, ['check', 'metrics'], { input: readFileSync(metrics), encoding: 'utf8' });
  assert.equal(checked.status, 0, checked.stderr);
});

test('ids on standard input are backed up, those of other nodes are skipped and counted', async () => {
  const { snapshots } = await volumeWithSnapshots('listed', 1);
  const elsewhere = newSnapshotId(nodeKey('another-node'));
  const mixed = runListed([elsewhere, '', ` ${snapshots[0]} `]);
  assert.equal(mixed.code, 0, mixed.stderr);
  assert.match(mixed.stdout, new RegExp(`${elsewhere}  skipped: it is on another node\n`));
  assert.match(mixed.stdout, /\n1 new backups, 1 of them full; 0 snapshots had one, 1 were skipped, 0 failed; /);
  assert.match(mixed.stdout, new RegExp(`${snapshots[0]}  .*, full: there is no backup of an earlier snapshot`));
});

test('if all fail for one reason, the exit code is that of the reason', async () => {
  const [id] = (await running.orchestrator.snapshotIds()) as [string];
  const gone = `${id.slice(0, -12)}000000000000`;
  const { code, stdout } = runListed([gone], '--json');
  assert.equal(code, 4, stdout);
  const [outcome, summary] = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.match(outcome.error, new RegExp(`no snapshot ${gone}`));
  assert.equal(summary.failed, 1);
});

for (const { args, says } of [
  { args: ['--all', 'snap'], says: /name a snapshot, - for ids on standard input, or --all/ },
  { args: ['--all', '--base', 'snap'], says: /--base ID is for one snapshot/ },
  { args: ['snap', '--jobs', '2'], says: /--jobs goes with --all or - only/ },
]) {
  test(`backup ${args.join(' ')} is wrong usage`, async (t) => {
    const { code, stderr } = await runCommand(t, ['backup', ...args, '--to', directory()], environment());
    assert.equal(code, 2);
    assert.match(stderr, says);
  });
}
