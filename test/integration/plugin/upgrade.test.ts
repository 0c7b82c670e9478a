/**
 * Today's plugin on the disks that released versions have left: it answers as they did, and goes on. Then builds of two
 * versions that replace each other while a program writes to a volume.
 *
 * A fixture is one XFS file system, so inodes, change times and extents are those that the released version saw. It proves
 * nothing about btrfs, embedded images and thin pools.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { packagePath } from '../../../src/base/package-root.js';
import { packageVersion } from '../../../src/base/version.js';
import { SqliteConnection } from '../../../src/driver/database/connection.js';
import { checkoutText } from '../../support/checkout-text.js';
import { runCommand } from '../../support/command.js';
import { eventually } from '../../support/eventually.js';
import { MIB, Orchestrator } from '../../support/orchestrator.js';
import { OrderedWriter, readNumber } from '../../support/ordered-writer.js';
import { Plugin, type PluginOptions } from '../../support/plugin.js';
import { PROGRAM } from '../../support/program.js';
import {
  digestOf,
  listed,
  missingIn,
  mountReleased,
  type Release,
  rangesAsText,
  releasedSettings,
  releases,
} from '../../support/released.js';
import { test } from '../../support/running-plugin.js';
import { Workspace } from '../../support/workspace.js';
import { writeAt } from '../../support/write-at.js';

interface UpgradedNode {
  workspace: Workspace;
  disk: string;
  orchestrator: Orchestrator;
  plugin(): Plugin;
  /** Starts it, in place of the one that has ended. */
  start(options?: Pick<PluginOptions, 'program'>): Promise<Plugin>;
  /** Starts it, and resolves to what it prints when it ends by itself. */
  fails(): Promise<string>;
}

/** A copy of the node, on which nothing runs yet. */
function nodeOf(t: TestContext, release: Release): UpgradedNode {
  const workspace = new Workspace('upgrade');
  let running: Plugin | undefined;
  t.after(async () => {
    await running?.kill();
    workspace.dispose();
  });
  const disk = mountReleased(workspace, release);
  const options = { env: releasedSettings(disk) };
  const plugin = (): Plugin => {
    if (running === undefined) throw new Error('no plugin runs yet');
    return running;
  };
  return {
    workspace,
    disk,
    plugin,
    orchestrator: new Orchestrator(workspace, () => plugin().client),
    start: async (more = {}) => {
      running = await Plugin.start(workspace, { ...options, ...more });
      return running;
    },
    fails: async () => {
      const launched = Plugin.launch(workspace, options);
      running = launched;
      assert.notEqual(await launched.exitCode(), 0);
      return launched.log;
    },
  };
}

/** @param ranges as rangesAsText */
function covers(ranges: string, offset: number, size: number): boolean {
  return ranges.split(' ').some((range) => {
    const [from = 0, length = 0] = range.split('+').map(Number);
    return from <= offset && offset + size <= from + length;
  });
}

for (const release of releases) {
  const { version } = release;
  const was = release.node();
  const { ids } = was;

  test(`volumes, snapshots and their lists on a node of ${version} are what that version answered`, async (t) => {
    const node = nodeOf(t, release);
    const { client, endpoint } = await node.start();
    const { volumes, snapshots } = await listed(client);
    const isWanted = ({ id }: { id: string }): boolean => !was.deleting.includes(id);
    const byId = (one: { id: string }, other: { id: string }): number => (one.id < other.id ? -1 : 1);
    assert.deepEqual(volumes.sort(byId), was.volumes.filter(isWanted).sort(byId));
    assert.deepEqual(snapshots.sort(byId), was.snapshots.filter(isWanted).sort(byId));
    for (const [pair, ranges] of Object.entries(was.lists)) {
      const [base = '', target] = pair.split(' ');
      const found = await (target === undefined ? client.allocated(base) : client.delta(base, target));
      assert.equal(rangesAsText(found.ranges), ranges, pair);
    }
    const refusals = node
      .plugin()
      .log.split('\n')
      .filter((line) => line.includes('change list'));
    assert.deepEqual(refusals, [], 'a stored list is not used');
    for (const [name, wanted] of Object.entries(was.contents)) {
      // What was mounted has changed until the node stopped.
      if (was.deleting.includes(name) || name === was.used.id) continue;
      const kind = name.startsWith('vol-') ? 'volumes' : 'snapshots';
      assert.equal(digestOf(join(node.disk, 'pool', kind, name)), wanted, name);
    }
    for (const [command, fields] of Object.entries(was.fields)) {
      if (command === 'backups') continue;
      const environment = { ...releasedSettings(node.disk), CSI_ENDPOINT: endpoint };
      const { stdout, stderr } = await runCommand(t, [command, '--json'], environment);
      assert.notEqual(stdout, '', stderr);
      assert.deepEqual(missingIn(JSON.parse(stdout), fields), [], command);
    }
  });

  test(`a node of ${version} goes on with use, growth, snapshots, restores and deletion`, async (t) => {
    const node = nodeOf(t, release);
    const { client } = await node.start();
    const { orchestrator } = node;

    // The node stopped with this one in use, and its paths are gone.
    const { used } = was;
    await orchestrator.unpublish(used);
    await orchestrator.unstage(used);
    const path = (name: string): string => node.workspace.path(used.id, name);
    const mounted = { ...used, stagingPath: path('staging'), targetPath: path('target') };
    const target = await orchestrator.bringUp(mounted);
    assert.match(readFileSync(join(target, 'file'), 'utf8'), /^written before the node stopped$/m);
    await orchestrator.remove(mounted);

    const [chain, newest] = [ids.chain, ids.newest].map((id) => {
      const found = was.volumes.find((volume) => volume.id === id);
      return orchestrator.hold('', { volume_id: id, capacity_bytes: found?.sizeBytes });
    });
    assert.ok(chain !== undefined && newest !== undefined);
    const after = await orchestrator.snapshot(newest);
    assert.equal(rangesAsText((await client.delta(ids.held, after)).ranges), was.changedSinceHeld);

    await orchestrator.expand(chain, 8 * MIB);
    writeAt(await orchestrator.bringUp(chain), 7 * MIB, Buffer.alloc(4096, 'new'));
    const taken = await orchestrator.snapshot(chain);
    await orchestrator.takeDown(chain);
    for (const base of [ids.first, ids.second, ids.fourth]) {
      const { ranges } = await client.delta(base, taken);
      assert.ok(covers(rangesAsText(ranges), 7 * MIB, 4096), base);
    }
    await orchestrator.deleteSnapshot(ids.third);
    const across = rangesAsText((await client.delta(ids.third, taken)).ranges);
    assert.ok(covers(across, 3 * 65536, 16384), across);
    const restored = await orchestrator.create('restored anew', { snapshotId: ids.second, sizeBytes: 4 * MIB });
    assert.equal(digestOf(await orchestrator.bringUp(restored)), was.contents[ids.second]);
    await orchestrator.takeDown(restored);

    const members = was.snapshots.filter(({ group }) => group === ids.group).map(({ id }) => id);
    await orchestrator.deleteGroup({ id: ids.group, snapshotIds: members });
    for (const id of await orchestrator.snapshotIds()) await orchestrator.deleteSnapshot(id);
    for (const volume_id of await orchestrator.volumeIds()) {
      await client.controller.ControllerUnpublishVolume({ volume_id });
      await client.controller.DeleteVolume({ volume_id });
    }
    assert.deepEqual(await orchestrator.snapshotIds(), []);
    for (const kind of ['volumes', 'snapshots']) {
      await eventually(`${kind} are gone`, async () => readdirSync(join(node.disk, 'pool', kind)).length === 0);
    }
  });

  test(`a catalogue or a pool that a version after this one has made from that of ${version} is refused and not changed`, async (t) => {
    const node = nodeOf(t, release);
    const identity = join(node.disk, 'pool', 'pool-id');
    const own = readFileSync(identity, 'utf8');
    writeFileSync(identity, own.replace(/ 1$/m, ' 2'));
    assert.match(await node.fails(), /its layout has version 2 and this plugin knows 1/);
    writeFileSync(identity, own);
    const database = new SqliteConnection(join(node.disk, 'state', 'catalogue.sqlite'), 1000);
    const versionOf = (): unknown => database.get('PRAGMA user_version')?.['user_version'];
    const known = Number(versionOf());
    database.exec('PRAGMA user_version = 99');
    database.close();
    const log = await node.fails();
    assert.match(log, new RegExp(`its schema version is 99 and this plugin knows ${known}: .*run that version`));
  });
}

const NEXT = '0.1.1';

/** This build under another version, in a directory of its own. */
function nextBuild(workspace: Workspace): string {
  const root = workspace.path('next');
  mkdirSync(root);
  cpSync(dirname(PROGRAM), join(root, 'program'), { recursive: true });
  for (const name of ['build', 'node_modules', 'proto']) symlinkSync(packagePath(name), join(root, name));
  const manifest = JSON.parse(checkoutText('package.json'));
  writeFileSync(join(root, 'package.json'), JSON.stringify({ ...manifest, version: NEXT }));
  return join(root, 'program', 'main.js');
}

const newestRelease = releases.at(-1);

test('builds of two versions replace each other under a writer, which loses nothing and is not stopped', async (t) => {
  assert.ok(newestRelease !== undefined);
  const node = nodeOf(t, newestRelease);
  const { orchestrator } = node;
  const program = nextBuild(node.workspace);
  await node.start();
  const volume = await orchestrator.create('written', { sizeBytes: 16 * MIB });
  const target = await orchestrator.bringUp(volume);
  const mirror = node.workspace.path('mirror');
  const writer = await OrderedWriter.start([target, mirror]);
  t.after(() => writer.stop().catch(() => undefined));
  const goesOn = async (): Promise<void> => {
    const { finished } = writer;
    await eventually('the writer goes on', async () => writer.finished > finished + 2);
  };
  let base = await orchestrator.snapshot(volume);
  for (const [how, next] of [
    ['stop', { program }],
    ['kill', {}],
  ] as const) {
    await goesOn();
    await node.plugin()[how]();
    await goesOn();
    const { client } = await node.start(next);
    const { vendor_version } = await client.identity.GetPluginInfo({});
    assert.equal(vendor_version, 'program' in next ? NEXT : packageVersion());
    // What an orchestrator repeats after a restart.
    await orchestrator.stage(volume);
    await orchestrator.publish(volume);
    await goesOn();
    const snapshot = await orchestrator.snapshot(volume);
    assert.ok(covers(rangesAsText((await client.delta(base, snapshot)).ranges), 0, 4096));
    await orchestrator.deleteSnapshot(base);
    base = snapshot;
  }
  await writer.stop();
  assert.equal(readNumber(target), writer.finished);
  assert.equal(readNumber(mirror), writer.finished);
  assert.equal(execFileSync('cmp', ['-n', '4096', target, mirror]).length, 0);
  await orchestrator.deleteSnapshot(base);
  await orchestrator.remove(volume);
});
