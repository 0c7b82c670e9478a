/**
 * Twenty thousand malformed and hostile requests over the real socket: each gets a CSI status, nothing
 * outside the plugin's directories changes, and the plugin keeps working.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { FuzzRun } from '../support/fuzz-run.js';
import type { FuzzWorld } from '../support/plausible-requests.js';
import { startReport } from '../support/plugin-log.js';
import { seededRandom } from '../support/random.js';
import { encodeMessage } from '../support/raw-call.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { loopsBelow, mountsBelow } from '../support/workspace.js';

const REQUESTS = process.env['BLOCKDELTA_TEST_LONG'] === undefined ? 20_000 : 200_000;
/** Requests before memory is first measured. */
const WARM_UP = REQUESTS / 4;
const RSS_BOUND_MIB = 128;

const running = runPlugin('fuzz', {
  pools: { main: 'xfs' },
  poolSizeMiB: 1024,
  env: { BLOCKDELTA_CONTROLLER_PUBLISH: 'on', BLOCKDELTA_CSI_LEVEL: '1.13' },
});

/** Creates a tree of files, non-empty directories and links that must not change. */
function makeSentinel(directory: string): void {
  mkdirSync(join(directory, 'full', 'deeper'), { recursive: true });
  writeFileSync(join(directory, 'precious'), 'precious');
  writeFileSync(join(directory, 'full', 'deeper', 'file'), 'more of it');
  symlinkSync(join(directory, 'full'), join(directory, 'link'));
}

/** Every entry below a directory with its kind, mode and content. */
function describeTree(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .sort()
    .map((name) => {
      const path = join(directory, name);
      const found = lstatSync(path);
      let content = '';
      if (found.isSymbolicLink()) content = readlinkSync(path);
      if (found.isFile()) content = createHash('sha256').update(readFileSync(path)).digest('hex');
      return `${name} ${found.mode.toString(8)} ${found.uid} ${found.ino} ${content}`;
    });
}

function makeWorld(): FuzzWorld {
  const { workspace } = running;
  const sentinel = workspace.path('sentinel');
  makeSentinel(sentinel);
  for (const index of [0, 1, 2, 3, 4, 5])
    mkdirSync(workspace.path('staging', `s${index}`), { recursive: true });
  mkdirSync(workspace.path('pods'));
  symlinkSync(join(sentinel, 'full'), workspace.path('pods', 'to-directory'));
  symlinkSync(join(sentinel, 'precious'), workspace.path('pods', 'to-file'));
  symlinkSync(join(sentinel, 'missing'), workspace.path('pods', 'to-nothing'));
  symlinkSync(join(sentinel, 'full'), workspace.path('staging', 'to-directory'));
  symlinkSync('around', workspace.path('pods', 'around'));
  const here = (path: string): string => `${workspace.directory}/${path}`;
  const six = [0, 1, 2, 3, 4, 5];
  const stagingPaths = six.map((index) => here(`staging/s${index}`));
  const targetPaths = six.map((index) => here(`pods/p${index}`));
  const hostile = [
    ...['pods/to-directory', 'pods/to-file', 'pods/to-nothing', 'staging/to-directory'],
    ...['pods/around', 'pods/around/x', 'pods/to-file/x', 'pods/a\0b', 'sentinel/precious'],
    ...['pods/../sentinel/full', 'pods/p0/../../sentinel/precious', 'sentinel/link'],
    ...['pods//p0/', 'pods/./p1', 'staging/s0/', 'no/such/parent'],
    ...[`pods/${'n'.repeat(300)}`, `pods/${'deep/'.repeat(900)}`],
  ];
  return {
    volumeIds: [],
    snapshotIds: [],
    sources: new Map(),
    groups: [],
    stagingPaths,
    targetPaths,
    paths: [...stagingPaths, ...targetPaths, ...hostile.map(here), 'some/path', '.', ''],
    otherPaths: ['sentinel', 'sentinel/full', 'xfs.pool', 'plugin'].map(here),
    pool: 'main',
  };
}

/** Deletes what the fuzzed requests created. */
async function cleanUp(fuzz: FuzzRun, world: FuzzWorld): Promise<void> {
  const { client, orchestrator } = running;
  const volumeIds = await orchestrator.volumeIds();
  for (const volume_id of volumeIds) {
    for (const path of world.targetPaths) {
      await client.node
        .NodeUnpublishVolume({ volume_id, target_path: path })
        .catch(() => undefined);
    }
    for (const path of world.stagingPaths) {
      await client.node
        .NodeUnstageVolume({ volume_id, staging_target_path: path })
        .catch(() => undefined);
    }
    const unpublish = encodeMessage('ControllerUnpublishVolumeRequest', { volume_id });
    await fuzz
      .unary('/csi.v1.Controller/ControllerUnpublishVolume', unpublish)
      .catch(() => undefined);
  }
  const { entries } = await client.controller.ListSnapshots({});
  const groups = new Map<string, string[]>();
  for (const { snapshot } of entries) {
    const members = groups.get(snapshot.group_snapshot_id) ?? [];
    groups.set(snapshot.group_snapshot_id, [...members, snapshot.snapshot_id]);
  }
  for (const [group_snapshot_id, snapshot_ids] of groups) {
    if (group_snapshot_id === '') {
      for (const id of snapshot_ids) await orchestrator.deleteSnapshot(id);
    } else {
      const request = encodeMessage('DeleteVolumeGroupSnapshotRequest', {
        group_snapshot_id,
        snapshot_ids,
      });
      await fuzz.unary('/csi.v1.GroupController/DeleteVolumeGroupSnapshot', request);
    }
  }
  for (const volume_id of volumeIds) await client.controller.DeleteVolume({ volume_id });
}

test(`G1, G2 and E4: ${REQUESTS} hostile requests each get a CSI status, and harm nothing`, async () => {
  const { workspace, plugin, orchestrator } = running;
  const random = seededRandom('socket fuzz');
  const world = makeWorld();
  const before = describeTree(workspace.path('sentinel'));
  const held = [mountsBelow(workspace.directory), loopsBelow(workspace.directory)];
  const fuzz = new FuzzRun(plugin.endpoint, Number(plugin.process.pid), random, world);
  try {
    const memory = await fuzz.run(REQUESTS, WARM_UP);
    await fuzz.reachAll(REQUESTS);
    console.log(`# answers: ${JSON.stringify(Object.fromEntries(fuzz.answers))}`);
    console.log(`# answered OK: ${JSON.stringify(Object.fromEntries(fuzz.successes))}`);
    console.log(`# memory, MiB: ${JSON.stringify(memory)}`);
    assert.deepEqual(fuzz.faults, []);
    assert.deepEqual(fuzz.unreached(), [], 'every RPC is answered OK at least once');
    assert.equal(plugin.process.exitCode, null);
    assert.deepEqual(describeTree(workspace.path('sentinel')), before);
    assert.ok(memory.end < memory.warm + RSS_BOUND_MIB, `memory grew: ${JSON.stringify(memory)}`);
    await cleanUp(fuzz, world);
  } finally {
    fuzz.close();
  }
  assert.deepEqual(await orchestrator.volumeIds(), []);
  assert.deepEqual(await orchestrator.snapshotIds(), []);
  assert.deepEqual([mountsBelow(workspace.directory), loopsBelow(workspace.directory)], held);
  await running.restart();
  assert.deepEqual(startReport(running.plugin.log).differences, []);
});

/** Opens the socket, writes, and disconnects at once or when the plugin closes the connection. */
function writeAndVanish(path: string, bytes: Buffer, waitMs: number): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.on('error', () => undefined);
    socket.on('close', () => resolve());
    socket.on('connect', () => {
      socket.write(bytes);
      setTimeout(() => socket.destroy(), waitMs);
    });
    socket.resume();
  });
}

test('G1: bytes that are not HTTP/2, or stop half way, do not affect other clients', async () => {
  const random = seededRandom('socket junk');
  const { client, plugin, workspace } = running;
  const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  const settings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
  const pid = plugin.process.pid;
  for (let round = 0; round < 20; round += 1) {
    const junk = Array.from({ length: 16 }, () => {
      const noise = random.bytes(random.below(2000));
      const start = random.pick([[], [preface], [preface, settings], [preface.subarray(0, 9)]]);
      return writeAndVanish(
        workspace.path('plugin.sock'),
        Buffer.concat([...start, noise]),
        random.below(30),
      );
    });
    const answer = await client.identity.Probe({});
    assert.equal(answer['ready'].value, true);
    await Promise.all(junk);
  }
  assert.equal(plugin.process.exitCode, null);
  assert.equal(plugin.process.pid, pid);
});
