/**
 * Volumes over CSI 0.3, 0.1 and v1, on real loop devices and mounts; the staging that 0.1 does not know; and that
 * none of it is loaded without the setting. What becomes of requests and answers: unit/legacy/translation.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { blockCapability, type Message, mountCapability } from '../../support/csi-client.js';
import { runLegacyPlugin } from '../../support/legacy-fixture.js';
import { isNightly } from '../../support/nightly.js';
import { MIB } from '../../support/orchestrator.js';
import { Plugin } from '../../support/plugin.js';
import { RawConnection } from '../../support/raw-call.js';
import { refused, statusOf } from '../../support/refusal.js';
import { test } from '../../support/running-plugin.js';
import { loopsBelow, mountsBelow, Workspace } from '../../support/workspace.js';

const { running, staging, clientOf } = runLegacyPlugin('legacy-life');

const VERSIONS = ['v1', '0.3', '0.1'] as const;
type Version = (typeof VERSIONS)[number];
const CAPABILITIES = { mount: mountCapability('ext4'), block: blockCapability() } as const;
type Access = keyof typeof CAPABILITIES;
const READ_ONLY = { ...CAPABILITIES.mount, access_mode: { mode: 'SINGLE_NODE_READER_ONLY' } };

function call(version: Version, rpc: string, request: Message): Promise<Message> {
  if (version !== 'v1') return clientOf(version).call(rpc, request);
  const { node, controller } = running.client;
  const service: Record<string, (request: Message) => Promise<Message>> = rpc.startsWith('Node') ? node : controller;
  return service[rpc]?.(request) ?? assert.fail(rpc);
}

/** Every call can be repeated, and answers the same. */
async function twice(version: Version, rpc: string, request: Message): Promise<Message> {
  const answer = await call(version, rpc, request);
  assert.deepEqual(await call(version, rpc, request), answer, `${rpc} over ${version}`);
  return answer;
}

/** The id of the volume of a response, as that version calls it. */
const idIn = ({ volume, volume_info }: Message): string => volume_info?.id ?? volume.volume_id ?? volume.id;

async function create(version: Version, name: string, more: Message = {}): Promise<string> {
  const capacity_range = { required_bytes: String(48 * MIB) };
  const volume_capabilities = [CAPABILITIES.mount];
  return idIn(await twice(version, 'CreateVolume', { name, capacity_range, volume_capabilities, ...more }));
}

const idsOver = async (version: Version): Promise<string[]> =>
  (await call(version, 'ListVolumes', {}))['entries'].map(idIn);

/** Before v1 the orchestrator makes the target, and keeps it. */
function pathsOf(id: string, access: Access, name = 'target') {
  const target_path = running.workspace.path('old', id, name);
  const staging_target_path = running.workspace.path('old', id, 'staged');
  mkdirSync(staging_target_path, { recursive: true });
  if (access === 'mount') mkdirSync(target_path, { recursive: true });
  else if (!existsSync(target_path)) writeFileSync(target_path, '');
  return { target_path, staging_target_path };
}

/** Returns where the content is. */
async function publish(version: Version, volume_id: string, access: Access): Promise<string> {
  const { target_path, staging_target_path } = pathsOf(volume_id, access);
  const use = { volume_id, volume_capability: CAPABILITIES[access], node_id: 'test-node' };
  const staged = version === '0.1' ? use : { ...use, staging_target_path };
  await twice(version, 'ControllerPublishVolume', use);
  if (version !== '0.1') await twice(version, 'NodeStageVolume', staged);
  await twice(version, 'NodePublishVolume', { ...staged, target_path });
  return access === 'mount' ? join(target_path, 'file') : target_path;
}

async function release(version: Version, volume_id: string, access: Access): Promise<void> {
  const { target_path, staging_target_path } = pathsOf(volume_id, access);
  await twice(version, 'NodeUnpublishVolume', { volume_id, target_path });
  if (version !== 'v1') {
    if (access === 'mount') assert.deepEqual(readdirSync(target_path), []);
    else assert.ok(statSync(target_path).isFile() && statSync(target_path).size === 0);
  }
  if (version !== '0.1') {
    await twice(version, 'NodeUnstageVolume', { volume_id, staging_target_path });
  }
  await twice(version, 'ControllerUnpublishVolume', { volume_id, node_id: 'test-node' });
}

const remove = (version: Version, volume_id: string) => twice(version, 'DeleteVolume', { volume_id });

const inStaging = (): string[] => (existsSync(staging) ? readdirSync(staging) : []);

/** Nothing of a volume is left but the pool's own device and mount. */
function assertNothingLeft(): void {
  assert.deepEqual(mountsBelow(running.workspace.path('old')), []);
  assert.deepEqual(mountsBelow(staging), []);
  assert.deepEqual(loopsBelow(running.poolPath('main')), []);
  assert.deepEqual(inStaging(), []);
}

const write = (place: string, text: string, access: Access): void =>
  writeFileSync(place, text, { flag: access === 'mount' ? 'w' : 'r+', flush: true });
const read = (place: string, length: number): string => readFileSync(place).subarray(0, length).toString();

const PLAIN_MAKERS = { mount: 'v1', block: '0.1' } as const;

for (const access of ['mount', 'block'] as const) {
  for (const maker of isNightly ? VERSIONS : [PLAIN_MAKERS[access]]) {
    test(`a ${access} volume made over ${maker} is used over every version, with the same content, and each call can be repeated`, async () => {
      const volume_capabilities = [CAPABILITIES[access]];
      const id = await create(maker, `${access}-${maker}`, { volume_capabilities });
      let text = '';
      for (const user of VERSIONS) {
        assert.ok((await idsOver(user)).includes(id), user);
        const place = await publish(user, id, access);
        if (text !== '') assert.equal(read(place, text.length), text, user);
        text = `written over ${user}`;
        write(place, text, access);
        await release(user, id, access);
      }
      // Deleted over another version than it was made over.
      await remove(maker === '0.1' ? 'v1' : '0.1', id);
      for (const user of VERSIONS) assert.ok(!(await idsOver(user)).includes(id));
      assertNothingLeft();
    });
  }

  test(`CSI 0.3: a ${access} volume restored from a snapshot has its content`, async () => {
    const volume_capabilities = [CAPABILITIES[access]];
    const source = await create('0.3', `source-${access}`, { volume_capabilities });
    const place = await publish('0.3', source, access);
    write(place, 'before', access);
    const request = { source_volume_id: source, name: access };
    const { snapshot } = await twice('0.3', 'CreateSnapshot', request);
    write(place, 'after!', access);
    const restored = await create('0.3', `restored-${access}`, {
      volume_capabilities,
      volume_content_source: { snapshot: { id: snapshot.id } },
    });
    assert.equal(read(await publish('0.3', restored, access), 6), 'before');
    for (const id of [restored, source]) {
      await release('0.3', id, access);
      await remove('0.3', id);
    }
    await twice('0.3', 'DeleteSnapshot', { snapshot_id: snapshot.id });
    assertNothingLeft();
  });
}

test('CSI 0.1: a volume is published once, in one way, and a failed publication leaves nothing staged', async () => {
  const volume_id = await create('0.1', 'rules');
  const { target_path } = pathsOf(volume_id, 'mount');
  const use = { volume_id, target_path, volume_capability: CAPABILITIES.mount };
  const refusal = async (fields: Message, ...how: [Parameters<typeof refused>[1], RegExp?]) =>
    refused(call('0.1', 'NodePublishVolume', { ...use, ...fields }), ...how);
  for (const id of [volume_id.replace(/.{12}$/, '000000000000'), '../..']) {
    await refusal({ volume_id: id }, 'NOT_FOUND');
  }
  await refusal({ target_path: '' }, 'INVALID_ARGUMENT', /target_path/);
  const nowhere = running.workspace.path('old', 'no', 'parent');
  await refusal({ target_path: nowhere }, 'FAILED_PRECONDITION', /parent directory/);
  assert.deepEqual(inStaging(), []);
  await publish('0.1', volume_id, 'mount');
  await refusal({ readonly: true }, 'ALREADY_EXISTS');
  const second = pathsOf(volume_id, 'mount', 'second').target_path;
  for (const volume_capability of [CAPABILITIES.mount, READ_ONLY]) {
    await refusal({ target_path: second, volume_capability }, 'FAILED_PRECONDITION');
  }
  assert.deepEqual(mountsBelow(running.workspace.path('old', volume_id)), [target_path]);
  const inUse = call('0.1', 'DeleteVolume', { volume_id });
  await refused(inUse, 'FAILED_PRECONDITION');
  await release('0.1', volume_id, 'mount');
  await remove('0.1', volume_id);
  await call('0.1', 'NodeUnpublishVolume', { volume_id, target_path });
});

test('CSI 0.1: a volume is staged until the last of its targets is unpublished', async () => {
  // Only v1 has a mode for several targets, so the second one is published over v1.
  const { node } = running.client;
  const several = { ...CAPABILITIES.mount, access_mode: { mode: 'SINGLE_NODE_MULTI_WRITER' } };
  const id = await create('v1', 'two-targets');
  const staged = join(staging, id);
  mkdirSync(staged, { recursive: true });
  const use = { volume_id: id, staging_target_path: staged, volume_capability: several };
  await node.NodeStageVolume(use);
  const targets = ['first', 'second'].map((name) => pathsOf(id, 'mount', name).target_path);
  for (const target_path of targets) await node.NodePublishVolume({ ...use, target_path });
  const unpublish = (target_path?: string) => call('0.1', 'NodeUnpublishVolume', { volume_id: id, target_path });
  await unpublish(targets[0]);
  assert.deepEqual(mountsBelow(staging), [staged]);
  assert.deepEqual(mountsBelow(running.workspace.path('old', id)), [targets[1]]);
  await unpublish(targets[1]);
  assertNothingLeft();
  await remove('v1', id);
});

test('CSI 0.1: calls that come at once leave a volume published or not, and nothing else', async () => {
  const volume_id = await create('0.1', 'at-once');
  const { target_path } = pathsOf(volume_id, 'mount');
  const fields = { volume_id, target_path, volume_capability: CAPABILITIES.mount };
  for (let round = 0; round < 5; round += 1) {
    for (const rpc of ['NodePublishVolume', 'NodeUnpublishVolume']) {
      const request = rpc === 'NodePublishVolume' ? fields : { volume_id, target_path };
      const calls = [1, 2, 3].map(() => statusOf(call('0.1', rpc, request)));
      for (const status of await Promise.all(calls)) {
        // Or what a call finds between two steps of another one.
        assert.ok(['OK', 'ABORTED', 'FAILED_PRECONDITION'].includes(status), status);
      }
      await call('0.1', rpc, request);
      const mounted = rpc === 'NodePublishVolume' ? [target_path] : [];
      assert.deepEqual(mountsBelow(running.workspace.path('old', volume_id)), mounted);
    }
    assert.deepEqual(readdirSync(staging), []);
  }
  await remove('0.1', volume_id);
});

test('the old services are UNIMPLEMENTED without the setting, and what loads their protos is not loaded', async (t) => {
  const workspace = new Workspace('legacy-off');
  t.after(() => workspace.dispose());
  const coverage = workspace.path('coverage');
  mkdirSync(coverage);
  const plugin = await Plugin.start(workspace, { env: { NODE_V8_COVERAGE: coverage } });
  t.after(() => plugin.kill());
  const connection = new RawConnection(plugin.endpoint);
  for (const path of ['/csi.v0.Identity/GetPluginInfo', '/csi.Identity/GetSupportedVersions']) {
    await refused(connection.unary(path, Buffer.alloc(0)), 'UNIMPLEMENTED');
  }
  connection.close();
  assert.equal(await plugin.stop(), 0);
  const loaded = readdirSync(coverage).flatMap((name) => sourcesIn(join(coverage, name)));
  assert.ok(loaded.some((path) => path.endsWith('src/server/server.ts')));
  assert.deepEqual(
    loaded.filter((path) => path.includes('src/driver/legacy/')),
    [],
  );
});

/** What the files are compiled from that a process has loaded. */
function sourcesIn(coverage: string): string[] {
  const counts = JSON.parse(readFileSync(coverage, 'utf8')) as {
    'source-map-cache'?: Record<string, { data: { sources: string[] } | null }>;
  };
  return Object.values(counts['source-map-cache'] ?? {}).flatMap(({ data }) => data?.sources ?? []);
}
