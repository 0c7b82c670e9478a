/** A full state directory: calls that free space still work, and nothing new is created. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { openLedger } from '../../src/driver/backends/thin/ledger/ledger-client.js';
import { mountCapability } from '../support/csi-client.js';
import { isNightly } from '../support/nightly.js';
import { type HeldVolume, MIB, Orchestrator } from '../support/orchestrator.js';
import { Plugin } from '../support/plugin.js';
import { refused } from '../support/refusal.js';
import { test } from '../support/running-plugin.js';
import { makePoolFileSystem, Workspace } from '../support/workspace.js';

const workspaces: Workspace[] = [];
const plugins: Plugin[] = [];
after(async () => {
  for (const plugin of plugins) await plugin.kill();
  for (const workspace of workspaces) workspace.dispose();
});

const RESERVE = 'catalogue.sqlite-reserve';
const VOLUMES = isNightly ? 100 : 6;

function newWorkspace(label: string): Workspace {
  const workspace = new Workspace(`full-${label}`);
  workspaces.push(workspace);
  return workspace;
}

function tmpfs(workspace: Workspace): string {
  const path = workspace.path('small');
  mkdirSync(path);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16m,mode=700', 'tmpfs', path]);
  return path;
}

/** Writes until there is no block left. */
function fill(directory: string, name = 'filler'): void {
  const to = [`of=${join(directory, name)}`, 'bs=4K', 'oflag=append', 'conv=notrunc'];
  const { stderr } = spawnSync('dd', ['if=/dev/zero', ...to], { encoding: 'utf8' });
  assert.match(stderr, /No space left/);
}

async function start(workspace: Workspace, pool: string, state: string) {
  const env = { BLOCKDELTA_STATE_DIR: state };
  const plugin = await Plugin.start(workspace, { pools: `main=${pool}`, env });
  plugins.push(plugin);
  return { plugin, orchestrator: new Orchestrator(workspace, () => plugin.client) };
}

/** The log may have room for a few volumes, and gives its blocks back when it is emptied. */
async function createUntilFull(orchestrator: Orchestrator, state: string): Promise<HeldVolume[]> {
  const made: HeldVolume[] = [];
  for (let index = 0; index < 1000; index += 1) {
    fill(state, 'filler again');
    try {
      made.push(await orchestrator.create(`extra ${index}`));
    } catch (thrown) {
      const words = /no space left for the catalogue .*sqlite/;
      await refused(Promise.reject(thrown), 'RESOURCE_EXHAUSTED', words);
      return made;
    }
  }
  throw new Error('volumes are made without end on a full disk');
}

const STATES: Readonly<Record<string, (workspace: Workspace) => string>> = {
  tmpfs,
  ext4: (workspace) => makePoolFileSystem(workspace, 'ext4', 32),
};
for (const [type, make] of Object.entries(STATES)) {
  if (!isNightly && make === tmpfs) continue;
  test(`H21: a plugin with a full state directory on ${type} tears pods down, deletes volumes and creates none`, async () => {
    const workspace = newWorkspace(type);
    const state = make(workspace);
    const pool = makePoolFileSystem(workspace, 'xfs');
    const first = await start(workspace, pool, state);
    const volumes: HeldVolume[] = [];
    const snapshotIds: string[] = [];
    const capability = mountCapability('ext4');
    for (let index = 0; index < VOLUMES; index += 1) {
      const spec = { capability, sizeBytes: 16 * MIB };
      const volume = await first.orchestrator.create(`volume ${index}`, spec);
      await first.orchestrator.bringUp(volume);
      volumes.push(volume);
      snapshotIds.push(await first.orchestrator.snapshot(volume, `snapshot ${index}`));
    }
    // A start, too, finds the directory full.
    await first.plugin.kill();
    fill(state);
    const { plugin, orchestrator } = await start(workspace, pool, state);
    volumes.push(...(await createUntilFull(orchestrator, state)));
    for (const [index, volume] of volumes.entries()) {
      await orchestrator.unpublish(volume);
      await orchestrator.unstage(volume);
      const snapshotId = snapshotIds[index];
      if (snapshotId !== undefined) await orchestrator.deleteSnapshot(snapshotId);
      await orchestrator.delete(volume);
      // Somebody else takes what the reserve has left.
      if (index === 2) fill(state, 'more filler');
      if (existsSync(join(state, RESERVE))) continue;
      // What the reserve has left is not for new volumes.
      await refused(orchestrator.create('more'), 'RESOURCE_EXHAUSTED', /no space left/);
    }
    // The log alone may have had room for all of it.
    const gaveUp = !existsSync(join(state, RESERVE));
    if (gaveUp) assert.match(plugin.log, /"level":"warn".*is full: released the space reserve/);
    assert.deepEqual(await orchestrator.volumeIds(), []);
    for (const name of ['filler', 'filler again', 'more filler']) rmSync(join(state, name));
    const next = await orchestrator.create('more');
    if (gaveUp) assert.match(plugin.log, /restored the space reserve/);
    assert.equal(statSync(join(state, RESERVE)).size, 2 * MIB);
    await orchestrator.delete(next);
    assert.equal(await plugin.stop(), 0);
  });
}

test('H21: the ledger of a thin pool in a full directory records deletions, but no new device', async () => {
  const directory = tmpfs(newWorkspace('ledger'));
  const ledger = await openLedger(join(directory, 'pool.sqlite'));
  await ledger.makePool(65536n);
  const device = (objectId: string) => ({ objectId, kind: 'volume', sizeBytes: 65536n, lineage: objectId }) as const;
  for (let index = 0; index < VOLUMES; index += 1) {
    await ledger.begin([device(`volume ${index}`)], []);
    await ledger.apply();
  }
  await ledger.close();
  fill(directory);
  const full = await openLedger(join(directory, 'pool.sqlite'));
  const refuses = () => refused(full.begin([device('more')], []), 'RESOURCE_EXHAUSTED', /no space left for the ledger/);
  await refuses();
  for (let index = 0; index < VOLUMES; index += 1) {
    await full.begin([], [`volume ${index}`]);
    await full.apply();
  }
  await refuses();
  assert.deepEqual(await full.devices(), []);
  await full.close();
});
