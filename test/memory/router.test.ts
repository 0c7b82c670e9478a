/** The router before three nodes: where calls go, what becomes of lists, and what it says when it cannot. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, test } from 'node:test';
import { status } from '@grpc/grpc-js';
import { nodeKey, nodeKeyOf } from '../../src/base/csi/handles.js';
import { type NodeRpc, nodeMethod, nodeProto } from '../../src/base/csi/node-proto.js';
import { formatHostPort } from '../../src/base/settings/tls.js';
import type { Message } from '../support/csi-client.js';
import { eventually } from '../support/eventually.js';
import { FuzzRun } from '../support/fuzz-run.js';
import { loopbackAddress } from '../support/loopback.js';
import { runMemoryCluster } from '../support/memory-cluster.js';
import { isNightly } from '../support/nightly.js';
import { createRequest, MIB } from '../support/orchestrator.js';
import { seededRandom } from '../support/random.js';
import { RawConnection } from '../support/raw-call.js';
import { refused } from '../support/refusal.js';

const cluster = runMemoryCluster();
const TOPOLOGY_KEY = 'blockdelta.csi/node';

const on = (...ids: string[]): Message[] => ids.map((id) => ({ segments: { [TOPOLOGY_KEY]: id } }));

async function createVolume(name: string, fields: Message = {}): Promise<Message> {
  const request = { ...createRequest(name), ...fields };
  return (await cluster.client.controller.CreateVolume(request))['volume'] as Message;
}

const createOn = (id: string, name: string): Promise<Message> =>
  createVolume(name, { accessibility_requirements: { requisite: on(id) } });

/** Of ControllerGetVolume: OK, or the number of the code and the message. */
const answerOf = (volume_id: string): Promise<string> =>
  cluster.client.controller.ControllerGetVolume({ volume_id }).then(
    () => 'OK',
    ({ code, details }) => `${code} ${details}`,
  );

afterEach(async () => {
  const { controller } = cluster.client;
  for (const { volume } of (await controller.ListVolumes({}))['entries']) {
    await controller.DeleteVolume({ volume_id: volume.volume_id });
  }
});

const NODE_RPCS = Object.keys(nodeProto().services.Node) as NodeRpc[];

test('H40: what only routers may ask a node is not served on its socket', async (t) => {
  const direct = new RawConnection(cluster.node(0).plugin.endpoint);
  t.after(() => direct.close());
  assert.ok(NODE_RPCS.length >= 7);
  for (const rpc of NODE_RPCS) {
    const { requestSerialize, path } = nodeMethod(rpc);
    await refused(direct.unary(path, requestSerialize({})), 'UNIMPLEMENTED', /method/);
  }
});

test('a volume is made on the node of its topology, and every call for it goes there', async () => {
  const { controller } = cluster.client;
  for (const { id, plugin } of cluster.nodes) {
    const volume = await createOn(id, `life-${id}`);
    const volume_id = volume['volume_id'] as string;
    assert.equal(nodeKeyOf(volume_id), nodeKey(id));
    assert.deepEqual(volume['accessible_topology'], on(id));
    const direct = await plugin.client.controller.ControllerGetVolume({ volume_id });
    assert.deepEqual(await controller.ControllerGetVolume({ volume_id }), direct);
    const capacity_range = { required_bytes: 32 * MIB };
    const grown = await controller.ControllerExpandVolume({ volume_id, capacity_range });
    assert.equal(grown['capacity_bytes'], String(32 * MIB));
    const taken = { name: `snap-${id}`, source_volume_id: volume_id };
    const { snapshot_id } = (await controller.CreateSnapshot(taken))['snapshot'];
    const volume_content_source = { snapshot: { snapshot_id } };
    const copy = await createVolume(`copy-${id}`, { volume_content_source, capacity_range });
    assert.equal(nodeKeyOf(copy['volume_id']), nodeKey(id), 'the node of the source');
    await controller.DeleteVolume({ volume_id: copy['volume_id'] });
    await controller.DeleteSnapshot({ snapshot_id });
    await controller.DeleteVolume({ volume_id });
    await refused(controller.ControllerGetVolume({ volume_id }), 'NOT_FOUND');
  }
});

test('a source on a node that the topology excludes is RESOURCE_EXHAUSTED', async () => {
  const { volume_id } = await createOn('node-a', 'elsewhere-source');
  const elsewhere = createVolume('elsewhere', {
    volume_content_source: { volume: { volume_id } },
    accessibility_requirements: { requisite: on('node-b') },
  });
  await refused(elsewhere, 'RESOURCE_EXHAUSTED');
});

test('the first preferred topology is chosen, and a repeated CreateVolume finds the volume wherever it would be made now', async () => {
  const preferring = (...preferred: string[]): Message => ({
    accessibility_requirements: { requisite: on('node-a', 'node-b', 'node-c'), preferred: on(...preferred) },
  });
  const first = await createVolume('again', preferring('node-c', 'node-a', 'node-b'));
  assert.equal(nodeKeyOf(first['volume_id']), nodeKey('node-c'));
  assert.deepEqual(await createVolume('again', preferring('node-a')), first);
  assert.deepEqual(await createVolume('again'), first, 'also without a topology');
  const larger = createVolume('again', { capacity_range: { required_bytes: 64 * MIB } });
  await refused(larger, 'ALREADY_EXISTS');
});

test('the node with the most capacity is chosen without a topology, and a full one is passed over', async () => {
  await createVolume('filler', {
    accessibility_requirements: { requisite: on('node-a') },
    capacity_range: { required_bytes: 1500 * MIB },
  });
  const volume = await createVolume('roomy', { capacity_range: { required_bytes: 1000 * MIB } });
  assert.notEqual(nodeKeyOf(volume['volume_id']), nodeKey('node-a'));
  const moved = await createVolume('moved', {
    accessibility_requirements: { requisite: on('node-a', 'node-b', 'node-c'), preferred: on('node-a') },
    capacity_range: { required_bytes: 900 * MIB },
  });
  assert.notEqual(nodeKeyOf(moved['volume_id']), nodeKey('node-a'));
});

test('calls of one name at once make one volume', async () => {
  const answers = await Promise.allSettled(Array.from({ length: 8 }, () => createVolume('at-once')));
  const made = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
  assert.ok(made.length > 0);
  assert.equal(new Set(made.map((volume) => volume['volume_id'])).size, 1);
  for (const answer of answers) {
    if (answer.status === 'rejected') await refused(Promise.reject(answer.reason), 'ABORTED');
  }
});

test('capacity is that of the topology, and of all nodes without one', async () => {
  const { controller } = cluster.client;
  let sum = 0n;
  for (const { id, plugin } of cluster.nodes) {
    const [accessible_topology] = on(id);
    const routed = await controller.GetCapacity({ accessible_topology });
    assert.deepEqual(routed, await plugin.client.controller.GetCapacity({}));
    sum += BigInt(routed['available_capacity']);
  }
  const total = await controller.GetCapacity({});
  assert.equal(total['available_capacity'], String(sum));
  const [stranger] = on('node-x');
  const none = await controller.GetCapacity({ accessible_topology: stranger });
  assert.equal(none['available_capacity'], '0');
});

test('lists have the entries of all nodes, also over an empty one, and pages do not depend on the order of nodes', async () => {
  const { controller } = cluster.client;
  const made: string[] = [];
  // The third has its key between those of these two.
  for (const id of ['node-b', 'node-c']) {
    for (let index = 0; index < 5; index += 1) {
      made.push((await createOn(id, `listed-${id}-${index}`))['volume_id']);
    }
  }
  const snapshots: string[] = [];
  for (const source_volume_id of made) {
    const name = `of-${source_volume_id}`;
    const { snapshot } = await controller.CreateSnapshot({ name, source_volume_id });
    snapshots.push(snapshot.snapshot_id);
  }
  for (const max_entries of [0, 1, 2, 4, 5, 7, 10, 11]) {
    const found: string[] = [];
    let starting_token = '';
    do {
      const page = await controller.ListVolumes({ max_entries, starting_token });
      const ids = page['entries'].map(({ volume }: Message) => volume.volume_id);
      if (max_entries > 0) assert.ok(ids.length <= max_entries);
      found.push(...ids);
      starting_token = page['next_token'];
    } while (starting_token !== '');
    assert.deepEqual(found.toSorted(), made.toSorted(), `pages of ${max_entries}`);
  }
  const listed = async (filter: Message): Promise<string[]> =>
    (await controller.ListSnapshots(filter))['entries'].map(({ snapshot }: Message) => snapshot.snapshot_id);
  assert.equal((await listed({})).length, snapshots.length);
  const [snapshot_id = ''] = snapshots;
  const [source_volume_id = '', , , , , other = ''] = made;
  for (const filter of [{ snapshot_id }, { source_volume_id }, { snapshot_id, source_volume_id }]) {
    assert.deepEqual(await listed(filter), [snapshot_id]);
  }
  assert.deepEqual(await listed({ snapshot_id, source_volume_id: other }), []);
  await refused(controller.ListVolumes({ starting_token: 'x' }), 'ABORTED');
  for (const id of snapshots) await controller.DeleteSnapshot({ snapshot_id: id });
});

test('a group lies on one node; over two nodes it is INVALID_ARGUMENT and says so', async () => {
  const { groups } = cluster.client;
  const here = [await createOn('node-b', 'group-1'), await createOn('node-b', 'group-2')];
  const there = await createOn('node-c', 'group-3');
  const ids = here.map((volume) => volume['volume_id'] as string);
  const wanted = { name: 'group', source_volume_ids: ids };
  const { group_snapshot } = await groups.CreateVolumeGroupSnapshot(wanted);
  const { group_snapshot_id, snapshots } = group_snapshot;
  assert.equal(nodeKeyOf(group_snapshot_id), nodeKey('node-b'));
  const snapshot_ids = (snapshots as Message[]).map((snapshot) => snapshot['snapshot_id']);
  const found = await groups.GetVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids });
  assert.deepEqual(found['group_snapshot'], group_snapshot);
  const source_volume_ids = [...ids, there['volume_id']];
  const wide = groups.CreateVolumeGroupSnapshot({ name: 'wide', source_volume_ids });
  await refused(wide, 'INVALID_ARGUMENT', /belong to different nodes: a group lies on one/);
  await groups.DeleteVolumeGroupSnapshot({ group_snapshot_id, snapshot_ids });
});

test('handles of two nodes, or of one that is not listed, are refused and say so', async () => {
  const handle = (kind: string, id: string): string => `${kind}-${nodeKey(id)}-${randomUUID()}`;
  await refused(
    cluster.client.delta(handle('snap', 'node-a'), handle('snap', 'node-b')),
    'INVALID_ARGUMENT',
    /base_snapshot_id .* and target_snapshot_id .* belong to different nodes/,
  );
  const volume_id = handle('vol', 'retired');
  const told = `${volume_id} belongs to the node with the key ${nodeKey('retired')}`;
  const { controller } = cluster.client;
  await refused(controller.ControllerGetVolume({ volume_id }), 'UNAVAILABLE', new RegExp(told));
  await refused(controller.DeleteVolume({ volume_id }), 'UNAVAILABLE', new RegExp(told));
});

test('what a node refuses is refused alike through the router', async () => {
  const { controller, groups } = cluster.client;
  const direct = cluster.node(0).plugin.client;
  const unknown = `vol-${nodeKey('node-a')}-${randomUUID()}`;
  const calls: [string, (client: typeof direct) => Promise<Message>][] = [
    ['no name', (client) => client.controller.CreateVolume({})],
    ['no id', (client) => client.controller.ControllerGetVolume({})],
    ['unknown id', (client) => client.controller.ControllerGetVolume({ volume_id: unknown })],
    ['no handle', (client) => client.controller.ControllerGetVolume({ volume_id: 'abc' })],
    ['no members', (client) => client.groups.CreateVolumeGroupSnapshot({ name: 'x' })],
  ];
  for (const [title, call] of calls) {
    const expected = await call(direct).catch((error) => error);
    const found = await call(cluster.client).catch((error) => error);
    assert.equal(found.code, expected.code, title);
    if (title !== 'no name') assert.equal(found.details, expected.details, title);
  }
  await controller.DeleteVolume({ volume_id: 'abc' });
  await controller.DeleteVolume({ volume_id: unknown });
  await refused(groups.DeleteVolumeGroupSnapshot({}), 'INVALID_ARGUMENT');
});

test('the router answers for itself and advertises what its nodes do', async () => {
  const direct = cluster.node(0).plugin.client;
  assert.equal((await cluster.client.identity.GetPluginInfo({}))['name'], 'blockdelta.csi');
  for (const ask of [
    ({ identity }: typeof direct) => identity.GetPluginCapabilities({}),
    ({ controller }: typeof direct) => controller.ControllerGetCapabilities({}),
    ({ groups }: typeof direct) => groups.GroupControllerGetCapabilities({}),
  ]) {
    assert.deepEqual(await ask(cluster.client), await ask(direct));
  }
  await refused(cluster.client.node.NodeGetInfo({}), 'UNIMPLEMENTED');
});

test('a node that is down is UNAVAILABLE and named, and served again when it is back', async () => {
  const { controller, identity } = cluster.client;
  const volume = await createOn('node-b', 'down');
  const { volume_id } = volume as { volume_id: string };
  const { plugin, address } = cluster.node(1);
  await plugin.stop();
  for (const call of [
    () => controller.ControllerGetVolume({ volume_id }),
    () => controller.ListVolumes({}),
    () => controller.GetCapacity({}),
    () => createVolume('with-one-down'),
    () => createOn('node-b', 'on-the-one-down'),
  ]) {
    await refused(call(), 'UNAVAILABLE', new RegExp(`node 'node-b' at ${address}`));
  }
  await createOn('node-a', 'on-another');
  assert.equal((await identity.Probe({}))['ready'].value, true);
  assert.ok((await identity.GetPluginCapabilities({}))['capabilities'].length > 0);
  await plugin.start();
  await eventually('it is served again', () =>
    controller.ControllerGetVolume({ volume_id }).then(
      () => true,
      () => false,
    ),
  );
});

test('a node that is away stops only the volumes that it comes first for, as external-provisioner orders the nodes', async () => {
  const all = ['node-a', 'node-b', 'node-c'];
  /** Of WaitForFirstConsumer without --strict-topology, and of Immediate: all nodes, in turn from the selected one on. */
  const from = (index: number): Message => ({
    accessibility_requirements: { requisite: on(...all), preferred: on(...all.slice(index), ...all.slice(0, index)) },
  });
  /** Of WaitForFirstConsumer with --strict-topology. */
  const only = (id: string): Message => ({ accessibility_requirements: { requisite: on(id), preferred: on(id) } });
  const nodeOf = async (name: string, fields: Message): Promise<unknown> =>
    nodeKeyOf((await createVolume(name, fields))['volume_id']);
  const away = cluster.node(1);
  await away.plugin.stop();
  try {
    assert.equal(await nodeOf('first', from(0)), nodeKey('node-a'));
    assert.equal(await nodeOf('third', from(2)), nodeKey('node-c'));
    assert.equal(await nodeOf('only', only('node-c')), nodeKey('node-c'));
    const named = new RegExp(`node 'node-b' at ${away.address}`);
    await refused(createVolume('second', from(1)), 'UNAVAILABLE', named);
    await refused(createVolume('only-second', only('node-b')), 'UNAVAILABLE', named);
    const large = { capacity_range: { required_bytes: 1500 * MIB } };
    await createVolume('filler', { ...only('node-a'), ...large });
    const behind = createVolume('behind', { ...from(0), ...large });
    await refused(behind, 'UNAVAILABLE', named);
    await createVolume('another-filler', { ...only('node-c'), ...large });
    await refused(createVolume('nowhere', { ...from(2), ...large }), 'UNAVAILABLE', named);
  } finally {
    await away.plugin.start();
  }
  await eventually('it is asked again', () =>
    nodeOf('second', from(1)).then(
      (key) => key === nodeKey('node-b'),
      () => false,
    ),
  );
});

test('a volume whose first node could not be reached for two minutes is to be made elsewhere, and a second one is reported when the node is back', async () => {
  const [a, b, c] = cluster.nodes;
  assert.ok(a && b && c);
  const from = (...ids: string[]): Message => ({
    accessibility_requirements: { requisite: on('node-a', 'node-b', 'node-c'), preferred: on(...ids) },
  });
  // Made, while its response is lost.
  const { volume } = await b.plugin.client.controller.CreateVolume(createRequest('twice'));
  await b.plugin.stop();
  const create = (): Promise<Message> => createVolume('twice', from('node-b', 'node-c', 'node-a'));
  const tried = (): Promise<string> =>
    create().then(
      () => 'OK',
      ({ code, details }) => `${status[code]} ${details}`,
    );
  await eventually('the router tries', async () =>
    /^UNAVAILABLE node 'node-b' .* cannot be reached/.test(await tried()),
  );
  cluster.clock += 119_999;
  await refused(create(), 'UNAVAILABLE');
  await refused(createOn('node-b', 'only'), 'UNAVAILABLE');
  cluster.clock += 1;
  const told = /^node 'node-b' at .* make the volume on another node/;
  await refused(create(), 'RESOURCE_EXHAUSTED', told);
  await refused(createOn('node-b', 'only'), 'RESOURCE_EXHAUSTED', told);
  await refused(
    cluster.client.controller.CreateSnapshot({ name: 's', source_volume_id: volume.volume_id }),
    'UNAVAILABLE',
  );
  // Its pod has another address now.
  const moved = formatHostPort(loopbackAddress());
  cluster.list([a, { id: 'node-b', address: moved }, c]);
  await eventually('the other address', async () => (await tried()).includes(moved));
  await refused(create(), 'RESOURCE_EXHAUSTED', told);
  cluster.list(cluster.nodes);
  await eventually('its own address', async () => (await tried()).includes(b.address));

  const second = await createVolume('twice', from('node-c', 'node-a', 'node-b'));
  assert.equal(nodeKeyOf(second['volume_id']), nodeKey('node-c'));
  assert.equal(cluster.duplicateVolumes, 0);
  await b.plugin.start();
  await eventually('a report', () => cluster.duplicateVolumes > 0);
  const [line = ''] = cluster.log.split('\n').filter((each) => each.includes('several nodes have'));
  for (const { volume_id } of [volume, second]) assert.ok(line.includes(volume_id), line);
  await cluster.client.controller.ControllerGetVolume({ volume_id: volume.volume_id });
  await cluster.client.controller.ControllerGetVolume({ volume_id: second['volume_id'] });
});

test('H32: a list that changes is followed, and an address of another node is not taken for it', async () => {
  const { volume_id } = (await createOn('node-c', 'list')) as { volume_id: string };
  const [a, b, c] = cluster.nodes;
  assert.ok(a && b && c);
  const until = (wanted: RegExp): Promise<void> =>
    eventually(String(wanted), async () => wanted.test(await answerOf(volume_id)));
  cluster.list([a, b]);
  await until(/^14 .*which is not in the list/);
  cluster.list([a, b, { id: 'node-c', address: a.address }]);
  await until(/^14 .*names blockdelta:\/\/blockdelta\.csi\/node\/node-a instead of .*\/node-c alone/);
  cluster.list(cluster.nodes);
  await until(/^OK$/);
});

test('a node that complete lists have not had for an hour is final for reads, snapshots and new volumes, and not for deletions', async () => {
  const { client } = cluster;
  const { controller, groups } = client;
  const { volume_id } = await createOn('node-c', 'retired');
  const snapshot_ids: string[] = [];
  for (const name of ['retired-1', 'retired-2']) {
    const { snapshot } = await controller.CreateSnapshot({ name, source_volume_id: volume_id });
    snapshot_ids.push(snapshot.snapshot_id);
  }
  const [first = '', second = ''] = snapshot_ids;
  const content = { volume_content_source: { snapshot: { snapshot_id: first } } };
  const never = `vol-${nodeKey('never-there')}-${randomUUID()}`;
  const codesOf = async (calls: Record<string, () => Promise<unknown>>): Promise<Record<string, string>> => {
    const answers = Object.entries(calls).map(async ([name, call]) => {
      const answered = call().then(
        () => 'OK',
        ({ code }) => status[code] ?? '',
      );
      return [name, await answered] as const;
    });
    return Object.fromEntries(await Promise.all(answers));
  };
  const reads = {
    allocated: () => client.allocated(first),
    delta: () => client.delta(first, second),
    volume: () => controller.ControllerGetVolume({ volume_id }),
    neverThere: () => controller.ControllerGetVolume({ volume_id: never }),
    snapshots: () => controller.ListSnapshots({ snapshot_id: first }),
    snapshot: () => controller.CreateSnapshot({ name: 'late', source_volume_id: volume_id }),
    restore: () => createVolume('restored', content),
  };
  const placed = {
    onIt: () => createOn('node-c', 'on-it'),
    byKey: () => createOn(nodeKey('node-c'), 'by-key'),
    nowhere: () => createOn('never-there', 'nowhere'),
  };
  const removals = {
    volume: () => controller.DeleteVolume({ volume_id }),
    unpublished: () => controller.ControllerUnpublishVolume({ volume_id, node_id: 'node-c' }),
    snapshot: () => controller.DeleteSnapshot({ snapshot_id: first }),
    group: () => groups.DeleteVolumeGroupSnapshot({ group_snapshot_id: never, snapshot_ids: [] }),
  };
  const all = (calls: object, code: string): Record<string, string> =>
    Object.fromEntries(Object.keys(calls).map((name) => [name, code]));
  const expectCodes = async (read: string, placement: string): Promise<void> => {
    assert.deepEqual(await codesOf(reads), all(reads, read));
    assert.deepEqual(await codesOf(placed), all(placed, placement));
    assert.deepEqual(await codesOf(removals), all(removals, 'UNAVAILABLE'));
  };
  const [a, b] = cluster.nodes;
  assert.ok(a && b);
  /** When the list could not be read, and then the third node was not on it. */
  const anHourBegins = async (): Promise<void> => {
    const problems = (): number => cluster.log.split('cannot be used').length;
    const before = problems();
    cluster.writeList('{');
    await eventually('an error', async () => problems() > before);
    const changes = (): number => cluster.log.split('the list of nodes has changed').length;
    const lists = changes();
    cluster.list(lists % 2 === 0 ? [a, b] : [b, a]);
    await eventually('the list is read again', async () => changes() > lists);
  };
  await anHourBegins();
  cluster.clock += 3_599_999;
  await expectCodes('UNAVAILABLE', 'UNAVAILABLE');
  await anHourBegins();
  cluster.clock += 3_599_999;
  await expectCodes('UNAVAILABLE', 'UNAVAILABLE');
  cluster.clock += 1;
  await expectCodes('FAILED_PRECONDITION', 'RESOURCE_EXHAUSTED');

  cluster.list(cluster.nodes);
  await eventually('it is listed', async () => (await answerOf(volume_id)) === 'OK');
  const { neverThere: _, ...ofIt } = reads;
  assert.deepEqual(await codesOf(ofIt), all(ofIt, 'OK'));
  for (const { snapshot } of (await controller.ListSnapshots({}))['entries']) {
    await controller.DeleteSnapshot({ snapshot_id: snapshot.snapshot_id });
  }
});

test('H12: hostile requests are answered by the router or a node, and harm neither', async () => {
  const world = {
    volumeIds: [],
    snapshotIds: [],
    sources: new Map<string, string>(),
    groups: [],
    paths: ['/x'],
    otherPaths: ['/y'],
    stagingPaths: ['/s'],
    targetPaths: ['/t'],
    pool: 'main',
  };
  const fuzz = new FuzzRun(cluster.endpoint, process.pid, seededRandom('router-hostile'), world);
  await fuzz.run(isNightly ? 1000 : 300, isNightly ? 500 : 150).finally(() => fuzz.close());
  assert.deepEqual(fuzz.faults, []);
  assert.ok((fuzz.answers.get('OK') ?? 0) > 15, JSON.stringify([...fuzz.answers]));
  const logs = [cluster.log, ...cluster.nodes.map(({ plugin }) => plugin.log)].join('\n');
  const internal = logs.split('\n').filter((line) => line.includes('"INTERNAL"'));
  assert.deepEqual(internal, []);
  await createOn('node-a', 'after');
});
