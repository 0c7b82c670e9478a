/**
 * The translations of CSI 0.3 and 0.1 with every field filled: what the handlers of v1 get, and what comes back. The
 * rules of v1 have tests of their own; what a mount is needed for is in integration/plugin/legacy-life.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import protobuf from 'protobufjs';
import { csiMessage } from '../../../src/base/csi/proto.js';
import { type AnyUnaryHandler, ResponseParts } from '../../../src/base/csi/service.js';
import { CsiError } from '../../../src/base/errors.js';
import { legacyRpcs } from '../../../src/driver/legacy/interfaces.js';
import { requestDecoder } from '../../../src/server/calls/request-decoder.js';
import type { Message } from '../../support/csi-client.js';
import { refused } from '../../support/refusal.js';

type Version = '0.3' | '0.1';
const OWN_VERSION = { major: 0, minor: 1, patch: 0 };
const STAGING = '/run/staging';
const served = (version: Version) => legacyRpcs([version], { directory: STAGING, publicationsOf: async () => [] });
const SERVED = { '0.3': served('0.3'), '0.1': served('0.1') };

const capabilities = (...types: string[]) => types.map((type) => ({ rpc: { type } }));
const PLACE = { segments: { zone: 'a' } };
const VOLUME = {
  volume_id: 'v',
  capacity_bytes: '5',
  volume_context: { a: 'b' },
  content_source: { snapshot: { snapshot_id: 's' } },
  accessible_topology: [PLACE],
};
const CLONE = { volume_id: 'w', content_source: { volume: { volume_id: 'v' } } };
const SNAPSHOT = {
  snapshot_id: 's',
  source_volume_id: 'v',
  size_bytes: '5',
  ready_to_use: true,
  creation_time: { seconds: '1700000000', nanos: 7 },
};
const NODE = { node_id: 'n', max_volumes_per_node: '3', accessible_topology: PLACE };

/** What each handler of v1 answers. */
const V1: Readonly<Record<string, object>> = {
  GetPluginInfo: { name: 'driver', vendor_version: '1', manifest: { a: 'b' } },
  GetPluginCapabilities: {
    capabilities: ['CONTROLLER_SERVICE', 'GROUP_CONTROLLER_SERVICE', 'VOLUME_ACCESSIBILITY_CONSTRAINTS'].map(
      (type) => ({ service: { type } }),
    ),
  },
  Probe: { ready: { value: true } },
  CreateVolume: { volume: VOLUME },
  ControllerPublishVolume: { publish_context: { a: 'b' } },
  ValidateVolumeCapabilities: { confirmed: {} },
  ControllerGetVolume: { volume: VOLUME },
  ListVolumes: { entries: [{ volume: VOLUME }, { volume: CLONE }], next_token: 't' },
  GetCapacity: { available_capacity: '9', maximum_volume_size: { value: '8' } },
  ControllerGetCapabilities: {
    capabilities: capabilities('EXPAND_VOLUME', 'LIST_SNAPSHOTS', 'CREATE_DELETE_VOLUME', 'GET_VOLUME'),
  },
  CreateSnapshot: { snapshot: SNAPSHOT },
  ListSnapshots: { entries: [{ snapshot: SNAPSHOT }], next_token: 't' },
  NodeGetInfo: NODE,
  NodeGetCapabilities: { capabilities: capabilities('GET_VOLUME_STATS', 'STAGE_UNSTAGE_VOLUME') },
};

const OLD_VOLUME = { id: 'v', capacity_bytes: '5', attributes: { a: 'b' } };
const OLD_CLONE = { id: 'w', capacity_bytes: '0', attributes: {} };
const VOLUME_03 = {
  ...OLD_VOLUME,
  content_source: { snapshot: { id: 's' }, type: 'snapshot' },
  accessible_topology: [PLACE],
};
const SNAPSHOT_03 = {
  id: 's',
  source_volume_id: 'v',
  size_bytes: '5',
  created_at: '1700000000000000007',
  status: { type: 'READY', details: '' },
};

/** What each RPC answers then, and which handlers it asks where that is not the one of its name. */
const OLD: Readonly<Record<Version, Readonly<Record<string, readonly [object, ...string[]]>>>> = {
  '0.3': {
    GetPluginInfo: [V1['GetPluginInfo'] as object],
    GetPluginCapabilities: [
      {
        capabilities: ['CONTROLLER_SERVICE', 'ACCESSIBILITY_CONSTRAINTS'].map((type) => ({
          service: { type },
          type: 'service',
        })),
      },
    ],
    Probe: [{ ready: { value: true } }],
    CreateVolume: [{ volume: VOLUME_03 }],
    DeleteVolume: [{}],
    ControllerPublishVolume: [{ publish_info: { a: 'b' } }],
    ControllerUnpublishVolume: [{}],
    ValidateVolumeCapabilities: [
      { supported: false, message: 'the volume is usable in zone=a only' },
      'ValidateVolumeCapabilities',
      'ControllerGetVolume',
    ],
    ListVolumes: [
      {
        entries: [{ volume: VOLUME_03 }, { volume: { ...OLD_CLONE, content_source: null, accessible_topology: [] } }],
        next_token: 't',
      },
    ],
    GetCapacity: [{ available_capacity: '9' }],
    ControllerGetCapabilities: [{ capabilities: old('CREATE_DELETE_VOLUME', 'LIST_SNAPSHOTS') }],
    CreateSnapshot: [{ snapshot: SNAPSHOT_03 }],
    DeleteSnapshot: [{}],
    ListSnapshots: [{ entries: [{ snapshot: SNAPSHOT_03 }], next_token: 't' }],
    NodeStageVolume: [{}],
    NodeUnstageVolume: [{}],
    NodePublishVolume: [{}],
    NodeUnpublishVolume: [{}],
    NodeGetId: [{ node_id: 'n' }, 'NodeGetInfo'],
    NodeGetInfo: [NODE],
    NodeGetCapabilities: [{ capabilities: old('STAGE_UNSTAGE_VOLUME') }],
  },
  '0.1': {
    GetSupportedVersions: [{ supported_versions: [OWN_VERSION] }, ...[]],
    GetPluginInfo: [V1['GetPluginInfo'] as object],
    CreateVolume: [{ volume_info: OLD_VOLUME }],
    DeleteVolume: [{}],
    ControllerPublishVolume: [{ publish_volume_info: { a: 'b' } }],
    ControllerUnpublishVolume: [{}],
    ValidateVolumeCapabilities: [{ supported: true, message: '' }],
    ListVolumes: [{ entries: [{ volume_info: OLD_VOLUME }, { volume_info: OLD_CLONE }], next_token: 't' }],
    GetCapacity: [{ available_capacity: '9' }],
    ControllerProbe: [{}, 'ControllerGetCapabilities', 'Probe'],
    ControllerGetCapabilities: [{ capabilities: old('CREATE_DELETE_VOLUME') }],
    NodePublishVolume: [{}],
    NodeUnpublishVolume: [{}],
    GetNodeID: [{ node_id: 'n' }, 'NodeGetInfo'],
    NodeProbe: [{}, 'NodeGetCapabilities', 'Probe'],
    NodeGetCapabilities: [{ capabilities: [] }],
  },
};

function old(...types: string[]): object[] {
  return types.map((type) => ({ rpc: { type }, type: 'rpc' }));
}

/** Calls an RPC with handlers of v1 that answer as the table says, but for those given. */
async function call(
  version: Version,
  rpc: string,
  request: Message,
  answers: Readonly<Record<string, unknown>> = {},
): Promise<{ answer: Message; asked: { rpc: string; request: Message }[] }> {
  const { definition, requestType, handler } = SERVED[version].find(({ name }) => name === rpc) ?? assert.fail(rpc);
  const asked: { rpc: string; request: Message }[] = [];
  const find = async (_service: string, name: string) =>
    (async (given: Message) => {
      asked.push({ rpc: name, request: given });
      const answer = answers[name] ?? V1[name] ?? {};
      if (answer instanceof Error) throw answer;
      return answer;
    }) as unknown as AnyUnaryHandler;
  const context = { signal: new AbortController().signal, deadline: Infinity, peer: {} };
  const message = requestType.fromObject({ version: OWN_VERSION, ...request });
  const decoded = requestDecoder(requestType)(Buffer.from(requestType.encode(message).finish()));
  const given = await handler(find as never)(decoded.message as never, {
    ...context,
    encodedRequest: decoded.encoded,
    note: () => undefined,
  });
  let parts: Message = given as Message;
  if (given instanceof ResponseParts) {
    parts = { entries: [], next_token: '' };
    for await (const part of given.parts) {
      parts['entries'].push(...((part as Message)['entries'] ?? []));
      parts['next_token'] ||= (part as Message)['next_token'] ?? '';
    }
  }
  return { answer: definition.responseDeserialize(definition.responseSerialize(parts)) as Message, asked };
}

/** A message in which every field is set, texts to the name of their field. */
function filled(type: protobuf.Type): Message {
  const others = type.oneofsArray.flatMap(({ fieldsArray }) => fieldsArray.slice(0, -1));
  const fields = type.fieldsArray.filter((field) => !others.includes(field));
  return Object.fromEntries(
    fields.map((field) => {
      const { name, resolvedType } = field.resolve();
      const value =
        resolvedType instanceof protobuf.Type
          ? filled(resolvedType)
          : resolvedType instanceof protobuf.Enum
            ? 'SINGLE_NODE_READER_ONLY'
            : ({ string: field.map ? { key: name } : name, bool: true }[field.type as 'string'] ?? 7);
      return [name, field.repeated ? [value] : value];
    }),
  );
}

/** As v1 calls a field. */
function newName(name: string): string {
  if (/_secrets$|^user_credentials$/.test(name)) return 'secrets';
  if (name === 'volume_attributes') return 'volume_context';
  if (/^publish_(volume_)?info$/.test(name)) return 'publish_context';
  return name === 'id' ? 'snapshot_id' : name;
}

function renamed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(renamed);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [newName(name), renamed(inner)]));
}

/** As a handler of v1 gets it; a field that v1 does not have is left out. */
function v1Request(rpc: string, fields: object): Message {
  const type = csiMessage(`${rpc}Request`);
  const message = type.fromObject(fields);
  return requestDecoder(type)(Buffer.from(type.encode(message).finish())).message;
}

for (const version of ['0.3', '0.1'] as const) {
  for (const { name: rpc, requestType } of SERVED[version]) {
    test(`CSI ${version}: ${rpc} hands all fields to v1, and gives its answer back`, async () => {
      const request = { ...filled(requestType), version: OWN_VERSION };
      const [expected, ...handlers] = OLD[version][rpc] ?? assert.fail(rpc);
      const { answer, asked } = await call(version, rpc, request);
      assert.deepEqual(answer, expected);
      if (rpc === 'GetSupportedVersions') return assert.deepEqual(asked, []);
      const names = asked.map(({ rpc: name }) => name);
      assert.deepEqual(names, handlers.length === 0 ? [rpc] : handlers);
      const own = version === '0.1' && rpc === 'NodePublishVolume';
      const fields = renamed({ ...request, ...(own ? { staging_target_path: STAGING } : {}) });
      for (const { rpc: name, request: given } of asked) {
        assert.deepEqual(given, v1Request(name, fields as object), name);
      }
    });

    const old = Object.keys(filled(requestType)).filter((name) => newName(name) !== name);
    if (old.length === 0 || rpc === 'NodeUnpublishVolume') continue;
    test(`CSI ${version}: a refusal of ${rpc} has the old names of ${old.join(' and ')}`, async () => {
      const refuse = (error: CsiError) => call(version, rpc, {}, { [rpc]: error });
      const notFound = CsiError.notFound('there is no secrets');
      await refused(refuse(notFound), 'NOT_FOUND', /^there is no secrets$/);
      for (const name of old) {
        const message = new RegExp(`^wrong \\(names in csi(\\.v0)?: .*\\b${newName(name)} is ${name}`);
        await refused(refuse(CsiError.invalidArgument('wrong')), 'INVALID_ARGUMENT', message);
      }
    });
  }

  test(`CSI ${version}: a mode that only v1 has is INVALID_ARGUMENT`, async () => {
    const mode = (number: number) => ({ mount: {}, access_mode: { mode: number } });
    const message = /volume_capabilities\[1\]\.access_mode\.mode 7 is not known/;
    const wrong = { volume_capabilities: [mode(1), mode(7)] };
    await refused(call(version, 'CreateVolume', wrong), 'INVALID_ARGUMENT', message);
  });

  test(`CSI ${version}: what v1 does not confirm is not supported, and the answer says why`, async () => {
    const answers = { ValidateVolumeCapabilities: { message: 'a reason' } };
    const { answer } = await call(version, 'ValidateVolumeCapabilities', {}, answers);
    assert.deepEqual(answer, { supported: false, message: 'a reason' });
  });

  test(`CSI ${version}: a list in parts is translated part by part`, async () => {
    async function* parts() {
      yield { entries: [{ volume: VOLUME }] };
      yield { entries: [{ volume: CLONE }], next_token: 't' };
    }
    const answers = { ListVolumes: new ResponseParts(parts()) };
    const { answer } = await call(version, 'ListVolumes', {}, answers);
    assert.deepEqual(answer, OLD[version]['ListVolumes']?.[0]);
  });
}

test('CSI 0.3: a content source that is empty stays one, and its snapshot has the old name', async () => {
  const { asked } = await call('0.3', 'CreateVolume', { volume_content_source: {} });
  assert.notEqual(asked[0]?.request['volume_content_source'], null);
  const refusal = { CreateVolume: CsiError.invalidArgument('wrong') };
  const message = /snapshot\.snapshot_id is volume_content_source\.snapshot\.id/;
  await refused(call('0.3', 'CreateVolume', {}, refusal), 'INVALID_ARGUMENT', message);
});

test('CSI 0.3: capabilities are supported where every topology holds the volume', async () => {
  const validate = async (...places: object[]) =>
    (await call('0.3', 'ValidateVolumeCapabilities', { accessible_topology: places })).answer;
  assert.deepEqual(await validate(PLACE), { supported: true, message: '' });
  assert.equal((await validate(PLACE, { segments: { zone: 'b' } }))['supported'], false);
  const wrong = validate({ segments: { 'no key': 'a' } });
  await refused(wrong, 'INVALID_ARGUMENT', /accessible_topology\[0\]/);
});

test('CSI 0.1: the version is judged before anything else, by every RPC but GetSupportedVersions', async () => {
  const wrong = [null, {}, { minor: 2 }, { major: 1 }, { minor: 1, patch: 1 }, { major: 1, minor: 12 }];
  for (const rpc of Object.keys(OLD['0.1']).filter((name) => name !== 'GetSupportedVersions')) {
    for (const version of wrong) {
      const called = call('0.1', rpc, { version });
      await refused(called, 'INVALID_ARGUMENT', /^[^v]*version/);
    }
  }
});

test('CSI 0.1: unsigned numbers that v1 does not have are out of range, or limit nothing', async () => {
  const create = (required_bytes: string, limit_bytes: string) =>
    call('0.1', 'CreateVolume', { capacity_range: { required_bytes, limit_bytes } });
  await refused(create('9223372036854775808', '0'), 'OUT_OF_RANGE', /required_bytes/);
  const { asked } = await create('9223372036854775807', '18446744073709551615');
  const most = '9223372036854775807';
  assert.deepEqual(asked[0]?.request['capacity_range'], { required_bytes: most, limit_bytes: most });
  const list = await call('0.1', 'ListVolumes', { max_entries: 2 ** 32 - 1 });
  assert.equal(list.asked[0]?.request['max_entries'], 2 ** 31 - 1);
});

test('CSI 0.1: the probes fail as the Probe of v1 does, and are UNAVAILABLE while the plugin starts', async () => {
  for (const rpc of ['ControllerProbe', 'NodeProbe']) {
    const starting = call('0.1', rpc, {}, { Probe: { ready: { value: false } } });
    await refused(starting, 'UNAVAILABLE', /starting/);
    const failing = { Probe: CsiError.failedPrecondition('a pool is away') };
    await refused(call('0.1', rpc, {}, failing), 'FAILED_PRECONDITION', /a pool is away/);
  }
});

test('CSI 0.1: credentials of NodeUnpublishVolume are judged, though v1 has no field for them', async () => {
  const wrong = call('0.1', 'NodeUnpublishVolume', { user_credentials: { 'no key': 'x' } });
  await refused(wrong, 'INVALID_ARGUMENT', /user_credentials/);
});
