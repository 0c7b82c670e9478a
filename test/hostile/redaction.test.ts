/**
 * Markers in every sensitive field of every RPC of every version, at the most verbose log level: none of them
 * appears in the log or in an answer.
 */
import assert from 'node:assert/strict';
import protobuf from 'protobufjs';
import { CSI_PACKAGE, csiProto, loadProto } from '../../src/base/csi/proto.js';
import { ConformingRequests } from '../support/conforming-requests.js';
import type { Message } from '../support/csi-client.js';
import { runLegacyPlugin } from '../support/legacy-fixture.js';
import type { HeldVolume } from '../support/orchestrator.js';
import { allRpcs, decodeMessage, encodeMessage, RawConnection, type RpcDescription } from '../support/raw-call.js';
import { test } from '../support/running-plugin.js';

const MARKER = 'marker-5c1f';
/** What v1 marks, what it does not mark, and what the old versions call it; they mark nothing. */
const SENSITIVE =
  /secrets$|^(mount_flags|(volume|publish)_context|user_credentials|volume_attributes|publish_(volume_)?info)$/;
const OLD_PACKAGES = { '0.3': 'csi.v0', '0.1': 'csi' } as const;

const { running, clientOf } = runLegacyPlugin('redaction', { env: { BLOCKDELTA_LOG_LEVEL: 'trace' } });
let volume: HeldVolume;
let conforming: ConformingRequests;

async function prepare(): Promise<void> {
  if (conforming !== undefined) return;
  conforming = new ConformingRequests(running.orchestrator);
  volume = await conforming.prepare();
  await running.orchestrator.bringUp(volume);
}

/** What may be wrong with a map, so that each way of refusing it is taken. */
const MAPS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'as kubelet sends it': { 'csi.storage.k8s.io/serviceAccount.tokens': `{"x":"${MARKER}"}` },
  'with a uid that is none': { 'csi.storage.k8s.io/pod.uid': `/${MARKER}` },
  'with a key of its own': { [`${MARKER}-key`]: `${MARKER}-value` },
  'with a key that is not allowed': { [`${MARKER} key\n`]: MARKER },
  'that is too large': { [`${MARKER}`]: MARKER.repeat(600) },
};

function typeOf(name: string): protobuf.Type {
  return csiProto().root.lookupType(`${CSI_PACKAGE}.${name}`);
}

/** Sets every sensitive field of a message, also of nested messages. Returns how many. */
function plant(type: protobuf.Type, message: Message, map: Readonly<Record<string, string>>): number {
  let planted = 0;
  for (const field of type.fieldsArray) {
    field.resolve();
    if (field.options?.['(csi_secret)'] === true || SENSITIVE.test(field.name)) {
      message[field.name] = field.map ? { ...map } : [`password=${MARKER}`];
      planted += 1;
    } else if (field.resolvedType instanceof protobuf.Type && message[field.name] !== undefined) {
      for (const inner of [message[field.name]].flat() as Message[]) {
        planted += plant(field.resolvedType, inner, map);
      }
    }
  }
  return planted;
}

/** The capability of a request as one of a file system, whose flags can hold a marker. */
function mounted(request: Message): Message {
  const capability = { mount: { fs_type: 'xfs' }, access_mode: { mode: 'SINGLE_NODE_WRITER' } };
  const copy = structuredClone(request);
  if (copy['volume_capability'] !== undefined) copy['volume_capability'] = { ...capability };
  if (copy['volume_capabilities'] !== undefined) copy['volume_capabilities'] = [{ ...capability }];
  return copy;
}

/** Everything that a caller receives, the response or the status, has no marker. */
async function assertUntold(rpc: string, answered: Promise<unknown>): Promise<void> {
  const told = await answered.then(
    (answer) => JSON.stringify(answer),
    (thrown) => `${(thrown as Error).message} ${JSON.stringify(thrown)}`,
  );
  assert.ok(!told.includes(MARKER), `${rpc}: ${told}`);
}

async function called(connection: RawConnection, rpc: RpcDescription, bytes: Buffer): Promise<Message> {
  const answer = decodeMessage(rpc.responseType, await connection.call(rpc, bytes));
  // CSI wants the capabilities that are confirmed in the answer, as they were asked for.
  delete answer['confirmed']?.volume_capabilities;
  return answer;
}

for (const [what, map] of Object.entries(MAPS)) {
  test(`E9, H10: no RPC logs or returns the content of secrets, contexts and mount flags: a map ${what}`, async () => {
    await prepare();
    const connection = new RawConnection(running.plugin.endpoint);
    let planted = 0;
    try {
      for (const rpc of allRpcs()) {
        const type = typeOf(rpc.requestType);
        for (const shape of [(request: Message) => request, mounted]) {
          const request = shape(await conforming.to(rpc.name));
          planted += plant(type, request, map);
          const bytes = encodeMessage(rpc.requestType, request);
          // A truncated request is not a valid message, and the reason is logged.
          for (const sent of [bytes, bytes.subarray(0, bytes.length - 1)]) {
            await assertUntold(rpc.name, called(connection, rpc, sent));
          }
        }
      }
    } finally {
      connection.close();
    }
    assert.ok(planted > 40, `only ${planted} fields were filled`);
    assertUnsaid(/"call started"/);
  });

  test(`E9, H10: no RPC of CSI 0.3 and 0.1 logs or returns the content of secrets, contexts and mount flags: a map ${what}`, async () => {
    await prepare();
    let planted = 0;
    for (const version of ['0.3', '0.1'] as const) {
      const client = clientOf(version);
      const { root } = loadProto(`proto/csi-v${version}.proto`, OLD_PACKAGES[version], []);
      for (const rpc of client.rpcs) {
        const request = oldRequest(rpc);
        planted += plant(root.lookupType(`${OLD_PACKAGES[version]}.${rpc}Request`), request, map);
        await assertUntold(rpc, client.call(rpc, request));
      }
    }
    assert.ok(planted > 25, `only ${planted} fields were filled`);
    assertUnsaid(/"method":"csi\.v0\.Node\.NodeStageVolume".*"call started"/);
    assertUnsaid(/"method":"csi\.Node\.NodePublishVolume".*"call started"/);
  });
}

/** A request of an old version that has what it requires. */
function oldRequest(rpc: string): Message {
  const { id: volume_id, stagingPath: staging_target_path, targetPath: target_path } = volume;
  const capability = { mount: { fs_type: 'ext4' }, access_mode: { mode: 'SINGLE_NODE_WRITER' } };
  const fields: Message = {
    volume_id,
    node_id: 'test-node',
    source_volume_id: volume_id,
    snapshot_id: 'snap-x',
    name: 'secret',
    volume_capability: capability,
    volume_capabilities: [capability],
    staging_target_path,
    target_path,
  };
  // What would be gone for the RPCs that come after it.
  return rpc === 'DeleteVolume' ? { ...fields, volume_id: 'vol-x' } : structuredClone(fields);
}

/** The log has such a line of a call, and no marker. */
function assertUnsaid(line: RegExp): void {
  const { log } = running.plugin;
  assert.match(log, line);
  const said = log.split('\n').find((text) => text.includes(MARKER));
  assert.equal(said, undefined);
}
