/** Which of many snapshots are backed up, in which order, and what a failure of one does to the others. The driver is a stub. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { newSnapshotId, nodeKey } from '../../../src/base/csi/handles.js';
import { CsiError } from '../../../src/base/errors.js';
import type { BackupResult } from '../../../src/tools/backup/backup.js';
import { backUpMany, type ManyRequest, type Outcome } from '../../../src/tools/backup/backup-many.js';
import type { CsiDriver, Message } from '../../../src/tools/client/csi-driver.js';

interface Snapshot {
  id: string;
  volume: string;
  seconds: number;
}

/** Has these snapshots, lists two at a time, and serves no socket. */
function stubDriver(snapshots: readonly Snapshot[], nodeId = 'this-node'): CsiDriver {
  const entryOf = ({ id, volume, seconds }: Snapshot): Message => ({
    snapshot: { snapshot_id: id, source_volume_id: volume, creation_time: { seconds, nanos: 0 }, ready_to_use: true },
  });
  const call = async (_rpc: string, { snapshot_id: id, starting_token: token }: Message): Promise<Message> => {
    if (id !== undefined) return { entries: snapshots.filter((each) => each.id === id).map(entryOf) };
    const start = Number(token);
    const next = start + 2 < snapshots.length ? `${start + 2}` : '';
    return { entries: snapshots.slice(start, start + 2).map(entryOf), next_token: next };
  };
  const info = { nodeId, controller: new Set(['LIST_SNAPSHOTS']) };
  return { socketPath: '/nonexistent/csi.sock', info: async () => info, call } as unknown as CsiDriver;
}

const resultOf = (volumeId: string): BackupResult =>
  ({ isNew: true, backup: { manifest: { volume: { id: volumeId } } } }) as unknown as BackupResult;

/** Runs with a function in the place of backups. */
async function run(
  snapshots: readonly Snapshot[],
  backUp: (id: string) => Promise<void>,
  more: Partial<ManyRequest> = {},
): Promise<Outcome[]> {
  return backUpMany({
    driver: stubDriver(snapshots),
    snapshotIds: null,
    volumeId: null,
    jobs: 1,
    signal: new AbortController().signal,
    onOutcome: async () => undefined,
    backUp: async (id) => {
      await backUp(id);
      return resultOf(snapshots.find((each) => each.id === id)?.volume ?? '');
    },
    ...more,
  });
}

const endsOf = (outcomes: readonly Outcome[]): [string, string][] =>
  outcomes.map(({ snapshotId, end }) => [snapshotId, Object.keys(end).join()]);

const FIVE: readonly Snapshot[] = [
  { id: 'a3', volume: 'a', seconds: 3 },
  { id: 'b2', volume: 'b', seconds: 2 },
  { id: 'a1', volume: 'a', seconds: 1 },
  { id: 'b1', volume: 'b', seconds: 1 },
  { id: 'a2', volume: 'a', seconds: 2 },
];

test('the snapshots of a volume are backed up oldest first, and all pages of the list are read', async () => {
  const order: string[] = [];
  await run(FIVE, async (id) => void order.push(id));
  assert.deepEqual(order, ['a1', 'a2', 'a3', 'b1', 'b2']);
});

test('several volumes at once are as many as was asked for, and never two snapshots of one volume', async () => {
  const snapshots = Array.from({ length: 24 }, (_, index) => ({
    id: `s${index}`,
    volume: `v${index % 6}`,
    seconds: index,
  }));
  const running = new Set<string>();
  let most = 0;
  const backUp = async (id: string): Promise<void> => {
    const { volume } = snapshots.find((each) => each.id === id) as Snapshot;
    assert.ok(!running.has(volume), id);
    running.add(volume);
    most = Math.max(most, running.size);
    for (let turns = 0; turns < 5; turns += 1) await setImmediate();
    running.delete(volume);
  };
  const outcomes = await run(snapshots, backUp, { jobs: 3 });
  assert.equal(most, 3);
  assert.equal(outcomes.filter(({ end }) => 'result' in end).length, 24);
});

test('a failure of one snapshot stops no other', async () => {
  const outcomes = await run(FIVE, async (id) => {
    if (id === 'a2') throw CsiError.failedPrecondition('damaged');
  });
  assert.deepEqual(endsOf(outcomes), [
    ['a1', 'result'],
    ['a2', 'failure'],
    ['a3', 'result'],
    ['b1', 'result'],
    ['b2', 'result'],
  ]);
});

test('when the driver is gone, the snapshots that are left fail without another attempt', async () => {
  const tried: string[] = [];
  const outcomes = await run(FIVE, async (id) => {
    tried.push(id);
    if (id === 'a2') throw CsiError.unavailable('the driver is gone');
  });
  assert.deepEqual(tried, ['a1', 'a2']);
  assert.deepEqual(endsOf(outcomes).slice(1), [
    ['a2', 'failure'],
    ['a3', 'failure'],
    ['b1', 'failure'],
    ['b2', 'failure'],
  ]);
});

test('an abort ends the run, and the snapshots that are left are not tried', async () => {
  const abort = new AbortController();
  const tried: string[] = [];
  const stopped = run(
    FIVE,
    async (id) => {
      tried.push(id);
      abort.abort(new Error('stopped'));
      throw new Error('a consequence');
    },
    { signal: abort.signal },
  );
  await assert.rejects(stopped, /^Error: stopped$/);
  assert.deepEqual(tried, ['a1']);
});

test('snapshots of other nodes are skipped, and one of this node that is gone fails', async () => {
  const [own, other] = [nodeKey('this-node'), nodeKey('another')];
  const here = { id: newSnapshotId(own), volume: 'a', seconds: 1 };
  const elsewhere = { id: newSnapshotId(other), volume: 'b', seconds: 1 };
  const gone = newSnapshotId(own);
  const tried: string[] = [];
  const backUp = async (id: string): Promise<void> => void tried.push(id);
  const named = await run([here, elsewhere], backUp, {
    snapshotIds: [elsewhere.id, gone, 'foreign', here.id, here.id],
  });
  assert.deepEqual(endsOf(named), [
    [elsewhere.id, 'skipped'],
    [gone, 'failure'],
    ['foreign', 'skipped'],
    [here.id, 'result'],
  ]);
  const listed = await run([here, elsewhere], backUp);
  assert.deepEqual(endsOf(listed), [
    [elsewhere.id, 'skipped'],
    [here.id, 'result'],
  ]);
  assert.deepEqual(tried, [here.id, here.id]);
});

test('a socket without a Node service is asked for every snapshot, so that nothing is skipped in silence', async () => {
  const elsewhere = { id: newSnapshotId(nodeKey('another')), volume: 'b', seconds: 1 };
  const outcomes = await run([elsewhere], async () => undefined, { driver: stubDriver([elsewhere], '') });
  assert.deepEqual(endsOf(outcomes), [[elsewhere.id, 'result']]);
});
