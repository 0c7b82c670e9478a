import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Pod, PodList } from '../../../src/router/pod-list.js';

const HOUR = 3_600_000;

const pod = (nodeName: string, podIP: string, more: Partial<Pod> = {}): Pod => ({
  spec: { nodeName },
  status: { podIP, phase: 'Running' },
  ...more,
});

test('a node is the name in spec.nodeName, at the address of its pod', () => {
  const list = new PodList(9810);
  const pods = [pod('a', '10.0.0.1'), pod('b', 'fd00::1'), { spec: {} }];
  assert.deepEqual(list.nodesOf(pods, 0), [
    { id: 'a', address: '10.0.0.1:9810' },
    { id: 'b', address: '[fd00::1]:9810' },
  ]);
});

test('of two pods on one node the one that stays counts, then the newest', () => {
  const list = new PodList(1);
  const at = (hour: number) => new Date(hour * HOUR);
  const ending = pod('a', '1.1.1.1', {
    metadata: { creationTimestamp: at(5), deletionTimestamp: at(6) },
  });
  const old = pod('a', '2.2.2.2', { metadata: { creationTimestamp: at(1) } });
  const young = pod('a', '3.3.3.3', { metadata: { creationTimestamp: at(2) } });
  assert.deepEqual(list.nodesOf([ending, old, young], 0), [{ id: 'a', address: '3.3.3.3:1' }]);
  assert.deepEqual(list.nodesOf([ending], 0), [{ id: 'a', address: '1.1.1.1:1' }]);
});

test('a node without a pod, or whose pod has no address yet, stays listed without an address', () => {
  const list = new PodList(1);
  list.nodesOf([pod('a', '1.1.1.1')], 0);
  assert.deepEqual(list.nodesOf([], HOUR), [{ id: 'a', address: null }]);
  assert.deepEqual(list.nodesOf([pod('a', '')], HOUR), [{ id: 'a', address: null }]);
  assert.deepEqual(list.nodesOf([], HOUR + 1), [{ id: 'a', address: null }]);
  assert.deepEqual(list.nodesOf([], 2 * HOUR + 1), []);
  const failed = pod('a', '1.1.1.1', { status: { podIP: '1.1.1.1', phase: 'Failed' } });
  assert.deepEqual(list.nodesOf([failed], 0), [{ id: 'a', address: null }]);
});
