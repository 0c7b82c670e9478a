/**
 * Writes the fixtures of this version: the program of scripts/make-release-fixtures.
 *
 *   release-fixtures.js DIRECTORY            everything
 *   release-fixtures.js DIRECTORY promises   promises.json alone
 *
 * The disk is that of a node which lost its power: one file system with state directory and pool, taken when the plugin
 * was killed with a volume in use. It keeps inodes, generations and change times, which stored lists are bound to.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SqliteConnection } from '../../src/driver/database/connection.js';
import { runCommand } from './command.js';
import { mountCapability } from './csi-client.js';
import { eventually } from './eventually.js';
import { detachLoop } from './loops.js';
import { type HeldVolume, MIB, Orchestrator } from './orchestrator.js';
import { Plugin } from './plugin.js';
import { promises, settingsIn, settingsMean } from './promised-names.js';
import {
  digestOf,
  fieldsIn,
  listed,
  RELEASED_NODE_ID,
  type ReleasedNode,
  rangesAsText,
  releasedSettings,
} from './released.js';
import { writeThinFixture } from './released-thin.js';
import { listsTo } from './stored-lists.js';
import { loopsBelow, mountsBelow, Workspace } from './workspace.js';
import { writeAt } from './write-at.js';

const [directory = '', what = 'everything'] = process.argv.slice(2);
mkdirSync(directory, { recursive: true });

const asJson = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;
const settings = settingsIn(join(directory, 'settings.env'));
writeFileSync(
  join(directory, 'promises.json'),
  asJson({ ...(await promises()), 'values of settings.env': settingsMean(settings) }),
);
if (what === 'everything') {
  const thin = await writeThinFixture(join(directory, 'thin.tar.zst'));
  writeFileSync(join(directory, 'thin.json'), asJson(thin));
  await writeNode();
}

async function writeNode(): Promise<void> {
  const workspace = new Workspace('release');
  let plugin: Plugin | undefined;
  try {
    const disk = workspace.path('node');
    const image = workspace.path('node.img');
    mkdirSync(disk);
    execFileSync('truncate', ['-s', '300M', image]);
    execFileSync('mkfs.xfs', ['-q', '-m', 'reflink=1', image]);
    execFileSync('mount', ['-o', 'loop', image, disk]);
    for (const name of ['state', 'pool', 'backups']) mkdirSync(join(disk, name));
    plugin = await Plugin.start(workspace, { env: releasedSettings(disk) });
    const node = await fill(workspace, plugin, disk);
    await plugin.kill();
    release(workspace, disk);
    const catalogue = join(disk, 'state', 'catalogue.sqlite');
    interrupt(catalogue);
    // Its bytes are random, and only its size counts.
    writeAt(`${catalogue}-reserve`, 0, Buffer.alloc(statSync(`${catalogue}-reserve`).size));
    execFileSync('tar', ['-c', '--zstd', '-f', join(directory, 'backups.tar.zst'), '-C', join(disk, 'backups'), '.']);
    rmSync(join(disk, 'backups'), { recursive: true });
    execFileSync('fstrim', [disk]);
    execFileSync('umount', [disk]);
    execFileSync('zstd', ['-q', '-f', '-19', image, '-o', join(directory, 'node.img.zst')]);
    writeFileSync(join(directory, 'node.json'), asJson(node));
  } finally {
    await plugin?.kill();
    workspace.dispose();
  }
}

/** Compressible, and another in each place and for each number. */
function write(path: string, offset: number, length: number, number: number): void {
  const pages = Array.from({ length: length / 4096 }, (_, page) =>
    Buffer.alloc(4096, `${number} at ${offset + page * 4096} `),
  );
  writeAt(path, offset, Buffer.concat(pages));
}

async function fill(workspace: Workspace, plugin: Plugin, disk: string): Promise<ReleasedNode> {
  const { client } = plugin;
  const orchestrator = new Orchestrator(workspace, () => client);
  const pool = join(disk, 'pool');
  const create = async (name: string, spec = {}): Promise<HeldVolume> =>
    orchestrator.create(name, { sizeBytes: 4 * MIB, ...spec });
  const lists: Record<string, string> = {};
  const delta = async (base: string, target: string): Promise<void> => {
    lists[`${base} ${target}`] = rangesAsText((await client.delta(base, target)).ranges);
  };

  const chain = await create('chain', { parameters: { pool: 'main' } });
  const path = await orchestrator.bringUp(chain);
  const taken: string[] = [];
  for (let number = 0; number < 4; number += 1) {
    write(path, number * 65536, 16384, number);
    if (number > 0) write(path, 2 * MIB, 8192, number);
    const snapshot = await orchestrator.snapshot(chain, `chain-${number}`);
    taken.push(snapshot);
    const backup = ['backup', snapshot, '--to', join(disk, 'backups'), '--json'];
    if (number < 3) await command(plugin, workspace, ...backup);
    if (number === 1) await orchestrator.expand(chain, 6 * MIB);
  }
  const [first = '', second = '', third = '', fourth = ''] = taken;
  await eventually('the list of each step is stored', async () => listsTo(join(pool, 'lists'), fourth).length > 0);
  await orchestrator.deleteSnapshot(first);
  for (const base of [first, second]) for (const target of [third, fourth]) await delta(base, target);
  for (const snapshot of [second, fourth]) {
    lists[snapshot] = rangesAsText((await client.allocated(snapshot)).ranges);
    await eventually('the allocated list is stored', async () =>
      readdirSync(join(pool, 'lists')).includes(`${snapshot}.allocated`),
    );
  }
  await orchestrator.takeDown(chain);

  const newest = await create('newest snapshot deleted');
  const newestPath = await orchestrator.bringUp(newest);
  write(newestPath, 0, 65536, 10);
  const held = await orchestrator.snapshot(newest, 'held');
  await orchestrator.deleteSnapshot(held);
  write(newestPath, MIB, 8192, 11);
  await orchestrator.takeDown(newest);

  const restored = await create('restored', { snapshotId: second, sizeBytes: 6 * MIB });
  await create('clone', { volumeId: newest.id });
  const gone = await create('deleted under its snapshot');
  await orchestrator.snapshot(gone, 'of a deleted volume');
  await orchestrator.delete(gone);
  const members = [await create('member-0'), await create('member-1')];
  const group = await orchestrator.groupSnapshot(members, 'group');
  await create('unfinished creation');
  const deleting = [
    (await create('unfinished deletion')).id,
    await orchestrator.snapshot(members[0] as HeldVolume, 'unfinished snapshot'),
  ];
  const settled = await create('with settings');
  await orchestrator.modify(settled, { readAheadKiB: '256' });
  await client.controller.ControllerPublishVolume({
    volume_id: settled.id,
    node_id: RELEASED_NODE_ID,
    volume_capability: settled.capability,
  });

  const capability = mountCapability('ext4', 'SINGLE_NODE_WRITER', ['noatime']);
  const mounted = await create('in use', { capability, sizeBytes: 24 * MIB, parameters: { mkfsOptions: '-m 1' } });
  await orchestrator.bringUp(mounted);
  writeFileSync(join(mounted.targetPath, 'file'), 'written before the node stopped\n', { flush: true });
  await orchestrator.snapshot(mounted, 'of a file system');
  execFileSync('sync', ['-f', mounted.targetPath]);
  return {
    ...(await listed(client)),
    contents: digests(pool),
    lists,
    ids: {
      chain: chain.id,
      first,
      second,
      third,
      fourth,
      newest: newest.id,
      held,
      restored: restored.id,
      group: group.id,
    },
    deleting,
    changedSinceHeld: `${MIB}+8192`,
    used: mounted,
    fields: await printedFields(plugin, workspace, disk),
  };
}

/** Of all volumes and snapshots, as files of the pool. */
function digests(pool: string): Record<string, string> {
  const files = ['volumes', 'snapshots'].flatMap((kind) =>
    readdirSync(join(pool, kind)).map((name) => [name, join(pool, kind, name)] as const),
  );
  return Object.fromEntries(files.map(([name, file]) => [name, digestOf(file)]));
}

async function printedFields(plugin: Plugin, workspace: Workspace, disk: string): Promise<ReleasedNode['fields']> {
  const fields: ReleasedNode['fields'] = {};
  for (const args of [['volumes'], ['snapshots'], ['pools'], ['doctor'], ['gc'], ['backups', join(disk, 'backups')]]) {
    const printed = await command(plugin, workspace, ...args, '--json');
    fields[args[0] as string] = fieldsIn(JSON.parse(printed)).sort();
  }
  return fields;
}

async function command(plugin: Plugin, workspace: Workspace, ...args: string[]): Promise<string> {
  const environment = {
    ...releasedSettings(workspace.path('node')),
    CSI_ENDPOINT: plugin.endpoint,
    BLOCKDELTA_RUNTIME_DIR: workspace.directory,
  };
  const { stdout, stderr } = await runCommand({ after: () => undefined }, args, environment);
  assert.notEqual(stdout, '', stderr);
  return stdout;
}

/** As a loss of power does: mounts and devices of volumes are gone. */
function release(workspace: Workspace, disk: string): void {
  for (const mountPoint of mountsBelow(workspace.directory).reverse()) {
    if (mountPoint !== disk) execFileSync('umount', [mountPoint]);
  }
  for (const device of loopsBelow(disk)) detachLoop(device, () => loopsBelow(disk).includes(device));
}

/** What a kill in the middle leaves. */
function interrupt(catalogue: string): void {
  const database = new SqliteConnection(catalogue, 1000);
  for (const [table, name, state] of [
    ['volumes', 'unfinished creation', 'creating'],
    ['volumes', 'unfinished deletion', 'deleting'],
    ['snapshots', 'unfinished snapshot', 'deleting'],
  ]) {
    database.run(`UPDATE ${table} SET state = ? WHERE name = ?`, state, name);
  }
  database.close();
}
