/** Copies of snapshots on other nodes: what their rows say, and what changes together with the snapshot. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import type { CopyRecord, NewSnapshot, SnapshotRecord, VolumeRecord } from '../../../src/driver/catalogue/records.js';
import { Copies } from '../../../src/driver/replicas/copies.js';
import { newCopy } from '../../../src/driver/volumes/snapshot-sets.js';
import { type DirectCatalogue, openCatalogueHere } from '../../support/direct-database.js';
import { snapshotRecord, volumeRecord } from '../../support/records.js';
import { temporaryDirectory } from '../../support/temporary.js';

let catalogue: DirectCatalogue;
let volume: VolumeRecord;

beforeEach(() => {
  catalogue = openCatalogueHere(join(temporaryDirectory(), 'catalogue.db'));
  catalogue.registerPool('default', 'uuid-1');
  volume = volumeRecord({ parameters: { pool: 'fast' } });
  catalogue.insertVolume(volume);
});

afterEach(() => catalogue.close());

function take(nodeId: string, fields: Partial<NewSnapshot> = {}): { snapshot: SnapshotRecord; copy: CopyRecord } {
  const fresh = snapshotRecord(volume, { awaitsCopy: true, ...fields });
  const copy = newCopy(fresh.snapshotId, nodeId);
  return { snapshot: catalogue.insertSnapshot(fresh, copy), copy };
}

const copiesOf = (id: string) =>
  [...catalogue.unsettledCopies(), ...catalogue.keptCopies()].filter(({ snapshotId }) => snapshotId === id);

const statesOf = (snapshotId: string): Record<string, string> =>
  Object.fromEntries(copiesOf(snapshotId).map(({ nodeId, state }) => [nodeId, state]));

const awaits = (snapshotId: string): boolean | undefined => catalogue.snapshotById(snapshotId)?.awaitsCopy;

test('a copy is to be made once its snapshot is ready, in the pool that the class of the volume names', () => {
  const { snapshot, copy } = take('b', { state: 'creating' });
  assert.deepEqual(catalogue.unsettledCopies(), []);
  catalogue.commitSnapshot(snapshot.snapshotId, 1n, volume.sizeBytes);
  assert.deepEqual(catalogue.unsettledCopies(), [{ ...copy, volumeId: volume.volumeId, pool: 'fast' }]);
  assert.equal(awaits(snapshot.snapshotId), true);
  catalogue.copyKept(copy.promiseId);
  assert.deepEqual([awaits(snapshot.snapshotId), catalogue.unsettledCopies()], [false, []]);
  assert.deepEqual(catalogue.keptCopies(), [{ ...copy, state: 'kept', volumeId: volume.volumeId, pool: 'fast' }]);
});

test('the removal of a snapshot, or of one that was never taken, records that its copies are to go, in whatever state they are', () => {
  for (const { state, isKept } of [
    { state: 'ready', isKept: true },
    { state: 'ready', isKept: false },
    { state: 'creating', isKept: false },
  ] as const) {
    const { snapshot, copy } = take('b', { state });
    if (isKept) catalogue.copyKept(copy.promiseId);
    catalogue.removeSnapshot(snapshot.snapshotId, null);
    assert.deepEqual(catalogue.unsettledCopies(), [{ ...copy, state: 'ending', volumeId: '', pool: '' }]);
    // A report that comes late.
    catalogue.copyKept(copy.promiseId);
    assert.deepEqual(statesOf(snapshot.snapshotId), { b: 'ending' });
    catalogue.copyEnded(copy.promiseId);
    catalogue.copyEnded(copy.promiseId);
    assert.deepEqual(statesOf(snapshot.snapshotId), {});
  }
});

test('copies are counted, and the newest snapshot that has one is known for each volume', () => {
  const [old, newest, pending, deleted] = [take('b'), take('b'), take('b'), take('b')];
  for (const [at, { snapshot }] of [old, newest, pending, deleted].entries())
    catalogue.commitSnapshot(snapshot.snapshotId, BigInt(at), volume.sizeBytes);
  for (const { copy } of [old, newest, deleted]) catalogue.copyKept(copy.promiseId);
  catalogue.removeSnapshot(deleted.snapshot.snapshotId, null);
  const { copies, volumes } = catalogue.statistics(1);
  assert.deepEqual([copies, volumes[0]?.newestCopyNs], [{ pending: 1, kept: 2, ending: 1 }, 1n]);
});

test('choosing another node gives up the promise of the first in the same change, and only while it is pending', async () => {
  const copies = new Copies({ catalogue: catalogue as never, lacksRows: () => false });
  const { snapshot, copy } = take('b');
  await copies.choose(copy, 'c');
  const [second] = copiesOf(snapshot.snapshotId).filter(({ nodeId }) => nodeId === 'c');
  // The first is to be removed once the second is there.
  assert.deepEqual(statesOf(snapshot.snapshotId), { c: 'pending' });
  assert.match(second?.promiseId ?? '', /^[0-9a-f]{32}$/);
  // The first node has made its copy after all: the snapshot is not ready by it.
  catalogue.copyKept(copy.promiseId);
  await copies.choose(copy, 'd');
  assert.deepEqual(statesOf(snapshot.snapshotId), { c: 'pending' });
  assert.equal(awaits(snapshot.snapshotId), true);
  catalogue.copyKept(second?.promiseId ?? '');
  await copies.choose({ snapshotId: snapshot.snapshotId, promiseId: second?.promiseId ?? '' }, 'd');
  catalogue.copyEnded(second?.promiseId ?? '');
  assert.deepEqual(statesOf(snapshot.snapshotId), { b: 'ending', c: 'kept' });
});

test('a copy that was given up for another node is removed once that one keeps it, or the snapshot is deleted', () => {
  for (const isKept of [true, false]) {
    const { snapshot, copy } = take('b');
    const second = newCopy(snapshot.snapshotId, 'c', copy.promiseId);
    catalogue.chooseCopy(copy.promiseId, second);
    const removed = (): string[] =>
      catalogue.unsettledCopies().flatMap(({ nodeId, state }) => (state === 'ending' ? [nodeId] : []));
    assert.deepEqual(removed(), []);
    if (isKept) catalogue.copyKept(second.promiseId);
    else catalogue.removeSnapshot(snapshot.snapshotId, null);
    assert.deepEqual(removed(), isKept ? ['b'] : ['b', 'c']);
    catalogue.copyEnded(copy.promiseId);
    catalogue.copyEnded(second.promiseId);
  }
});

test('the id of a later choice is greater, also when the clock is set back', () => {
  const tomorrow = (Date.now() + 86_400_000).toString(16).padStart(12, '0');
  for (const instead of [newCopy('snap', 'b').promiseId, `${tomorrow}${'f'.repeat(20)}`, 'e'.repeat(32)]) {
    const { promiseId } = newCopy('snap', 'c', instead);
    assert.match(promiseId, /^[0-9a-f]{32}$/);
    assert.ok(promiseId > instead, `${promiseId} after ${instead}`);
  }
});

test('a failure is the state of a snapshot until the copy is there, is given to another node, or is not wanted any more', async () => {
  const copies = new Copies({ catalogue: catalogue as never, lacksRows: () => false });
  const failed = { kind: 'failed', failure: 'no room' } as const;
  const [kept, chosen, deleted] = [take('b'), take('b'), take('b')];
  const failures = () =>
    [kept, chosen, deleted].map(({ snapshot }) => copies.failureOf('snapshotId', snapshot.snapshotId));
  assert.deepEqual(failures(), [null, null, null]);
  for (const { copy } of [kept, chosen, deleted]) await copies.report(copy, failed);
  assert.deepEqual(failures(), ['no room', 'no room', 'no room']);
  await copies.report(kept.copy, { kind: 'kept' });
  await copies.choose(chosen.copy, 'c');
  catalogue.removeSnapshot(deleted.snapshot.snapshotId, null);
  await copies.unsettled();
  assert.deepEqual(failures(), [null, null, null]);
});

test('a catalogue that has lost rows has nothing removed on another node', async () => {
  let isLost = false;
  const copies = new Copies({ catalogue: catalogue as never, lacksRows: () => isLost });
  const [first, second] = [take('b'), take('b')];
  catalogue.removeSnapshot(first.snapshot.snapshotId, null);
  const states = async () => (await copies.unsettled()).map(({ state }) => state).toSorted();
  assert.deepEqual(await states(), ['ending', 'pending']);
  isLost = true;
  assert.deepEqual(await states(), ['pending']);
  await copies.report(second.copy, { kind: 'kept' });
  assert.equal(awaits(second.snapshot.snapshotId), false);
});

test('a volume has had copies from the first snapshot with one until its own deletion', () => {
  const { volumeId } = volume;
  const isCopied = (): boolean => catalogue.volumeUses(volumeId).copied !== null;
  catalogue.insertSnapshot(snapshotRecord(volume));
  assert.equal(isCopied(), false);
  const { snapshot, copy } = take('b');
  assert.equal(isCopied(), true);
  catalogue.removeSnapshot(snapshot.snapshotId, null);
  catalogue.copyEnded(copy.promiseId);
  assert.equal(isCopied(), true);
  catalogue.removeVolume(volumeId);
  assert.equal(isCopied(), false);
});
