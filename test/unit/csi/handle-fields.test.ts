import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HANDLE_FIELDS } from '../../../src/base/csi/handle-fields.js';
import { CSI_PACKAGE, csiProto } from '../../../src/base/csi/proto.js';
import { fieldsOf } from '../../support/request-fields.js';

const SERVICES = ['Identity', 'Controller', 'GroupController', 'Node', 'SnapshotMetadata'];
/** Names a node, not an object of one. */
const NOT_A_HANDLE = ['node_id'];

test('the table of handle fields lists every id that a request of the proto carries', () => {
  const found: Record<string, string[]> = {};
  for (const service of SERVICES) {
    const { methods } = csiProto().root.lookupService(`${CSI_PACKAGE}.${service}`);
    for (const [rpc, { requestType }] of Object.entries(methods)) {
      const ids = fieldsOf(requestType)
        .map(({ path }) => path)
        .filter((path) => /_ids?$/.test(path.at(-1) ?? ''))
        .filter((path) => !NOT_A_HANDLE.includes(path.at(-1) ?? ''))
        .map((path) => path.join('.'));
      if (ids.length > 0) found[rpc] = ids;
    }
  }
  const sorted = (table: Readonly<Record<string, readonly string[]>>) =>
    Object.entries(table)
      .map(([rpc, paths]) => [rpc, [...paths].sort()])
      .sort();
  assert.deepEqual(sorted(HANDLE_FIELDS), sorted(found));
});
