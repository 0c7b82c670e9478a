/**
 * CSI's limits on every field of every request, taken from the proto itself: a value over the limit is refused
 * with the field's name, a value at the limit is not refused for its size.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { StatusName } from '../../src/base/errors.js';
import { ConformingRequests } from '../support/conforming-requests.js';
import type { Message } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { allRpcs, encodeMessage, RawConnection, type RpcDescription } from '../support/raw-call.js';
import { statusOf } from '../support/refusal.js';
import { type FieldPlace, fieldsOf, requiredFields, withField } from '../support/request-fields.js';

const MAX_STRING_BYTES = 128;
const MAX_MAP_BYTES = 4096;
/** Strings with a limit of their own. */
const OTHER_LIMITS: Readonly<Record<string, number>> = {
  node_id: 256,
  staging_target_path: 4095,
  target_path: 4095,
  volume_path: 4095,
  volume_publish_path: 4095,
};
/** Required fields whose absence has another error (NP2), or is accepted in practice (MV1). */
const OTHER_CODES: Readonly<Record<string, StatusName>> = {
  'NodePublishVolume.staging_target_path': 'FAILED_PRECONDITION',
  'ControllerModifyVolume.mutable_parameters': 'OK',
};

/** The rule of each RPC about its required fields, where it has one of its own. */
const REQUIRED: Readonly<Record<string, string>> = {
  DeleteVolume: 'DV1: ',
  ControllerPublishVolume: 'CP1: ',
  ControllerUnpublishVolume: 'CU1: ',
  ValidateVolumeCapabilities: 'VV1: ',
  ControllerGetVolume: 'GV1: ',
  ControllerModifyVolume: 'MV1: ',
  ControllerExpandVolume: 'EV1: ',
  DeleteSnapshot: 'DS1: ',
  GetSnapshot: 'GS1: ',
  CreateVolumeGroupSnapshot: 'GA1: ',
  DeleteVolumeGroupSnapshot: 'GD1: ',
  GetVolumeGroupSnapshot: 'GE1: ',
  NodeStageVolume: 'NS1: ',
  NodeUnstageVolume: 'NU1: ',
  NodePublishVolume: 'NP1: ',
  NodeUnpublishVolume: 'NQ1: ',
  NodeGetVolumeStats: 'NV1: ',
  NodeExpandVolume: 'NE1: ',
};

let conforming: ConformingRequests;
let connection: RawConnection;
runMemoryPlugin({
  env: { BLOCKDELTA_CONTROLLER_PUBLISH: 'on', BLOCKDELTA_CSI_LEVEL: '1.13' },
  prepare: async ({ endpoint, orchestrator }) => {
    connection = new RawConnection(endpoint);
    conforming = new ConformingRequests(orchestrator);
    await conforming.prepare();
  },
});
after(() => connection?.close());

/** A conforming request with another value in a place. */
async function changed(rpc: RpcDescription, place: FieldPlace, value: unknown): Promise<Message> {
  return withField(await conforming.to(rpc.name), place, value);
}

/** `NAME` or `NAME message`. */
async function outcome(rpc: RpcDescription, request: Message): Promise<string> {
  const answer = connection.call(rpc, encodeMessage(rpc.requestType, request));
  const status = await statusOf(answer);
  return answer.then(
    () => status,
    ({ details }) => `${status} ${details}`,
  );
}

async function mustRefuse(
  rpc: RpcDescription,
  place: FieldPlace,
  value: unknown,
  status: StatusName = 'INVALID_ARGUMENT',
): Promise<void> {
  const found = await outcome(rpc, await changed(rpc, place, value));
  const what = `${rpc.name}, ${place.path.join('.')}`;
  assert.match(found, new RegExp(`^${status} .*${nameOf(place)}`, 's'), what);
}

/** Whatever else is wrong with it, its size is not. */
async function mustTake(rpc: RpcDescription, place: FieldPlace, value: unknown): Promise<void> {
  const found = await outcome(rpc, await changed(rpc, place, value));
  assert.doesNotMatch(found, /limit is|bytes long|^INTERNAL/, `${rpc.name}, ${place.path.join('.')}`);
}

const nameOf = (place: FieldPlace): string => place.path.at(-1) as string;
const placeOf = (name: string): FieldPlace => ({ kind: 'string', path: [name], lists: [] });
/** Two bytes each, so that a limit in characters differs from one in bytes. */
const text = (bytes: number): string => 'é'.repeat(bytes / 2) + 'x'.repeat(bytes % 2);
const path = (bytes: number): string => `/${'deep/'.repeat(1000)}`.slice(0, bytes);

async function checkString(rpc: RpcDescription, place: FieldPlace): Promise<void> {
  const name = nameOf(place);
  const limit = OTHER_LIMITS[name] ?? MAX_STRING_BYTES;
  const make = name.endsWith('_path') ? path : text;
  await mustTake(rpc, place, make(limit));
  // Whatever is wrong with a token, a list has to be begun anew (LV4).
  const status = name === 'starting_token' ? 'ABORTED' : 'INVALID_ARGUMENT';
  await mustRefuse(rpc, place, make(limit + 1), status);
}

async function checkStrings(rpc: RpcDescription, place: FieldPlace): Promise<void> {
  if (nameOf(place) === 'mount_flags') {
    // Counted together, and sensitive, so that there is no limit for a single string.
    const flags = (last: number): string[] => [text(2048), text(last)];
    await mustTake(rpc, place, flags(2048));
    await mustRefuse(rpc, place, flags(2049));
    return;
  }
  await mustTake(rpc, place, [text(MAX_STRING_BYTES)]);
  await mustRefuse(rpc, place, [text(MAX_STRING_BYTES + 1)]);
}

/** Keys and values count together. */
async function checkMap(rpc: RpcDescription, place: FieldPlace): Promise<void> {
  const map = (bytes: number): Message => ({ key: text(bytes - 'key'.length) });
  await mustTake(rpc, place, map(MAX_MAP_BYTES));
  await mustRefuse(rpc, place, map(MAX_MAP_BYTES + 1));
  const entries = Array.from({ length: 1025 }, (_, index) => [`${1000 + index}`, '']);
  await mustRefuse(rpc, place, Object.fromEntries(entries));
  if (nameOf(place) !== 'secrets') return;
  const secret = withField(await conforming.to(rpc.name), place, { 'A-z_0.9': '\u0001\n' });
  const without = await outcome(rpc, await conforming.to(rpc.name));
  assert.deepEqual(await outcome(rpc, secret), without, `${rpc.name} with a secret`);
  for (const key of ['', 'a b', 'a/b', 'é', 'a\n']) await mustRefuse(rpc, place, { [key]: 'x' });
}

async function checkInteger(rpc: RpcDescription, place: FieldPlace): Promise<void> {
  const status = nameOf(place) === 'starting_offset' ? 'OUT_OF_RANGE' : 'INVALID_ARGUMENT';
  for (const value of place.path.length > 1 || status === 'OUT_OF_RANGE'
    ? ['-1', '-9223372036854775808']
    : [-1, -(2 ** 31)]) {
    await mustRefuse(rpc, place, value, status);
  }
}

async function checkEnum(rpc: RpcDescription, place: FieldPlace): Promise<void> {
  // Without a way of access the capability would be refused for that.
  const [name = ''] = place.path;
  const capability = { block: {}, access_mode: { mode: 1 } };
  const base = await conforming.to(rpc.name);
  const whole = { ...base, [name]: place.lists[0] ? [capability] : capability };
  for (const mode of [0, 8, 77, -1]) {
    const found = await outcome(rpc, withField(whole, place, mode));
    assert.match(found, /^INVALID_ARGUMENT .*mode/, `${rpc.name}, mode ${mode}`);
  }
}

const CHECKS: Readonly<Record<FieldPlace['kind'], (rpc: RpcDescription, place: FieldPlace) => Promise<void>>> = {
  string: checkString,
  strings: checkStrings,
  map: checkMap,
  integer: checkInteger,
  enum: checkEnum,
};

for (const rpc of allRpcs()) {
  const places = fieldsOf(rpc.requestType);
  if (places.length > 0) {
    test(`G6: each field of ${rpc.name} is bounded, and the refusal names it`, async () => {
      for (const place of places) await CHECKS[place.kind](rpc, place);
    });
  }
  const required = requiredFields(rpc.requestType);
  if (required.length > 0) {
    test(`${REQUIRED[rpc.name] ?? 'G4, G5: '}${rpc.name} without one of ${required.join(', ')} is refused`, async () => {
      for (const name of required) {
        const request = await conforming.to(rpc.name);
        delete request[name];
        const status = OTHER_CODES[`${rpc.name}.${name}`] ?? 'INVALID_ARGUMENT';
        const wanted = status === 'OK' ? /^OK$/ : new RegExp(`^${status} .*${name}`);
        assert.match(await outcome(rpc, request), wanted);
      }
    });
  }
}

test('G4, G12: missing fields are told before what does not exist', async () => {
  for (const rpc of allRpcs()) {
    const required = requiredFields(rpc.requestType);
    const [id, ...others] = required;
    if (id?.endsWith('_id') !== true || others.length === 0) continue;
    if (others.every((name) => OTHER_CODES[`${rpc.name}.${name}`] !== undefined)) continue;
    assert.match(await outcome(rpc, { [id]: 'fake-vol-id' }), /^INVALID_ARGUMENT /, rpc.name);
  }
});

const BANNED = [0, 1, 8, 0x0b, 0x0c, 0x0e, 0x1f, 0x7f, 0x80, 0x9f];
const NAMED = ['CreateVolume', 'CreateSnapshot', 'CreateVolumeGroupSnapshot'];

for (const rpc of allRpcs().filter(({ name }) => NAMED.includes(name))) {
  test(`G6: ${rpc.name} refuses a name with a banned character`, async () => {
    for (const codePoint of BANNED) {
      await mustRefuse(rpc, placeOf('name'), `a${String.fromCodePoint(codePoint)}b`);
    }
  });
}
