/** The conditions and codes of the documents of CSI 0.3 and 0.1, row by row of docs/legacy.md. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { StatusName } from '../../src/base/errors.js';
import { type Message, mountCapability, probeFails } from '../support/csi-client.js';
import { rejectsWith } from '../support/expect-status.js';
import type { OldVersion } from '../support/legacy-client.js';
import { runLegacyPlugin } from '../support/legacy-fixture.js';
import { MIB } from '../support/orchestrator.js';
import { test } from '../support/running-plugin.js';
import { mountsBelow } from '../support/workspace.js';

const { running, staging, clientOf } = runLegacyPlugin('legacy-rules');

/** As the plugin's node would name it. */
const UNKNOWN_ID = 'vol-562f2833d589-00000000-0000-4000-8000-000000000000';
const capability = mountCapability('ext4');
const readOnly = { ...capability, access_mode: { mode: 'SINGLE_NODE_READER_ONLY' } };
const NODE_ID = 'test-node';

interface Caller {
  version: OldVersion;
  call(rpc: string, request: Message): Promise<Message>;
  refused(rpc: string, request: Message, status: StatusName, message?: RegExp): Promise<void>;
  create(name: string, request?: Message): Promise<string>;
}

/** A test of the same rule over both versions. */
function testBoth(title: string, run: (caller: Caller) => Promise<void>): void {
  for (const version of ['0.3', '0.1'] as const) {
    test(`CSI ${version}: ${title}`, () => run(callerOf(version)));
  }
}

function callerOf(version: OldVersion): Caller {
  const call = (rpc: string, request: Message): Promise<Message> =>
    clientOf(version).call(rpc, request);
  return {
    version,
    call,
    refused: (rpc, request, status, message) => rejectsWith(call(rpc, request), status, message),
    create: async (name, request = {}) => {
      const { volume, volume_info } = await call('CreateVolume', {
        ...created(`${name}-${version}`),
        ...request,
      });
      return (volume ?? volume_info).id;
    },
  };
}

function created(name: string, bytes = 48 * MIB): Message {
  const capacity_range = { required_bytes: String(bytes), limit_bytes: String(bytes) };
  return { name, capacity_range, volume_capabilities: [capability] };
}

/** A target, and a staging directory for 0.3, that the orchestrator has made. */
function pathsOf(id: string, name = 'target'): { target: string; staged: string } {
  const target = running.workspace.path('old', id, name);
  const staged = running.workspace.path('old', id, 'staged');
  for (const path of [target, staged]) mkdirSync(path, { recursive: true });
  return { target, staged };
}

testBoth(
  'CreateVolume with a name that exists and other arguments is ALREADY_EXISTS',
  async (caller) => {
    const id = await caller.create('twice');
    assert.equal(await caller.create('twice'), id);
    const larger = created(`twice-${caller.version}`, 96 * MIB);
    await caller.refused('CreateVolume', larger, 'ALREADY_EXISTS', /capacity/);
    await caller.call('DeleteVolume', { volume_id: id });
  },
);

testBoth('CreateVolume without a name or capabilities is INVALID_ARGUMENT', async ({ refused }) => {
  await refused('CreateVolume', { ...created('x'), name: '' }, 'INVALID_ARGUMENT', /name/);
  const none = { ...created('x'), volume_capabilities: [] };
  await refused('CreateVolume', none, 'INVALID_ARGUMENT', /volume_capabilities/);
});

testBoth('CreateVolume with a mode that only v1 has is INVALID_ARGUMENT', async ({ refused }) => {
  const several = { ...capability, access_mode: { mode: 7 } };
  const request = { ...created('mode'), volume_capabilities: [capability, several] };
  const message = /volume_capabilities\[1\]\.access_mode\.mode 7 is not known/;
  await refused('CreateVolume', request, 'INVALID_ARGUMENT', message);
});

testBoth('CreateVolume of a size that cannot be is OUT_OF_RANGE', async ({ refused }) => {
  await refused('CreateVolume', created('huge', 2 ** 60), 'OUT_OF_RANGE');
});

test('CSI 0.1: CreateVolume takes unsigned sizes, of which the largest are out of range', async () => {
  const { refused, create, call } = callerOf('0.1');
  const huge = { required_bytes: '9223372036854775808' };
  await refused(
    'CreateVolume',
    { ...created('u'), capacity_range: huge },
    'OUT_OF_RANGE',
    /required/,
  );
  const unlimited = { required_bytes: String(48 * MIB), limit_bytes: '18446744073709551615' };
  await call('DeleteVolume', { volume_id: await create('u', { capacity_range: unlimited }) });
});

test('CSI 0.3: CreateVolume from nothing is INVALID_ARGUMENT, and from an unknown snapshot NOT_FOUND', async () => {
  const { refused } = callerOf('0.3');
  const from = (volume_content_source: Message) => ({ ...created('from'), volume_content_source });
  await refused('CreateVolume', from({}), 'INVALID_ARGUMENT', /volume_content_source/);
  const empty = /names in csi\.v0: .*snapshot_id is volume_content_source\.snapshot\.id/;
  await refused('CreateVolume', from({ snapshot: {} }), 'INVALID_ARGUMENT', empty);
  const unknown = { snapshot: { id: UNKNOWN_ID.replace('vol', 'snap') } };
  await refused('CreateVolume', from(unknown), 'NOT_FOUND');
});

testBoth(
  'DeleteVolume of an unknown volume is OK, and of one in use FAILED_PRECONDITION',
  async (caller) => {
    const { call, refused, create, version } = caller;
    for (const volume_id of [UNKNOWN_ID, '../../etc', 'x'])
      await call('DeleteVolume', { volume_id });
    await refused('DeleteVolume', { volume_id: '' }, 'INVALID_ARGUMENT', /volume_id/);
    const volume_id = await create('in-use');
    await publish(caller, volume_id);
    await refused('DeleteVolume', { volume_id }, 'FAILED_PRECONDITION');
    await release(caller, volume_id);
    await call('DeleteVolume', { volume_id });
    const secrets = version === '0.3' ? 'controller_delete_secrets' : 'user_credentials';
    const wrong = { volume_id, [secrets]: { 'no key': 'x' } };
    await refused('DeleteVolume', wrong, 'INVALID_ARGUMENT', new RegExp(`secrets is ${secrets}`));
  },
);

async function publish({ version, call }: Caller, volume_id: string): Promise<void> {
  const { target: target_path, staged: staging_target_path } = pathsOf(volume_id);
  const use = {
    ...{ volume_id, volume_capability: capability },
    ...(version === '0.3' ? { staging_target_path } : {}),
  };
  if (version === '0.3') await call('NodeStageVolume', use);
  await call('NodePublishVolume', { ...use, target_path });
}

async function release({ version, call }: Caller, volume_id: string): Promise<void> {
  const { target: target_path, staged: staging_target_path } = pathsOf(volume_id);
  await call('NodeUnpublishVolume', { volume_id, target_path });
  if (version === '0.3') await call('NodeUnstageVolume', { volume_id, staging_target_path });
}

testBoth(
  'ControllerPublishVolume and ControllerUnpublishVolume keep the rules of v1',
  async (caller) => {
    const { call, refused, create, version } = caller;
    const volume_id = await create('published');
    const request = { volume_id, node_id: NODE_ID, volume_capability: capability };
    const info = version === '0.3' ? 'publish_info' : 'publish_volume_info';
    assert.deepEqual(await call('ControllerPublishVolume', request), { [info]: {} });
    const other = { ...request, readonly: true };
    await refused('ControllerPublishVolume', other, 'ALREADY_EXISTS', /readonly/);
    const elsewhere = { ...request, node_id: 'nowhere' };
    await refused('ControllerPublishVolume', elsewhere, 'NOT_FOUND', /node_id/);
    const unknown = { ...request, volume_id: UNKNOWN_ID };
    await refused('ControllerPublishVolume', unknown, 'NOT_FOUND');
    const attributes = { ...request, volume_attributes: { own: 'key' } };
    const message = /volume_context is volume_attributes/;
    await refused('ControllerPublishVolume', attributes, 'INVALID_ARGUMENT', message);
    for (const node_id of ['', NODE_ID]) {
      await call('ControllerUnpublishVolume', { volume_id, node_id });
      await call('ControllerUnpublishVolume', { volume_id: UNKNOWN_ID, node_id });
    }
    await call('DeleteVolume', { volume_id });
  },
);

testBoth(
  'ValidateVolumeCapabilities says whether and why not',
  async ({ call, refused, create }) => {
    const volume_id = await create('validated');
    const validate = (fields: Message) =>
      call('ValidateVolumeCapabilities', {
        volume_id,
        volume_capabilities: [capability],
        ...fields,
      });
    assert.deepEqual(await validate({}), { supported: true, message: '' });
    const many = { ...capability, access_mode: { mode: 'MULTI_NODE_MULTI_WRITER' } };
    const no = await validate({ volume_capabilities: [capability, many] });
    assert.equal(no['supported'], false);
    assert.match(no['message'], /MULTI_NODE_MULTI_WRITER/);
    const attributes = await validate({ volume_attributes: { own: 'key' } });
    assert.equal(attributes['supported'], false);
    const unknown = { volume_id: UNKNOWN_ID, volume_capabilities: [capability] };
    await refused('ValidateVolumeCapabilities', unknown, 'NOT_FOUND');
    const none = { volume_id, volume_capabilities: [] };
    await refused('ValidateVolumeCapabilities', none, 'INVALID_ARGUMENT', /volume_capabilities/);
    await call('DeleteVolume', { volume_id });
  },
);

test('CSI 0.3: ValidateVolumeCapabilities compares every topology with the place of the volume', async () => {
  const { call, refused, create } = callerOf('0.3');
  const volume_id = await create('placed');
  const here = { segments: { 'blockdelta.csi/node': NODE_ID } };
  const validate = async (accessible_topology: Message[]) => {
    const request = { volume_id, volume_capabilities: [capability], accessible_topology };
    return (await call('ValidateVolumeCapabilities', request))['supported'];
  };
  assert.equal(await validate([here]), true);
  assert.equal(await validate([here, { segments: { 'blockdelta.csi/node': 'other' } }]), false);
  assert.equal(await validate([{ segments: { zone: 'a' } }]), false);
  const wrong = {
    ...{ volume_id, volume_capabilities: [capability] },
    accessible_topology: [{ segments: { 'no key': 'a' } }],
  };
  const message = /accessible_topology\[0\]/;
  await refused('ValidateVolumeCapabilities', wrong, 'INVALID_ARGUMENT', message);
  await call('DeleteVolume', { volume_id });
});

testBoth(
  'ListVolumes goes through pages, and a token that is not valid is ABORTED',
  async (caller) => {
    const { call, refused, create, version } = caller;
    const ids = [await create('a'), await create('b'), await create('c')];
    const found: string[] = [];
    let starting_token = '';
    do {
      const page = await call('ListVolumes', { max_entries: 2, starting_token });
      for (const { volume, volume_info } of page['entries']) found.push((volume ?? volume_info).id);
      assert.ok(page['entries'].length <= 2);
      starting_token = page['next_token'];
    } while (starting_token !== '');
    assert.deepEqual(found.sort(), ids.sort());
    await refused('ListVolumes', { starting_token: 'wrong' }, 'ABORTED', /starting_token/);
    if (version === '0.3') await refused('ListVolumes', { max_entries: -1 }, 'INVALID_ARGUMENT');
    else
      assert.equal((await call('ListVolumes', { max_entries: 2 ** 32 - 1 }))['entries'].length, 3);
    for (const volume_id of ids) await call('DeleteVolume', { volume_id });
  },
);

test('CSI 0.3: CreateSnapshot, ListSnapshots and DeleteSnapshot keep the rules of v1', async () => {
  const { call, refused, create } = callerOf('0.3');
  const [first, second] = [await create('first'), await create('second')];
  const { snapshot } = await call('CreateSnapshot', { source_volume_id: first, name: 'cut' });
  const other = { source_volume_id: second, name: 'cut' };
  await refused('CreateSnapshot', other, 'ALREADY_EXISTS');
  const unknown = { source_volume_id: UNKNOWN_ID, name: 'of nothing' };
  await refused('CreateSnapshot', unknown, 'NOT_FOUND');
  const parameters = { ...other, name: 'p', parameters: { some: 'thing' } };
  await refused('CreateSnapshot', parameters, 'INVALID_ARGUMENT', /parameters/);
  const ids = async (filter: Message) =>
    (await call('ListSnapshots', filter))['entries'].map((entry: Message) => entry['snapshot'].id);
  assert.deepEqual(await ids({ snapshot_id: snapshot.id }), [snapshot.id]);
  assert.deepEqual(await ids({ source_volume_id: first }), [snapshot.id]);
  assert.deepEqual(await ids({ source_volume_id: second }), []);
  await refused('ListSnapshots', { starting_token: 'wrong' }, 'ABORTED', /starting_token/);
  await call('DeleteSnapshot', { snapshot_id: snapshot.id });
  await call('DeleteSnapshot', { snapshot_id: snapshot.id });
  await call('DeleteSnapshot', { snapshot_id: 'never was' });
  assert.deepEqual(await ids({}), []);
  for (const volume_id of [first, second]) await call('DeleteVolume', { volume_id });
});

test('CSI 0.3: NodeStageVolume, NodePublishVolume and NodeUnstageVolume keep the rules of v1', async () => {
  const caller = callerOf('0.3');
  const { call, refused, create } = caller;
  const volume_id = await create('staged');
  const { target: target_path, staged: staging_target_path } = pathsOf(volume_id);
  const use = { volume_id, staging_target_path, volume_capability: capability };
  await refused('NodeStageVolume', { ...use, volume_id: UNKNOWN_ID }, 'NOT_FOUND');
  const unstaged = { ...use, staging_target_path: '', target_path };
  await refused('NodePublishVolume', unstaged, 'FAILED_PRECONDITION', /staging_target_path/);
  await refused('NodePublishVolume', { ...use, target_path }, 'FAILED_PRECONDITION', /staged/);
  await publish(caller, volume_id);
  const other = { ...use, volume_capability: readOnly };
  await refused('NodeStageVolume', other, 'ALREADY_EXISTS', /volume_capability/);
  await refused('NodePublishVolume', { ...use, target_path, readonly: true }, 'ALREADY_EXISTS');
  const { target: second } = pathsOf(volume_id, 'second');
  await refused('NodePublishVolume', { ...use, target_path: second }, 'FAILED_PRECONDITION');
  const staged = { volume_id, staging_target_path };
  await refused('NodeUnstageVolume', staged, 'FAILED_PRECONDITION', /published/);
  await release(caller, volume_id);
  await call('NodeUnstageVolume', staged);
  await call('DeleteVolume', { volume_id });
});

test('CSI 0.1: the version is judged before anything else, by every RPC but GetSupportedVersions', async () => {
  const client = clientOf('0.1');
  const wrong = [
    null,
    {},
    { minor: 2 },
    { major: 1 },
    { minor: 1, patch: 1 },
    { major: 1, minor: 12 },
  ];
  const rpcs = client.rpcs.filter((rpc) => rpc !== 'GetSupportedVersions');
  assert.equal(rpcs.length, 15);
  for (const rpc of rpcs) {
    for (const version of wrong) {
      await rejectsWith(client.call(rpc, { version }), 'INVALID_ARGUMENT', /^[^v]*version/);
    }
  }
});

test('CSI 0.1: ControllerProbe and NodeProbe are OK while the plugin works', async () => {
  const { call } = callerOf('0.1');
  assert.deepEqual(await call('ControllerProbe', {}), {});
  assert.deepEqual(await call('NodeProbe', {}), {});
});

test('CSI 0.1: NodePublishVolume and NodeUnpublishVolume keep the rules of v1', async () => {
  const caller = callerOf('0.1');
  const { call, refused, create } = caller;
  const volume_id = await create('node');
  const { target: target_path } = pathsOf(volume_id);
  const use = { volume_id, target_path, volume_capability: capability };
  await refused('NodePublishVolume', { ...use, volume_id: UNKNOWN_ID }, 'NOT_FOUND');
  await refused('NodePublishVolume', { ...use, volume_id: '../..' }, 'NOT_FOUND');
  await refused(
    'NodePublishVolume',
    { ...use, target_path: '' },
    'INVALID_ARGUMENT',
    /target_path/,
  );
  await publish(caller, volume_id);
  await publish(caller, volume_id);
  await refused('NodePublishVolume', { ...use, readonly: true }, 'ALREADY_EXISTS');
  const { target: second } = pathsOf(volume_id, 'second');
  for (const volume_capability of [capability, readOnly]) {
    const elsewhere = { ...use, target_path: second, volume_capability };
    await refused('NodePublishVolume', elsewhere, 'FAILED_PRECONDITION');
  }
  assert.deepEqual(mountsBelow(running.workspace.path('old', volume_id)), [target_path]);
  const credentials = { 'no key': 'x' };
  const wrong = { volume_id, target_path, user_credentials: credentials };
  await refused('NodeUnpublishVolume', wrong, 'INVALID_ARGUMENT', /user_credentials/);
  await release(caller, volume_id);
  await release(caller, volume_id);
  await call('NodeUnpublishVolume', { volume_id: UNKNOWN_ID, target_path });
  await call('DeleteVolume', { volume_id });
});

test('CSI 0.1: calls that come at once leave a volume published or not, and nothing else', async () => {
  const { call, create } = callerOf('0.1');
  const volume_id = await create('at-once');
  const { target: target_path } = pathsOf(volume_id);
  const use = { volume_id, target_path, volume_capability: capability };
  const codes = async (calls: Promise<Message>[]) => {
    const ended = await Promise.allSettled(calls);
    return ended.map((each) => (each.status === 'fulfilled' ? 0 : each.reason.code));
  };
  for (let round = 0; round < 5; round += 1) {
    const publish = () => call('NodePublishVolume', use);
    const published = await codes([publish(), publish(), publish()]);
    // ABORTED, or what a call finds between two steps of another one.
    assert.ok(
      published.every((code) => [0, 9, 10].includes(code)),
      String(published),
    );
    await publish();
    assert.deepEqual(mountsBelow(running.workspace.path('old', volume_id)), [target_path]);
    const unpublish = () => call('NodeUnpublishVolume', { volume_id, target_path });
    const unpublished = await codes([unpublish(), unpublish(), unpublish()]);
    assert.ok(
      unpublished.every((code) => [0, 9, 10].includes(code)),
      String(unpublished),
    );
    await unpublish();
    assert.deepEqual(mountsBelow(running.workspace.path('old', volume_id)), []);
    assert.deepEqual(readdirSync(staging), []);
  }
  await call('DeleteVolume', { volume_id });
});

test('CSI 0.1: a publication that fails leaves nothing staged', async () => {
  const { call, refused, create } = callerOf('0.1');
  const volume_id = await create('fails');
  const nowhere = running.workspace.path('old', 'no', 'parent');
  const request = { volume_id, target_path: nowhere, volume_capability: capability };
  await refused('NodePublishVolume', request, 'FAILED_PRECONDITION', /parent directory/);
  assert.deepEqual(existsSync(staging) ? readdirSync(staging) : [], []);
  await call('DeleteVolume', { volume_id });
});

testBoth(
  'the probes are FAILED_PRECONDITION while the pool is away, and say why',
  async (caller) => {
    const { version, call, refused } = caller;
    const probes = version === '0.3' ? ['Probe'] : ['ControllerProbe', 'NodeProbe'];
    const pool = running.poolPath('main');
    execFileSync('umount', [pool]);
    await probeFails(running.client);
    for (const rpc of probes) await refused(rpc, {}, 'FAILED_PRECONDITION', /pool 'main'/);
    execFileSync('mount', ['-o', 'loop', running.workspace.path('xfs.img'), pool]);
    const works = (rpc: string): Promise<boolean> =>
      call(rpc, {}).then(
        () => true,
        () => false,
      );
    for (const rpc of probes) while (!(await works(rpc))) await delay(100);
  },
);
