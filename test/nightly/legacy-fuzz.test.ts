/**
 * Sixty thousand malformed and hostile requests over each of CSI 0.3 and 0.1: each gets a CSI status, nothing
 * outside the plugin's directories changes, and the plugin keeps working over v1.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import type { ServiceDefinition } from '@grpc/grpc-js';
import type protobuf from 'protobufjs';
import { loadProto } from '../../src/csi/proto.js';
import type { Message } from '../support/csi-client.js';
import { FuzzRun } from '../support/fuzz-run.js';
import { describeTree, makeWorld } from '../support/fuzz-world.js';
import type { FuzzedProto } from '../support/fuzzed-proto.js';
import type { OldVersion } from '../support/legacy-client.js';
import { runLegacyPlugin } from '../support/legacy-fixture.js';
import { type FuzzWorld, plausibleRequest } from '../support/plausible-requests.js';
import { startReport } from '../support/plugin-log.js';
import { type Random, seededRandom } from '../support/random.js';
import { test } from '../support/running-plugin.js';
import { loopsBelow, mountsBelow } from '../support/workspace.js';

const EACH = 60_000;
const SERVICES = ['Identity', 'Controller', 'Node'] as const;
const PACKAGES = { '0.3': 'csi.v0', '0.1': 'csi' } as const;
const RSS_BOUND_MIB = 128;

const { running, staging } = runLegacyPlugin('legacy-fuzz', { poolSizeMiB: 1024 });

function fuzzed(version: OldVersion): FuzzedProto {
  const packageName = PACKAGES[version];
  const { root, services } = loadProto(`proto/csi-v${version}.proto`, packageName, SERVICES);
  const rpcs = SERVICES.flatMap((service) => {
    const { methods } = root.lookupService(`${packageName}.${service}`);
    return Object.entries(services[service] as ServiceDefinition).map(([name, { path }]) => {
      const { requestType, responseType } = methods[name] as protobuf.Method;
      return { service, name, path, isStream: false, requestType, responseType };
    });
  });
  const always = (rpc: string): Message =>
    version === '0.1' && rpc !== 'GetSupportedVersions'
      ? { version: { major: 0, minor: 1, patch: 0 } }
      : {};
  return {
    rpcs,
    always,
    typeOf: (name) => root.lookupType(`${packageName}.${name}`),
    plausible: (rpc, random, world) => ({ ...old(rpc, random, world), ...always(rpc) }),
    volumeId: ({ volume, volume_info }) => (volume ?? volume_info).id,
    snapshotId: ({ snapshot }) => snapshot.id,
  };
}

/** The request of v1 with the fields of the old versions. */
function old(rpc: string, random: Random, world: FuzzWorld): Message {
  const request = plausibleRequest(rpc, random, world);
  const source = request['volume_content_source']?.snapshot;
  return {
    ...request,
    volume_content_source: source === undefined ? null : { snapshot: { id: source.snapshot_id } },
  };
}

/** Unpublishes, unstages and deletes what the requests have left, over v1. */
async function cleanUp(world: FuzzWorld): Promise<void> {
  const { client, orchestrator } = running;
  const volumeIds = await orchestrator.volumeIds();
  const quietly = (call: Promise<unknown>) => call.catch(() => undefined);
  for (const volume_id of volumeIds) {
    for (const target_path of world.targetPaths) {
      await quietly(client.node.NodeUnpublishVolume({ volume_id, target_path }));
    }
    for (const staging_target_path of [...world.stagingPaths, `${staging}/${volume_id}`]) {
      await quietly(client.node.NodeUnstageVolume({ volume_id, staging_target_path }));
    }
    await quietly(client.controller.ControllerUnpublishVolume({ volume_id }));
  }
  for (const id of await orchestrator.snapshotIds()) await orchestrator.deleteSnapshot(id);
  for (const volume_id of volumeIds) await client.controller.DeleteVolume({ volume_id });
}

test(`${EACH} hostile requests over each old version each get a CSI status, and harm nothing`, async () => {
  const { workspace, plugin, orchestrator } = running;
  const random = seededRandom('legacy fuzz');
  const world = makeWorld(workspace);
  const before = describeTree(workspace.path('sentinel'));
  const held = [mountsBelow(workspace.directory), loopsBelow(workspace.directory)];
  const pid = Number(plugin.process.pid);
  for (const version of ['0.3', '0.1'] as const) {
    const fuzz = new FuzzRun(plugin.endpoint, pid, random, world, fuzzed(version));
    try {
      const memory = await fuzz.run(EACH, EACH / 4);
      await fuzz.reachAll(EACH);
      const answers = JSON.stringify(Object.fromEntries(fuzz.answers));
      console.log(`# ${version}: ${answers}, memory ${JSON.stringify(memory)}`);
      assert.deepEqual(fuzz.faults, []);
      assert.deepEqual(fuzz.unreached(), [], 'every RPC is answered OK at least once');
      assert.ok(memory.end < memory.warm + RSS_BOUND_MIB, JSON.stringify(memory));
    } finally {
      fuzz.close();
    }
  }
  assert.equal(plugin.process.exitCode, null);
  assert.deepEqual(describeTree(workspace.path('sentinel')), before);
  await cleanUp(world);
  assert.deepEqual(await orchestrator.volumeIds(), []);
  const inStaging = existsSync(staging) ? readdirSync(staging) : [];
  for (const name of inStaging) assert.deepEqual(readdirSync(`${staging}/${name}`), []);
  assert.deepEqual([mountsBelow(workspace.directory), loopsBelow(workspace.directory)], held);
  const volume = await orchestrator.create('afterwards');
  await orchestrator.delete(volume);
  await running.restart();
  assert.deepEqual(startReport(running.plugin.log).differences, []);
});
