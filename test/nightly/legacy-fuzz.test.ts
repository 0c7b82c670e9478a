/**
 * Twenty thousand malformed and hostile requests over each of CSI 0.3 and 0.1: each gets a CSI status, nothing
 * outside the plugin's directories changes, and the plugin keeps working over v1.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import type { ServiceDefinition } from '@grpc/grpc-js';
import type protobuf from 'protobufjs';
import { loadProto } from '../../src/base/csi/proto.js';
import type { Message } from '../support/csi-client.js';
import { assertUnharmed } from '../support/fuzz-run.js';
import { type FuzzWorld, plausibleRequest } from '../support/fuzz-world.js';
import type { OldVersion } from '../support/legacy-client.js';
import { runLegacyPlugin } from '../support/legacy-fixture.js';
import { type Random, seededRandom } from '../support/random.js';
import type { FuzzedProto } from '../support/request-fuzzer.js';
import { test } from '../support/running-plugin.js';

const EACH = 20_000;
const SERVICES = ['Identity', 'Controller', 'Node'] as const;
const PACKAGES = { '0.3': 'csi.v0', '0.1': 'csi' } as const;

const { running, staging } = runLegacyPlugin('legacy-fuzz', { poolSizeMiB: 1024 });

function fuzzed(version: OldVersion): FuzzedProto {
  const packageName = PACKAGES[version];
  const { root, services } = loadProto(`proto/csi-v${version}.proto`, packageName, SERVICES);
  const rpcs = SERVICES.flatMap((service) => {
    const { methods } = root.lookupService(`${packageName}.${service}`);
    return Object.entries(services[service] as ServiceDefinition).map(([name, { path }]) => {
      const { requestType, responseType } = methods[name] as protobuf.Method;
      return { service, name, path, isStream: false, requestType, responseType };
    });
  });
  const always = (rpc: string): Message =>
    version === '0.1' && rpc !== 'GetSupportedVersions' ? { version: { major: 0, minor: 1, patch: 0 } } : {};
  return {
    rpcs,
    always,
    typeOf: (name) => root.lookupType(`${packageName}.${name}`),
    plausible: (rpc, random, world) => ({ ...old(rpc, random, world), ...always(rpc) }),
    volumeId: ({ volume, volume_info }) => (volume ?? volume_info).id,
    snapshotId: ({ snapshot }) => snapshot.id,
  };
}

/** The request of v1 with the fields of the old versions. */
function old(rpc: string, random: Random, world: FuzzWorld): Message {
  const request = plausibleRequest(rpc, random, world);
  const source = request['volume_content_source']?.snapshot;
  return { ...request, volume_content_source: source === undefined ? null : { snapshot: { id: source.snapshot_id } } };
}

test(`${EACH} hostile requests over each old version each get a CSI status, and harm nothing`, async () => {
  await assertUnharmed(running, seededRandom('legacy fuzz'), {
    requests: EACH,
    mostMore: EACH,
    protos: [fuzzed('0.3'), fuzzed('0.1')],
    alsoStaged: (volumeId) => [`${staging}/${volumeId}`],
  });
  const inStaging = existsSync(staging) ? readdirSync(staging) : [];
  for (const name of inStaging) assert.deepEqual(readdirSync(`${staging}/${name}`), []);
  const { orchestrator } = running;
  await orchestrator.delete(await orchestrator.create('afterwards'));
});
