/**
 * Malformed and hostile requests over the real socket: each gets a CSI status, nothing
 * outside the plugin's directories changes, and the plugin keeps working.
 */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { FuzzRun } from '../support/fuzz-run.js';
import { describeTree, makeWorld } from '../support/fuzz-world.js';
import { isNightly } from '../support/nightly.js';
import type { FuzzWorld } from '../support/plausible-requests.js';
import { startReport } from '../support/plugin-log.js';
import { seededRandom } from '../support/random.js';
import { encodeMessage } from '../support/raw-call.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { loopsBelow, mountsBelow } from '../support/workspace.js';

const REQUESTS = isNightly ? 200_000 : 1500;
/** So many more reach every RPC. */
const MOST_MORE = 20_000;
/** Requests before memory is first measured. */
const WARM_UP = REQUESTS / 4;
const RSS_BOUND_MIB = 128;

const running = runPlugin('fuzz', {
  pools: { main: 'xfs' },
  poolSizeMiB: 1024,
  env: { BLOCKDELTA_CONTROLLER_PUBLISH: 'on', BLOCKDELTA_CSI_LEVEL: '1.13' },
});

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

test(`G1, E4: ${REQUESTS} hostile requests each get a CSI status, and harm nothing`, async () => {
  const { workspace, plugin, orchestrator } = running;
  const random = seededRandom('socket fuzz');
  const world = makeWorld(workspace);
  const before = describeTree(workspace.path('sentinel'));
  const held = [mountsBelow(workspace.directory), loopsBelow(workspace.directory)];
  const fuzz = new FuzzRun(plugin.endpoint, Number(plugin.process.pid), random, world);
  try {
    const memory = await fuzz.run(REQUESTS, WARM_UP);
    await fuzz.reachAll(MOST_MORE);
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
