/** What a node says of a snapshot that its own node may have lost. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CsiError } from '../../../src/base/errors.js';
import type { BackendRegistry } from '../../../src/driver/backends/registry.js';
import type { ReplicaRecord } from '../../../src/driver/catalogue/records.js';
import { findCopy } from '../../../src/driver/replicas/known-copy.js';
import { replicaRecord, snapshotRecord, volumeRecord } from '../../support/records.js';

const volume = volumeRecord();
const snapshot = { ...snapshotRecord(volume), sequence: 1n };

interface Node {
  replica?: Partial<ReplicaRecord>;
  hasRow?: boolean;
  isHeld?: boolean;
  lacksRows?: boolean;
}

function found({ replica, hasRow = false, isHeld = true, lacksRows = false }: Node) {
  const check = async (): Promise<void> => {
    if (!isHeld) throw CsiError.failedPrecondition('its file is gone');
  };
  const catalogue = {
    snapshotById: async () => (hasRow ? snapshot : null),
    replicaById: async () => (replica === undefined ? null : replicaRecord(volume, replica)),
    uuid: async () => 'uuid',
  };
  const registry = { owning: () => ({ snapshots: { check } }) } as unknown as BackendRegistry;
  return findCopy({ catalogue, registry, lacksRows: () => lacksRows }, snapshot.snapshotId);
}

test('a copy is kept if it is complete and promised, and a snapshot is lost if its pool does not hold it or rows are lost', async () => {
  const isKept = async (replica: Partial<ReplicaRecord>): Promise<boolean> => (await found({ replica })).kept !== null;
  assert.equal(await isKept({ promiseId: 'p', nextOffset: null }), true);
  assert.equal(await isKept({ promiseId: null, nextOffset: null }), false);
  assert.equal(await isKept({ promiseId: 'p', nextOffset: 0n }), false);
  assert.deepEqual(await found({}), { own: 'absent', catalogueUuid: 'uuid', kept: null });
  const own = async (node: Node): Promise<string> => (await found(node)).own;
  assert.equal(await own({ lacksRows: true }), 'lost');
  assert.equal(await own({ hasRow: true }), 'held');
  assert.equal(await own({ hasRow: true, isHeld: false }), 'lost');
  assert.equal(await own({ hasRow: true, lacksRows: true }), 'held');
});
