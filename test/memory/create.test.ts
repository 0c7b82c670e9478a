/** CreateVolume and GetCapacity: what is accepted, which size it gets, what is left, and what finds a name again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StatusName } from '../../src/base/errors.js';
import { knownParameters } from '../../src/driver/volumes/volume-parameters.js';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { openCatalogueHere } from '../support/direct-database.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const GIB = 1024 * MIB;
const WRITER = { mode: 'SINGLE_NODE_WRITER' };
const KEY = 'blockdelta.csi/node';
const here = { segments: { [KEY]: 'test-node' } };
const there = { segments: { [KEY]: 'another-node' } };
const zone = { segments: { [KEY]: 'test-node', 'example.com/zone': 'z1' } };
const [BLOCK, EXT4, XFS] = [blockCapability(), mountCapability('ext4'), mountCapability('xfs')];
const BTRFS = mountCapability('btrfs');

const running = runMemoryPlugin({ pools: ['main', 'other'] });
const { orchestrator } = running;
const controller = () => running.client.controller;
const create = (request: Message): Promise<Message> => controller().CreateVolume(request);
const remove = ({ volume }: Message): Promise<Message> => controller().DeleteVolume({ volume_id: volume.volume_id });
const capacity = async (request: Message = {}): Promise<number> =>
  Number((await controller().GetCapacity(request))['available_capacity']);

const exactly = (bytes: number): Message => ({ required_bytes: bytes, limit_bytes: bytes });
const sized = (capacity_range: Message, capability = BLOCK): Message => ({
  capacity_range,
  volume_capabilities: [capability],
});
const capable = (capability: Message): Message => ({ volume_capabilities: [BLOCK, capability] });
const placed = (accessibility_requirements: Message): Message => ({ accessibility_requirements });
const elsewhere = placed({ requisite: [there] });
const from = (volume_content_source: Message): Message => ({ volume_content_source });
const withParameters = (parameters: Message, capability = BLOCK): Message => ({
  parameters,
  volume_capabilities: [capability],
  capacity_range: exactly(16 * MIB),
});
const mutable = (mutable_parameters: Message): Message => ({ mutable_parameters });

/** Other fields in the request, by what they are. */
type Requests = Readonly<Record<string, Message>>;

/** A test of each request: it is refused so, and creates nothing. */
function refuses(code: StatusName, field: RegExp, requests: Requests): void {
  for (const [title, change] of Object.entries(requests)) {
    test(`${title} is ${code}, and nothing is created`, async () => {
      const before = await orchestrator.volumeIds();
      await refused(create({ ...createRequest('refused'), ...change }), code, field);
      assert.deepEqual(await orchestrator.volumeIds(), before);
    });
  }
}

refuses('INVALID_ARGUMENT', /^volume_capabilities\[1\]/, {
  'a capability without an access type': capable({ access_mode: WRITER }),
  'a capability without an access mode': capable({ block: {} }),
  'an empty capability': capable({}),
  ...Object.fromEntries(
    ['SINGLE_WRITER', 'MULTI_WRITER'].map((mode) => [
      `CV5: access mode MULTI_NODE_${mode}`,
      capable(blockCapability(`MULTI_NODE_${mode}`)),
    ]),
  ),
  'CV5: file system ntfs': capable(mountCapability('ntfs')),
  'CV5: a file system named like an option': capable(mountCapability('-t')),
  'CV5: a mount flag that is not listed': capable({
    mount: { mount_flags: ['noatime', 'loop=/dev/loop0'] },
    access_mode: WRITER,
  }),
  'CV5: a mount group, which is not advertised': capable({
    mount: { volume_mount_group: '1000' },
    access_mode: WRITER,
  }),
});

refuses('INVALID_ARGUMENT', /^parameters\['(Pool|mkfsOptions|mountOptions)'\]/, {
  'CV13: an unknown parameter': withParameters({ pool: 'main', Pool: 'main' }),
  'CV13: a mkfs option that copies files': withParameters({ mkfsOptions: '-d /etc' }, EXT4),
  'CV13: a mkfs option of XFS': withParameters({ mkfsOptions: '-m reflink=1' }, EXT4),
  'CV13: the mount option remount': withParameters({ mountOptions: 'remount' }, EXT4),
  'CV13: the mount option loop': withParameters({ mountOptions: 'loop=/dev/loop0' }, EXT4),
});

refuses('INVALID_ARGUMENT', /'none'.*main, other/, { 'CV13: an unknown pool': withParameters({ pool: 'none' }) });

refuses('INVALID_ARGUMENT', /^mutable_parameters/, {
  'CV15: a mutable pool': mutable({ pool: 'main' }),
  'CV15: a negative read-ahead': mutable({ readAheadKiB: '-1' }),
  'CV15: an unknown scheduler': mutable({ readAheadKiB: '64', ioScheduler: 'cfq' }),
});

refuses('INVALID_ARGUMENT', /volume_content_source/, {
  'CV10: no source': from({}),
  'CV10: a snapshot without an id': from({ snapshot: {} }),
  'CV10: a volume without an id': from({ volume: {} }),
});

refuses('INVALID_ARGUMENT', /^accessibility_requirements/, {
  'CV17: an empty requirement': placed({}),
  'CV17: two empty lists': placed({ requisite: [], preferred: [] }),
  'CV21: a preferred place that is not requisite': placed({ requisite: [here], preferred: [there] }),
  'a key that is none': placed({ requisite: [{ segments: { 'a/b/c': 'v' } }] }),
  'a value that is none': placed({ requisite: [{ segments: { [KEY]: 'a value' } }] }),
});

refuses('RESOURCE_EXHAUSTED', /test-node/, {
  'CV18: requisite nodes that are all others': elsewhere,
  'CV19: another node alone': placed({ requisite: [there], preferred: [there] }),
  'CV18: a zone, which this node knows nothing of': placed({ requisite: [zone] }),
});

refuses('INVALID_ARGUMENT', /capacity_range/, {
  'a range without bounds': sized({}),
  'required over limit': sized({ required_bytes: 2 * MIB, limit_bytes: MIB }),
  'a negative size': sized({ required_bytes: -1 }),
  'a negative limit': sized({ required_bytes: MIB, limit_bytes: -1 }),
});

refuses('OUT_OF_RANGE', /capacity_range/, {
  'CV6: no whole block between required and limit': sized(exactly(5 * MIB + 1)),
  'CV8: a limit below the minimum': sized({ limit_bytes: 4096 }),
  'CV8: less than ext4 takes': sized(exactly(15 * MIB), EXT4),
  'CV8: less than ext4, the default, takes': sized(exactly(15 * MIB), mountCapability()),
  'CV8: less than xfs takes': sized(exactly(300 * MIB - 4096), XFS),
  'CV8: less than a btrfs can grow to': sized(exactly(256 * MIB - 4096), BTRFS),
  'CV8: more than the pool, for elsewhere too,': { ...sized(exactly(100 * GIB)), ...elsewhere },
  'CV8: more than any pool': sized({ required_bytes: '9223372036854775807' }),
});

refuses('NOT_FOUND', /none-exist-id/, {
  'a missing source, for elsewhere too,': { ...from({ snapshot: { snapshot_id: 'none-exist-id' } }), ...elsewhere },
});

const SIZES: readonly (readonly [string, Message | null, number, Message?])[] = [
  ['CV7: no range gives 1 GiB', null, GIB],
  ['CV6: an exact size is used as it is', exactly(5 * MIB), 5 * MIB],
  ['CV6: required alone is given', { required_bytes: 7 * MIB }, 7 * MIB],
  ['CV6: a size is rounded up to blocks', { required_bytes: 5 * MIB + 1 }, 5 * MIB + 4096],
  [
    'CV6: rounding up does not pass the limit',
    { required_bytes: 5 * MIB + 1, limit_bytes: 5 * MIB + 4096 },
    5 * MIB + 4096,
  ],
  ['CV6: a limit alone is used as the size', { limit_bytes: 64 * MIB }, 64 * MIB],
  ['CV6: a limit alone is rounded down', { limit_bytes: 64 * MIB + 4095 }, 64 * MIB],
  ['CV6: a large limit alone gives 1 GiB', { limit_bytes: 100 * GIB }, GIB],
  ['CV6: required below the minimum gives that', { required_bytes: 1 }, MIB],
  ['CV6: required below what xfs takes gives that', { required_bytes: MIB }, 300 * MIB, XFS],
  ['CV8: the minimum of a block volume is created', exactly(MIB), MIB],
  ['CV8: the least that ext4 takes is created', exactly(16 * MIB), 16 * MIB, EXT4],
  ['CV8: the least that xfs takes is created', exactly(300 * MIB), 300 * MIB, XFS],
  ['CV8: the least that btrfs takes is created', exactly(256 * MIB), 256 * MIB, BTRFS],
];
for (const [title, capacity_range, bytes, capability = BLOCK] of SIZES) {
  test(`${title}: ${bytes} bytes`, async () => {
    const volume_capabilities = [capability];
    const answer = await create({ name: title, capacity_range, volume_capabilities });
    const { volume_id, capacity_bytes } = answer['volume'];
    assert.equal(Number(capacity_bytes), bytes);
    const stored = running.backend().storage.volumes.get(volume_id);
    assert.equal(Number(stored?.sizeBytes), bytes);
    await remove(answer);
  });
}

const READERS = blockCapability('MULTI_NODE_READER_ONLY');

refuses('INVALID_ARGUMENT', /^volume_capabilities: .* is for a volume from a snapshot, and excludes all other modes/, {
  'CV5: MULTI_NODE_READER_ONLY without a source': { volume_capabilities: [READERS] },
  'CV5: MULTI_NODE_READER_ONLY beside a mode that writes': capable(READERS),
});

test('CV5, VC: a volume from a snapshot can be for readers alone, has no other use, and does not grow', async () => {
  const source = await orchestrator.create('source');
  const snapshotId = await orchestrator.snapshot(source);
  const request = { ...createRequest('readers', { snapshotId }), volume_capabilities: [READERS] };
  const cloned = { ...request, ...from({ volume: { volume_id: source.id } }) };
  await refused(create(cloned), 'INVALID_ARGUMENT', /is for a volume from a snapshot/);
  const mixed = { ...request, volume_capabilities: [READERS, BLOCK] };
  await refused(create(mixed), 'INVALID_ARGUMENT', /excludes all other modes/);
  const made = await create(request);
  assert.deepEqual(await create(request), made);
  const { volume_id } = made['volume'];
  const grown = { volume_id, capacity_range: { required_bytes: 2 * source.sizeBytes } };
  await refused(controller().ControllerExpandVolume(grown), 'INVALID_ARGUMENT', /is only read/);
  const confirms = async (id: string, capability: Message): Promise<boolean> => {
    const asked = { volume_id: id, volume_capabilities: [capability] };
    return (await controller().ValidateVolumeCapabilities(asked))['confirmed'] != null;
  };
  assert.deepEqual(
    [await confirms(volume_id, READERS), await confirms(volume_id, BLOCK), await confirms(source.id, READERS)],
    [true, false, false],
  );
  await remove(made);
  await orchestrator.deleteSnapshot(snapshotId);
  await orchestrator.delete(source);
});

const ACCEPTED: Requests = {
  'CV5: every single-node mode, block beside mount, and no file system type': {
    volume_capabilities: [
      blockCapability('SINGLE_NODE_READER_ONLY'),
      mountCapability(),
      BLOCK,
      blockCapability('SINGLE_NODE_SINGLE_WRITER'),
      mountCapability('', 'SINGLE_NODE_MULTI_WRITER'),
    ],
    capacity_range: exactly(16 * MIB),
  },
  'CV13: options of mkfs and mount that are listed': withParameters(
    { mkfsOptions: '-m 1', mountOptions: 'noatime,errors=remount-ro' },
    EXT4,
  ),
  'CV14: a mutable parameter beside a parameter': {
    parameters: { readAheadKiB: '64' },
    mutable_parameters: { readAheadKiB: '256' },
  },
  'CV18: a requisite list with this node': placed({ requisite: [there, here] }),
  'CV18: a key in other letters': placed({ requisite: [{ segments: { 'blockdelta.csi/NODE': 'test-node' } }] }),
  'CV18: a place without segments, which is everywhere': placed({ requisite: [{ segments: {} }] }),
  'CV19: this node alone': placed({ requisite: [here], preferred: [here] }),
  'CV20: another node preferred to this one': placed({ requisite: [there, here], preferred: [there, here] }),
  'CV20: another node preferred, and none requisite': placed({ preferred: [there] }),
};
for (const [title, change] of Object.entries(ACCEPTED)) {
  test(`${title} is accepted, on this node`, async () => {
    const answer = await create({ ...createRequest(title), ...change });
    assert.deepEqual(answer['volume'].accessible_topology, [here]);
    await remove(answer);
  });
}

test('CV13: the message about an unknown parameter names all known ones', async () => {
  const request = createRequest('known', { parameters: { speed: 'high' } });
  const message = await refused(create(request), 'INVALID_ARGUMENT');
  for (const name of knownParameters()) assert.ok(message.includes(name), `${name}: ${message}`);
});

test('CV24, CV26, CV28: the answer has an id, the size, an empty context and the topology of this node', async () => {
  const answer = await create(createRequest('answer'));
  const { volume_id } = answer['volume'];
  assert.deepEqual(answer['volume'], {
    volume_id,
    capacity_bytes: String(8 * MIB),
    volume_context: {},
    content_source: null,
    accessible_topology: [here],
  });
  assert.ok(Buffer.byteLength(volume_id) <= 128);
  await remove(answer);
});

const TAKEN = { ...createRequest('taken'), parameters: { pool: 'main' } };
const SAME: Requests = {
  'CV2: the same request': {},
  'CV2: no range': { capacity_range: null },
  'CV2: a range with the size in it': sized({ required_bytes: MIB, limit_bytes: 9 * MIB }),
  'CV2: a limit above the size': sized({ limit_bytes: 9 * MIB }),
  'CV2: this node': placed({ requisite: [there, here] }),
  'CV13: a parameter that the Kubernetes provisioner adds': {
    parameters: { ...TAKEN.parameters, 'csi.storage.k8s.io/pvc/name': 'claim' },
  },
  'G16: zero values': {
    mutable_parameters: {},
    secrets: {},
    capacity_range: { required_bytes: String(8 * MIB), limit_bytes: '0' },
  },
};
const OTHER: Readonly<Record<string, readonly [RegExp, Message]>> = {
  'a smaller size': [/capacity_range/, sized({ required_bytes: 9 * MIB })],
  'a larger size': [/capacity_range/, sized({ limit_bytes: 7 * MIB })],
  'another access type': [/volume_capabilities/, { volume_capabilities: [EXT4] }],
  'another access mode': [/volume_capabilities/, { volume_capabilities: [blockCapability('SINGLE_NODE_READER_ONLY')] }],
  'fewer capabilities': [/volume_capabilities/, capable(mountCapability())],
  'other mutable parameters': [/mutable_parameters/, mutable({ readAheadKiB: '64' })],
  'other parameters': [/parameters/, { parameters: { pool: 'other' } }],
  'another place': [/accessibility_requirements/, elsewhere],
};
test('CV2, CV3, G16: a taken name answers its volume, also after a restart, if all of it matches', async () => {
  const first = await create(TAKEN);
  for (let starts = 0; starts < 2; starts += 1) {
    for (const [title, change] of Object.entries(SAME)) {
      assert.deepEqual(await create({ ...TAKEN, ...change }), first, title);
    }
    await running.restart();
  }
  for (const [title, [field, change]] of Object.entries(OTHER)) {
    const message = await refused(create({ ...TAKEN, ...change }), 'ALREADY_EXISTS', field);
    assert.ok(message.includes(first['volume'].volume_id), `${title}: ${message}`);
  }
  // Values are judged before names.
  await refused(create({ ...TAKEN, parameters: { size: '1' } }), 'INVALID_ARGUMENT');
  await remove(first);
});

test('CV2, CV3: capabilities match in any order, a file system only itself', async () => {
  const request = { ...createRequest('files'), ...capable(XFS), capacity_range: exactly(GIB / 2) };
  const first = await create(request);
  assert.deepEqual(await create({ ...request, volume_capabilities: [XFS, BLOCK] }), first);
  await refused(create({ ...request, ...capable(EXT4) }), 'ALREADY_EXISTS', /volume_capabilities/);
  await remove(first);
});

test('CV2, CV3: the parameters of the creation are compared, and no later modification', async () => {
  const request = { ...createRequest('modified'), mutable_parameters: { readAheadKiB: '64' } };
  const first = await create(request);
  await orchestrator.modify(orchestrator.hold('modified', first['volume']), { readAheadKiB: '256' });
  assert.deepEqual(await create(request), first);
  const later = { ...request, mutable_parameters: { readAheadKiB: '256' } };
  await refused(create(later), 'ALREADY_EXISTS', /mutable_parameters/);
  await remove(first);
});

/** Names of volumes and snapshots that CSI allows, and that would be traps as paths. */
const NAMES: Readonly<Record<string, string>> = {
  'a slash': 'a/b',
  'a relative path': '../../../etc/passwd',
  'an absolute path': '/etc/passwd',
  'a dot': '.',
  'two dots': '..',
  'a trailing .tmp': 'volume.tmp',
  'a name of our own handles': 'vol-0123456789ab-00000000-0000-0000-0000-000000000000',
  'a space': ' ',
  'spaces around': ' name ',
  'no spaces around': 'name',
  'a tab, a line feed and a carriage return': 'a\tb\nc\rd',
  quotes: `'";--\``,
  'a percent sign and a backslash': '%n%s\\',
  'an emoji': 'volume 🗄️',
  'a right-to-left override': 'a\u202eb',
  'a combined letter': 'e\u0301',
  'the same letter composed': '\u00e9',
  'another case': 'E\u0301',
  'no-break space U+00A0, the first after the banned ones': '\u00a0',
  'a line separator': 'a\u2028b',
  '128 bytes of ASCII': 'n'.repeat(128),
  '128 bytes in 32 characters': '🗄'.repeat(32),
  __proto__: '__proto__',
};
test('names of any form are names, all different, and a pool sees ids only', async () => {
  const { volumes, snapshots } = running.backend().storage;
  const ids = new Map<string, string>();
  for (const [title, name] of Object.entries(NAMES)) {
    const request = createRequest(name, { sizeBytes: MIB });
    const { volume } = await create(request);
    assert.deepEqual((await create(request))['volume'], volume, title);
    const source_volume_id: string = volume.volume_id;
    assert.match(source_volume_id, /^vol-[0-9a-f]{12}-[0-9a-f-]{36}$/, title);
    const { snapshot } = await controller().CreateSnapshot({ source_volume_id, name });
    assert.match(snapshot.snapshot_id, /^snap-[0-9a-f]{12}-[0-9a-f-]{36}$/, title);
    const held = orchestrator.hold(name, volume);
    await orchestrator.deleteGroup(await orchestrator.groupSnapshot([held], name));
    ids.set(source_volume_id, snapshot.snapshot_id);
  }
  assert.equal(ids.size, Object.keys(NAMES).length);
  assert.deepEqual([...volumes.keys()], [...ids.keys()]);
  assert.deepEqual([...snapshots.keys()], [...ids.values()]);
  for (const [volume_id, snapshot_id] of ids) {
    await controller().DeleteSnapshot({ snapshot_id });
    await controller().DeleteVolume({ volume_id });
  }
  const { used } = running.backend().storage;
  assert.deepEqual([...volumes.keys(), ...snapshots.keys(), ...used], []);
});

test('CV22: more than is left is RESOURCE_EXHAUSTED, leaves nothing behind, and its name is free', async () => {
  const before = await capacity();
  const first = await orchestrator.create('first half', { sizeBytes: 1280 * MIB });
  const call = orchestrator.create('second half', { sizeBytes: 1280 * MIB });
  await refused(call, 'RESOURCE_EXHAUSTED', /'main'/);
  assert.deepEqual(await orchestrator.volumeIds(), [first.id]);
  await orchestrator.delete(first);
  assert.equal(await capacity(), before);
  await orchestrator.delete(await orchestrator.create('second half'));
});

test('CV22: concurrent callers never get more than the pool has', async () => {
  const before = await capacity();
  const sizeBytes = Math.floor(before / 3 / MIB) * MIB;
  const calls = Array.from({ length: 8 }, (_, index) => orchestrator.create(`rush ${index}`, { sizeBytes }));
  const made = (await Promise.allSettled(calls)).flatMap((outcome) =>
    outcome.status === 'fulfilled' ? [outcome.value] : [],
  );
  for (const volume of made) await orchestrator.delete(volume);
  assert.ok(made.length <= 3, `${made.length} volumes of a third of the pool each were made`);
  assert.equal(await capacity(), before);
});

test('GC1, GC5, GC6: the capacity that GetCapacity returns can be created, no byte more, and falls by what is claimed', async () => {
  const answer = await controller().GetCapacity({});
  const available = Number(answer['available_capacity']);
  assert.ok(available > 0);
  assert.equal(Number(answer['maximum_volume_size'].value), available);
  const over = create({ name: 'over', ...sized({ required_bytes: available + 1 }) });
  await refused(over, ['RESOURCE_EXHAUSTED', 'OUT_OF_RANGE']);
  const minimum = Number(answer['minimum_volume_size'].value);
  for (const sizeBytes of [available, minimum, 100 * MIB]) {
    const volume = await orchestrator.create('promised', { sizeBytes });
    const claimed = available - (await capacity());
    assert.ok(claimed >= sizeBytes - MIB && claimed <= sizeBytes + 2 * MIB, `${claimed}`);
    await orchestrator.delete(volume);
  }
  assert.equal(await capacity(), available);
});

test('GC6: the minimum is the smallest limit_bytes that all the capabilities can have', async () => {
  for (const [capability, minimum] of [
    [BLOCK, MIB],
    [EXT4, 16 * MIB],
    [mountCapability(), 16 * MIB],
    [XFS, 300 * MIB],
  ] as const) {
    const answer = await controller().GetCapacity({ volume_capabilities: [capability] });
    assert.equal(Number(answer['minimum_volume_size'].value), minimum);
    const limited = (limit_bytes: number): Promise<Message> =>
      create({ name: 'minimum', ...sized({ limit_bytes }, capability) });
    await refused(limited(minimum - 1), 'OUT_OF_RANGE');
    await remove(await limited(minimum));
  }
});

test('GC2: unsupported capabilities and a foreign pool have no capacity, other parameters are passed over', async () => {
  const flags = { mount: { mount_flags: ['bind'] }, access_mode: WRITER };
  const several = blockCapability('MULTI_NODE_MULTI_WRITER');
  for (const capability of [several, mountCapability('ntfs'), flags]) {
    assert.equal(await capacity({ volume_capabilities: [capability] }), 0);
  }
  assert.ok((await capacity({ volume_capabilities: [EXT4, BLOCK] })) > 0);
  const unknown = controller().GetCapacity({ volume_capabilities: [{ block: {} }] });
  await refused(unknown, 'INVALID_ARGUMENT', /^volume_capabilities\[0\]/);
  assert.equal(await capacity({ parameters: { pool: 'none' } }), 0);
  const whole = await capacity({ parameters: { pool: 'main' } });
  for (const [key, value] of [
    ['speed', 'high'],
    ['Pool', 'main'],
    ['mkfsOptions', '--no-such-option'],
    ['mountOptions', 'dev'],
    ['readAheadKiB', 'much'],
  ] as const) {
    const parameters = { [key]: value };
    assert.equal(await capacity({ parameters }), whole, key);
    const misspelt = create({ ...createRequest('misspelt'), parameters });
    await refused(misspelt, 'INVALID_ARGUMENT', new RegExp(`parameters\\['${key}'\\]`));
  }
});

test('GC3: this node has capacity and others have none', async () => {
  const at = (accessible_topology: Message): Promise<number> => capacity({ accessible_topology });
  const everywhere = await capacity();
  for (const place of [here, { segments: {} }]) assert.equal(await at(place), everywhere);
  for (const place of [there, zone]) assert.equal(await at(place), 0);
  await refused(at({ segments: { '/': 'v' } }), 'INVALID_ARGUMENT', /^accessible_topology/);
});

test('a volume that was made for one file system holds that, and a copy or a default says nothing', async () => {
  const sizeBytes = GIB / 4;
  const made = (name: string, capability: Message, volumeId?: string) =>
    orchestrator.create(name, { capability, sizeBytes, ...(volumeId === undefined ? {} : { volumeId }) });
  const named = await made('named', BTRFS);
  const unnamed = await made('unnamed', mountCapability(''));
  // As if the volumes had been staged. Their pool cannot read their superblocks.
  await running.stop();
  const catalogue = openCatalogueHere(running.path('state', 'catalogue.sqlite'));
  for (const { id } of [named, unnamed]) catalogue.markVolumeInitialized(id);
  catalogue.close();
  await running.start();
  await refused(made('of named', EXT4, named.id), 'INVALID_ARGUMENT', /holds btrfs/);
  await made('of unnamed', BTRFS, unnamed.id);
  const again = await made('again', EXT4, unnamed.id);
  await made('of a copy', BTRFS, again.id);
});
