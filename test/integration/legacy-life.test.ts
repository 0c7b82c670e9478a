/** The whole life of a volume over CSI 0.3 and 0.1, on real loop devices and mounts, beside v1. */
import assert from 'node:assert/strict';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import type { LegacyClient, OldVersion } from '../support/legacy-client.js';
import { runLegacyPlugin } from '../support/legacy-fixture.js';
import { type Access, LegacyLife } from '../support/legacy-life.js';
import { MIB } from '../support/orchestrator.js';
import { test } from '../support/running-plugin.js';
import { loopsBelow, mountsBelow } from '../support/workspace.js';

const { running, staging, clientOf } = runLegacyPlugin('legacy-life');

/** Nothing of a volume is left but the pool's own device and mount. */
function assertNothingLeft(): void {
  assert.deepEqual(mountsBelow(running.workspace.path('old')), []);
  assert.deepEqual(mountsBelow(staging), []);
  assert.deepEqual(loopsBelow(running.poolPath('main')), []);
  assert.deepEqual(existsSync(staging) ? readdirSync(staging) : [], []);
}

/** The RPCs of a life; the other ones of each version have tests of their own below. */
const CALLED: Record<OldVersion, readonly string[]> = {
  '0.3': [
    ...['CreateVolume', 'ControllerPublishVolume', 'NodeStageVolume', 'NodePublishVolume'],
    ...['CreateSnapshot', 'NodeUnpublishVolume', 'NodeUnstageVolume'],
    ...['ControllerUnpublishVolume', 'DeleteVolume', 'DeleteSnapshot'],
  ],
  '0.1': [
    ...['CreateVolume', 'ControllerPublishVolume', 'NodePublishVolume'],
    ...['NodeUnpublishVolume', 'ControllerUnpublishVolume', 'DeleteVolume'],
  ],
};

for (const version of ['0.3', '0.1'] as const) {
  for (const access of ['mount', 'block'] as Access[]) {
    test(`CSI ${version}: the life of a ${access} volume, every call twice with the same answer`, async () => {
      const life = new LegacyLife(running.workspace, () => clientOf(version), access);
      const called = life.steps.filter(({ isRpc }) => isRpc).map(({ name }) => name);
      assert.deepEqual([...new Set(called)], CALLED[version]);
      for (const { name, isRpc, run } of life.steps) {
        const answer = await run();
        if (isRpc) assert.deepEqual(await run(), answer, name);
      }
      assertNothingLeft();
    });
  }
}

test('CSI 0.3 tells who the plugin and the node are, and what they can', async () => {
  const client = clientOf('0.3');
  const v1 = running.client;
  const info = await v1.identity.GetPluginInfo({});
  assert.deepEqual(await repeated(client, 'GetPluginInfo'), info);
  assert.deepEqual(await repeated(client, 'Probe'), { ready: { value: true } });
  const plugin = await repeated(client, 'GetPluginCapabilities');
  assert.deepEqual(
    plugin['capabilities'].map(({ service }: Message) => service.type),
    ['CONTROLLER_SERVICE', 'ACCESSIBILITY_CONSTRAINTS'],
  );
  assert.deepEqual(typesOf(await repeated(client, 'ControllerGetCapabilities')), [
    'CREATE_DELETE_VOLUME',
    'PUBLISH_UNPUBLISH_VOLUME',
    'LIST_VOLUMES',
    'GET_CAPACITY',
    'CREATE_DELETE_SNAPSHOT',
    'LIST_SNAPSHOTS',
  ]);
  assert.deepEqual(typesOf(await repeated(client, 'NodeGetCapabilities')), [
    'STAGE_UNSTAGE_VOLUME',
  ]);
  const node = await v1.node.NodeGetInfo({});
  assert.deepEqual(await repeated(client, 'NodeGetInfo'), node);
  assert.deepEqual(await repeated(client, 'NodeGetId'), { node_id: node['node_id'] });
  await assertSameCapacity(client);
});

test('CSI 0.1 tells who the plugin and the node are, and what they can', async () => {
  const client = clientOf('0.1');
  const v1 = running.client;
  assert.deepEqual(await repeated(client, 'GetSupportedVersions'), {
    supported_versions: [{ major: 0, minor: 1, patch: 0 }],
  });
  assert.deepEqual(await repeated(client, 'GetPluginInfo'), await v1.identity.GetPluginInfo({}));
  assert.deepEqual(typesOf(await repeated(client, 'ControllerGetCapabilities')), [
    'CREATE_DELETE_VOLUME',
    'PUBLISH_UNPUBLISH_VOLUME',
    'LIST_VOLUMES',
    'GET_CAPACITY',
  ]);
  assert.deepEqual(typesOf(await repeated(client, 'NodeGetCapabilities')), []);
  const { node_id } = await v1.node.NodeGetInfo({});
  assert.deepEqual(await repeated(client, 'GetNodeID'), { node_id });
  await assertSameCapacity(client);
});

/** Called twice, with the same answer. */
async function repeated(client: LegacyClient, rpc: string): Promise<Message> {
  const answer = await client.call(rpc);
  assert.deepEqual(await client.call(rpc), answer, rpc);
  return answer;
}

function typesOf({ capabilities }: Message): string[] {
  return capabilities.map(({ rpc }: Message) => rpc.type);
}

async function assertSameCapacity(client: LegacyClient): Promise<void> {
  const { available_capacity } = await running.client.controller.GetCapacity({});
  assert.deepEqual(await repeated(client, 'GetCapacity'), { available_capacity });
}

test('a snapshot has the creation time of v1, in nanoseconds', async () => {
  const { orchestrator, client } = running;
  const volume = await orchestrator.create('for-time', { sizeBytes: MIB });
  const id = await orchestrator.snapshot(volume, 'time');
  const { entries } = await client.controller.ListSnapshots({ snapshot_id: id });
  const { seconds, nanos } = entries[0].snapshot.creation_time;
  const old = await clientOf('0.3').call('ListSnapshots', { snapshot_id: id });
  const expected = BigInt(seconds) * 1_000_000_000n + BigInt(nanos);
  assert.equal(BigInt(old['entries'][0].snapshot.created_at), expected);
  await orchestrator.deleteSnapshot(id);
  await orchestrator.delete(volume);
});

const VERSIONS = ['v1', '0.3', '0.1'] as const;
type Version = (typeof VERSIONS)[number];

const CAPABILITIES: Record<Access, Message> = {
  mount: mountCapability('ext4'),
  block: blockCapability(),
};

function pathsOf(id: string, access: Access): { target: string; staged: string } {
  const target = running.workspace.path('old', id, 'target');
  const staged = running.workspace.path('old', id, 'staged');
  mkdirSync(staged, { recursive: true });
  if (access === 'mount') mkdirSync(target, { recursive: true });
  else if (!existsSync(target)) writeFileSync(target, '');
  return { target, staged };
}

function call(version: Version, rpc: string, request: Message): Promise<Message> {
  if (version !== 'v1') return clientOf(version).call(rpc, request);
  const { node, controller } = running.client;
  const service: Record<string, (request: Message) => Promise<Message>> = rpc.startsWith('Node')
    ? node
    : controller;
  return service[rpc]?.(request) ?? assert.fail(rpc);
}

/** The id of the volume of a response, as that version calls it. */
const idIn = ({ volume, volume_info }: Message): string =>
  volume_info?.id ?? volume.volume_id ?? volume.id;

async function create(version: Version, name: string, access: Access): Promise<string> {
  const capacity_range = { required_bytes: String(48 * MIB) };
  const volume_capabilities = [CAPABILITIES[access]];
  return idIn(await call(version, 'CreateVolume', { name, capacity_range, volume_capabilities }));
}

const idsOver = async (version: Version): Promise<string[]> =>
  (await call(version, 'ListVolumes', {}))['entries'].map(idIn);

/** Returns where the content is. */
async function publish(version: Version, volume_id: string, access: Access): Promise<string> {
  const { target, staged } = pathsOf(volume_id, access);
  const staging = version === '0.1' ? {} : { staging_target_path: staged };
  const use = { volume_id, volume_capability: CAPABILITIES[access], ...staging };
  if (version !== '0.1') await call(version, 'NodeStageVolume', use);
  await call(version, 'NodePublishVolume', { ...use, target_path: target });
  return access === 'mount' ? join(target, 'file') : target;
}

async function release(version: Version, volume_id: string, access: Access): Promise<void> {
  const { target, staged } = pathsOf(volume_id, access);
  await call(version, 'NodeUnpublishVolume', { volume_id, target_path: target });
  if (version === '0.1') return;
  await call(version, 'NodeUnstageVolume', { volume_id, staging_target_path: staged });
}

for (const access of ['mount', 'block'] as Access[]) {
  for (const maker of VERSIONS) {
    test(`a ${access} volume made over ${maker} is seen and used over every version, with the same content`, async () => {
      const id = await create(maker, `shared-${access}-${maker}`, access);
      let text = '';
      for (const user of VERSIONS) {
        assert.ok((await idsOver(user)).includes(id), user);
        const place = await publish(user, id, access);
        if (text !== '') assert.equal(startOf(place, text.length), text, user);
        text = `written over ${user}`;
        writeFileSync(place, text, { flag: access === 'mount' ? 'w' : 'r+', flush: true });
        await release(user, id, access);
      }
      // Deleted over another version than it was made over.
      await call(maker === '0.1' ? 'v1' : '0.1', 'DeleteVolume', { volume_id: id });
      for (const user of VERSIONS) assert.ok(!(await idsOver(user)).includes(id));
      assertNothingLeft();
    });
  }
}

function startOf(place: string, length: number): string {
  const file = openSync(place, 'r');
  try {
    const bytes = Buffer.alloc(length);
    readSync(file, bytes, 0, length, 0);
    return bytes.toString();
  } finally {
    closeSync(file);
  }
}

test('CSI 0.1: a volume is staged until the last of its targets is unpublished', async () => {
  // Only v1 has a mode for several targets, so the second one is published over v1.
  const { node } = running.client;
  const several = { ...CAPABILITIES.mount, access_mode: { mode: 'SINGLE_NODE_MULTI_WRITER' } };
  const id = await create('v1', 'two-targets', 'mount');
  const staged = join(staging, id);
  mkdirSync(staged, { recursive: true });
  const use = { volume_id: id, staging_target_path: staged, volume_capability: several };
  await node.NodeStageVolume(use);
  const targets = ['first', 'second'].map((name) => running.workspace.path('old', id, name));
  for (const target_path of targets) {
    mkdirSync(target_path, { recursive: true });
    await node.NodePublishVolume({ ...use, target_path });
  }
  const [first, second] = targets;
  const unpublish = (target_path?: string) =>
    clientOf('0.1').call('NodeUnpublishVolume', { volume_id: id, target_path });
  await unpublish(first);
  assert.deepEqual(mountsBelow(staging), [staged]);
  assert.deepEqual(mountsBelow(running.workspace.path('old', id)), [second]);
  await unpublish(second);
  assertNothingLeft();
  await call('v1', 'DeleteVolume', { volume_id: id });
});
