import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeKey } from '../../../src/base/csi/handles.js';
import { isWithin, nodeSegment } from '../../../src/base/csi/topology.js';
import { parseTopology } from '../../../src/base/csi/topology-fields.js';
import { throwsRefusal } from '../../support/refusal.js';

const KEY = 'blockdelta.csi/node';
const here = { [KEY]: 'node-1' };
const there = { [KEY]: 'node-2' };
const topology = (segments: Record<string, string>) => ({ segments });

test('the segment of a node is its id, or its short name where the id is not a topology value', () => {
  assert.deepEqual(nodeSegment({ topologyKey: KEY, nodeId: 'node-1.example' }), { [KEY]: 'node-1.example' });
  for (const nodeId of ['-node', 'node-', 'a/b', 'a:b', 'n'.repeat(64)]) {
    assert.deepEqual(nodeSegment({ topologyKey: KEY, nodeId }), { [KEY]: nodeKey(nodeId) }, nodeId);
  }
});

test('a node is in a place if it has all segments of it, by keys without case', () => {
  assert.ok(isWithin(here, here));
  assert.ok(isWithin(here, {}));
  assert.ok(isWithin(here, { [KEY.toUpperCase()]: 'node-1' }));
  assert.ok(!isWithin(here, there));
  assert.ok(!isWithin(here, { [KEY]: 'NODE-1' }));
  assert.ok(!isWithin(here, { ...here, 'example.com/zone': 'z1' }));
});

test('keys and values that are none in a topology are refused', () => {
  const keys = ['', '/', 'a/', '/a', 'a/b/c', '-a', 'A.example/a', `${'p'.repeat(64)}/a`, 'ä'];
  for (const key of [...keys, 'n'.repeat(64)]) {
    throwsRefusal(() => parseTopology(topology({ [key]: 'v' }), 'f'), 'INVALID_ARGUMENT', /^f\.segm/);
  }
  for (const value of ['', '-v', 'v-', 'v v', 'v'.repeat(64)]) {
    throwsRefusal(() => parseTopology(topology({ [KEY]: value }), 'f'), 'INVALID_ARGUMENT', /^f\.segm/);
  }
  throwsRefusal(() => parseTopology(topology({ zone: 'a', Zone: 'a' }), 'f'), 'INVALID_ARGUMENT');
  const longest = `${'p'.repeat(63)}/${'n'.repeat(63)}`;
  assert.deepEqual(parseTopology(topology({ [longest]: 'v' }), 'f'), { [longest]: 'v' });
  assert.equal(parseTopology(null, 'f'), null);
});
