/** Records as CSI messages. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { snapshotMessage } from '../../../src/driver/controller/record-messages.js';
import { snapshotRecord, volumeRecord } from '../../support/records.js';

test('a snapshot names its node, unless other nodes can pull it or the level of CSI has no place for that', () => {
  const config = { nodeId: 'node-1', topologyKey: 'key', controllerPublish: false } as const;
  const placed = (csiLevel: '1.12' | '1.13', ports: number[]) =>
    snapshotMessage({ ...snapshotRecord(volumeRecord()), sequence: 1n }, { ...config, csiLevel, transfers: { ports } })
      .accessible_topology;
  assert.deepEqual(placed('1.13', []), [{ segments: { key: 'node-1' } }]);
  assert.deepEqual(placed('1.13', [10_900]), []);
  assert.deepEqual(placed('1.12', []), []);
});

test('a snapshot is ready to use unless it is being deleted or awaits its copy', () => {
  const config = { nodeId: 'node-1', topologyKey: 'key', controllerPublish: false, csiLevel: '1.12' } as const;
  const isReady = (state: 'ready' | 'deleting', awaitsCopy: boolean) =>
    snapshotMessage(
      { ...snapshotRecord(volumeRecord(), { state, awaitsCopy }), sequence: 1n },
      { ...config, transfers: { ports: [] } },
    ).ready_to_use;
  const found = [isReady('ready', false), isReady('ready', true), isReady('deleting', false)];
  assert.deepEqual(found, [true, false, false]);
});
