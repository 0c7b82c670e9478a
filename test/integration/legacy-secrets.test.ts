/**
 * Markers in every sensitive field of every RPC of CSI 0.3 and 0.1, at the most verbose log level: none of them
 * appears in the log or in an answer.
 */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import protobuf from 'protobufjs';
import { loadProto } from '../../src/csi/proto.js';
import { type Message, mountCapability } from '../support/csi-client.js';
import { runLegacyPlugin } from '../support/legacy-fixture.js';
import { MIB } from '../support/orchestrator.js';
import { test } from '../support/running-plugin.js';

const MARKER = 'marker-7a2e';
const SENSITIVE =
  /secrets$|^(user_credentials|volume_attributes|publish_info|publish_volume_info|mount_flags)$/;
const PACKAGES = { '0.3': 'csi.v0', '0.1': 'csi' } as const;

const { running, clientOf } = runLegacyPlugin('legacy-secrets', {
  env: { BLOCKDELTA_LOG_LEVEL: 'trace' },
});

/** What may be wrong with a map, so that each way of refusing it is taken. */
const MAPS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'as kubelet sends it': { 'csi.storage.k8s.io/serviceAccount.tokens': `{"x":"${MARKER}"}` },
  'with a uid that is none': { 'csi.storage.k8s.io/pod.uid': `/${MARKER}` },
  'with a key of its own': { [`${MARKER}-key`]: `${MARKER}-value` },
  'with a key that is not allowed': { [`${MARKER} key\n`]: MARKER },
  'that is too large': { [MARKER]: MARKER.repeat(600) },
};

/** Sets every sensitive field of a message, also of nested messages. Returns how many. */
function plant(
  type: protobuf.Type,
  message: Message,
  map: Readonly<Record<string, string>>,
): number {
  let planted = 0;
  for (const field of type.fieldsArray) {
    field.resolve();
    if (SENSITIVE.test(field.name)) {
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

/** A request that would succeed, but for the markers. */
function requestOf(rpc: string, volume_id: string): Message {
  const path = (name: string) => {
    const made = running.workspace.path('old', name);
    mkdirSync(made, { recursive: true });
    return made;
  };
  const capability = mountCapability('ext4');
  const fields: Message = {
    ...{ volume_id, node_id: 'test-node', source_volume_id: volume_id, snapshot_id: 'snap-x' },
    ...{ name: 'secret', volume_capability: capability, volume_capabilities: [capability] },
    staging_target_path: path('staging'),
    target_path: path('target'),
  };
  // What would be gone for the RPCs that come after it.
  return rpc === 'DeleteVolume' ? { ...fields, volume_id: 'vol-x' } : structuredClone(fields);
}

for (const [what, map] of Object.entries(MAPS)) {
  test(`no RPC of the old versions logs or returns the content of sensitive fields: a map ${what}`, async () => {
    const volume = await running.orchestrator.create(`for ${what}`, { sizeBytes: 48 * MIB });
    let planted = 0;
    for (const version of ['0.3', '0.1'] as const) {
      const client = clientOf(version);
      const { root } = loadProto(`proto/csi-v${version}.proto`, PACKAGES[version], []);
      for (const rpc of client.rpcs) {
        const request = requestOf(rpc, volume.id);
        planted += plant(root.lookupType(`${PACKAGES[version]}.${rpc}Request`), request, map);
        const answer = await client.call(rpc, request).then(
          (message) => JSON.stringify(message),
          (thrown) => `${(thrown as Error).message} ${JSON.stringify(thrown)}`,
        );
        assert.ok(!answer.includes(MARKER), `${rpc}: ${answer}`);
      }
    }
    assert.ok(planted > 25, `only ${planted} fields were filled`);
    const { log } = running.plugin;
    assert.match(log, /"method":"csi\.v0\.Node\.NodeStageVolume".*"call started"/);
    assert.match(log, /"method":"csi\.Node\.NodePublishVolume".*"call started"/);
    assert.equal(
      log.split('\n').find((line) => line.includes(MARKER)),
      undefined,
    );
  });
}
