/** `pools`, `volumes`, `doctor` and `gc` on a node with a dm-thin pool. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { after, before } from 'node:test';
import { ledgerContents } from '../../src/backends/thin/ledger/ledger-contents.js';
import { PoolNames } from '../../src/backends/thin/pool/pool-names.js';
import { packagePath } from '../../src/base/package-root.js';
import { loadAddon } from '../../src/native/addon.js';
import { MIB } from '../support/orchestrator.js';
import { RunningPlugin } from '../support/running-plugin.js';
import { guestTest, isGuest } from './guest.js';

type Row = Record<string, unknown>;

const SECTOR = 512;
const running = new RunningPlugin();
before(async () => {
  if (!isGuest) return;
  const env = { BLOCKDELTA_SCAN_THREADS: '1', BLOCKDELTA_DEVICE_THREADS: '2' };
  await running.setUp('inspection', { pools: { default: 'thin' }, env });
});
after(() => running.tearDown());

function command(...args: string[]): { code: number | null; stdout: string; stderr: string } {
  const main = packagePath('.test-build/src/main.js');
  const ended = spawnSync(process.execPath, [main, ...args], {
    encoding: 'utf8',
    env: {
      PATH: process.env['PATH'],
      BLOCKDELTA_NODE_ID: 'test-node',
      BLOCKDELTA_STATE_DIR: running.workspace.path('plugin'),
      BLOCKDELTA_POOLS: `default=thin:${running.poolPath('default')}`,
    },
  });
  return { code: ended.status, stdout: ended.stdout, stderr: ended.stderr };
}

const rows = (...args: string[]): Row[] => {
  const { stdout, stderr } = command(...args, '--json');
  assert.notEqual(stdout, '', stderr);
  return JSON.parse(stdout) as Row[];
};

const poolFindings = (): string =>
  JSON.stringify(rows('doctor').find(({ check }) => check === 'pools')?.['findings']);

const isMapped = (name: string): boolean => {
  const answer = loadAddon().dmFind({ name });
  return answer.ok && answer.device !== null;
};

guestTest('a thin pool is listed, examined, and only its idle device is removed', async () => {
  const { orchestrator } = running;
  const used = await orchestrator.create('used', { sizeBytes: 16 * MIB });
  const idle = await orchestrator.create('idle', { sizeBytes: 16 * MIB });
  await orchestrator.bringUp(used);
  const { pool, devices } = await ledgerContents(running.poolPath('default', 'pool.sqlite'));
  const names = new PoolNames(pool.uuid);

  const [listed] = rows('pools');
  assert.equal(listed?.['kind'], 'thin');
  assert.equal((listed?.['thin'] as Row | undefined)?.['mode'], 'rw');
  const device = rows('volumes').find(({ id }) => id === used.id)?.['device'];
  assert.match(String(device), /^\/dev\/dm-\d+$/);
  assert.equal(poolFindings(), '[]');
  execFileSync('dmsetup', ['message', names.pool, '0', 'reserve_metadata_snap']);
  assert.match(poolFindings(), /holds a metadata snapshot/);
  execFileSync('dmsetup', ['message', names.pool, '0', 'release_metadata_snap']);

  // Left active, because a volume is attached.
  await running.plugin.stop();
  const created = loadAddon().dmFind({ name: names.pool });
  assert.ok(created.ok && created.device !== null);
  const record = devices.find(({ objectId }) => objectId === idle.id);
  const request = { readOnly: false, sizeSectors: BigInt((16 * MIB) / SECTOR) };
  const left = loadAddon().dmCreate({
    ...{ ...request, name: names.volume(idle.id), type: 'thin' },
    uuid: names.volumeUuid(idle.id, { readOnly: false }),
    table: `${created.device.path} ${record?.deviceId}`,
  });
  assert.ok(left.ok);
  const foreign = { ...request, name: 'blockdelta-of-somebody', uuid: 'SOMEBODY-1' };
  assert.ok(loadAddon().dmCreate({ ...foreign, type: 'error', table: '' }).ok);

  const found = JSON.parse(command('gc', '--apply', '--json').stdout) as { objects: Row[] };
  assert.deepEqual(
    found.objects.map(({ kind, object, removed }) => [kind, object, removed]),
    [['device of a thin volume', left.device.path, true]],
  );
  assert.ok(!isMapped(names.volume(idle.id)));
  assert.ok(isMapped(names.volume(used.id)) && isMapped('blockdelta-of-somebody'));
  assert.ok(loadAddon().dmRemove({ name: 'blockdelta-of-somebody', deferred: false }).ok);
  await running.start();
  await orchestrator.takeDown(used);
  for (const volume of [used, idle]) await orchestrator.delete(volume);
});
