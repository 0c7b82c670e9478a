/**
 * Markers in every sensitive field of every RPC, at the most verbose log level: none of them appears
 * in the log or in an answer.
 */
import assert from 'node:assert/strict';
import protobuf from 'protobufjs';
import { CSI_PACKAGE, csiProto } from '../../src/csi/proto.js';
import { ConformingRequests } from '../support/conforming-requests.js';
import type { Message } from '../support/csi-client.js';
import {
  allRpcs,
  decodeMessage,
  encodeMessage,
  RawConnection,
  type RpcDescription,
} from '../support/raw-call.js';
import { runPlugin, test } from '../support/running-plugin.js';

const MARKER = 'marker-5c1f';
/** Sensitive though the proto does not say so. */
const UNMARKED = ['mount_flags', 'volume_context', 'publish_context'];

let conforming: ConformingRequests;
const running = runPlugin('redaction', {
  pools: { main: 'xfs' },
  env: { BLOCKDELTA_LOG_LEVEL: 'trace', BLOCKDELTA_CONTROLLER_PUBLISH: 'on' },
  prepare: async () => {
    conforming = new ConformingRequests(running.orchestrator);
    await running.orchestrator.bringUp(await conforming.prepare());
  },
});

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
function plant(
  type: protobuf.Type,
  message: Message,
  map: Readonly<Record<string, string>>,
): number {
  let planted = 0;
  for (const field of type.fieldsArray) {
    field.resolve();
    if (field.options?.['(csi_secret)'] === true || UNMARKED.includes(field.name)) {
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

/** Everything that a caller receives: the response, or the status. */
async function answerOf(
  connection: RawConnection,
  rpc: RpcDescription,
  bytes: Buffer,
): Promise<string> {
  try {
    const answer = decodeMessage(rpc.responseType, await connection.call(rpc, bytes));
    // CSI wants the capabilities that are confirmed in the answer, as they were asked for.
    delete answer['confirmed']?.volume_capabilities;
    return JSON.stringify(answer);
  } catch (thrown) {
    return `${(thrown as Error).message} ${JSON.stringify(thrown)}`;
  }
}

for (const [what, map] of Object.entries(MAPS)) {
  test(`E9, H10: no RPC logs or returns the content of secrets, contexts and mount flags: a map ${what}`, async () => {
    const connection = new RawConnection(running.plugin.endpoint);
    let planted = 0;
    try {
      for (const rpc of allRpcs()) {
        const type = typeOf(rpc.requestType);
        for (const shape of [(request: Message) => request, mounted]) {
          const request = shape(await conforming.to(rpc.name));
          planted += plant(type, request, map);
          const bytes = encodeMessage(rpc.requestType, request);
          const answers = [await answerOf(connection, rpc, bytes)];
          // A truncated request is not a valid message, and the reason is logged.
          answers.push(await answerOf(connection, rpc, bytes.subarray(0, bytes.length - 1)));
          for (const answer of answers) {
            assert.ok(!answer.includes(MARKER), `${rpc.name}: ${answer}`);
          }
        }
      }
    } finally {
      connection.close();
    }
    assert.ok(planted > 40, `only ${planted} fields were filled`);
    const { log } = running.plugin;
    assert.match(log, /"call started"/, 'requests are logged at this level');
    assert.equal(
      log.split('\n').find((line) => line.includes(MARKER)),
      undefined,
    );
  });
}
