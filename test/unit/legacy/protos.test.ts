/** proto/csi-v0.3.proto and proto/csi-v0.1.proto against the descriptors of the two versions. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type protobuf from 'protobufjs';
import { loadProto } from '../../../src/base/csi/proto.js';
import { legacyRpcs } from '../../../src/driver/legacy/interfaces.js';
import { checkoutText } from '../../support/checkout-text.js';
import { assertSame, type Description, describe } from '../csi/proto-description.js';

/** With the numbers of rpcs, messages and enums that the specifications have. */
const VERSIONS = [
  { version: '0.3', packageName: 'csi.v0', sizes: [21, 62, 5] },
  { version: '0.1', packageName: 'csi', sizes: [16, 44, 3] },
] as const;

/** The specifications have no mark for secrets. The plugin's marks are compared in a test of their own. */
function withoutMarks(description: Description): Description {
  return JSON.parse(JSON.stringify(description), (key, value) => (key === 'secret' ? undefined : value)) as Description;
}

function mapsOf(type: protobuf.Type): protobuf.Field[] {
  return type.fieldsArray.filter((field) => field.map);
}

for (const { version, packageName, sizes } of VERSIONS) {
  const { root } = loadProto(`proto/csi-v${version}.proto`, packageName, []);
  const descriptor = JSON.parse(checkoutText(`test/fixtures/csi-descriptor-${version}.json`)) as Description & {
    package: string;
  };

  test(`the proto of CSI ${version} holds every service, rpc, message, field and value of the descriptor, and no other`, () => {
    const description = describe(root, packageName);
    assert.equal(descriptor.package, packageName);
    assertSame(withoutMarks(description), descriptor);
    const rpcs = Object.values(description.services).flatMap((service) => Object.keys(service.rpcs));
    const found = [rpcs, Object.keys(description.messages), Object.keys(description.enums)];
    assert.deepEqual(
      found.map(({ length }) => length),
      sizes,
    );
  });

  test(`every map of CSI ${version} that can hold secrets is marked`, () => {
    const harmless = /^(parameters|volume_attributes|attributes|publish\w*info|manifest|segments)$/;
    const names = Object.keys(descriptor.messages);
    const maps = names.flatMap((name) => mapsOf(root.lookupType(`${packageName}.${name}`)));
    assert.ok(maps.length > 10);
    for (const field of maps) {
      const isMarked = field.getOption('(csi_secret)') === true;
      assert.equal(isMarked, !harmless.test(field.name), field.fullName);
    }
  });

  test(`every rpc of CSI ${version} is served`, () => {
    const served = legacyRpcs([version], { directory: '/nowhere', publicationsOf: async () => [] });
    const expected = Object.entries(descriptor.services).flatMap(([service, { rpcs }]) =>
      Object.keys(rpcs).map((rpc) => `/${packageName}.${service}/${rpc}`),
    );
    assert.deepEqual(served.map(({ definition }) => definition.path).sort(), expected.sort());
  });
}
