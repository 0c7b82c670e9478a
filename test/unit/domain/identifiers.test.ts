import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isVolumeId, newGroupSnapshotId, newSnapshotId, newVolumeId, nodeKey } from '../../../src/base/csi/handles.js';

const SNAPSHOT_ID = /^snap-[0-9a-f]{12}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

test('a node key is 12 hex digits and depends on the node id alone', () => {
  assert.match(nodeKey('worker-1'), /^[0-9a-f]{12}$/);
  assert.equal(nodeKey('worker-1'), nodeKey('worker-1'));
  assert.notEqual(nodeKey('worker-1'), nodeKey('worker-2'));
  // Recorded handles must stay reachable: this value may never change.
  assert.equal(nodeKey('worker-1'), '13029f9e83d1');
});

test('handles carry the node key, fit loop labels and never repeat', () => {
  const key = nodeKey('worker-1');
  const made = new Set<string>();
  for (let count = 0; count < 1000; count += 1) {
    const volumeId = newVolumeId(key);
    const snapshotId = newSnapshotId(key);
    assert.ok(volumeId.startsWith(`vol-${key}-`) && snapshotId.startsWith(`snap-${key}-`));
    assert.ok(isVolumeId(volumeId) && !SNAPSHOT_ID.test(volumeId));
    assert.ok(SNAPSHOT_ID.test(snapshotId) && !isVolumeId(snapshotId));
    const groupId = newGroupSnapshotId(key);
    assert.ok(groupId.startsWith(`group-${key}-`));
    assert.ok(!isVolumeId(groupId) && !SNAPSHOT_ID.test(groupId));
    for (const id of [snapshotId, groupId]) assert.ok(Buffer.byteLength(id) <= 60);
    made.add(volumeId).add(snapshotId).add(groupId);
  }
  assert.equal(made.size, 3000);
});

test('what is not a handle of this plugin is told apart', () => {
  const good = newVolumeId(nodeKey('worker-1'));
  const bad = [
    '',
    'vol',
    'vol-',
    'vol-0123456789ab-../../../../../../etc/passwd0000000',
    `${good} `,
    ` ${good}`,
    `${good}\n`,
    `${good}.tmp`,
    `../${good}`,
    `${good}0`,
    good.toUpperCase(),
    good.slice(0, -1),
    good.replace('vol-', 'snap-').slice(0, 40),
  ];
  for (const id of bad) assert.ok(!isVolumeId(id), JSON.stringify(id));
});
