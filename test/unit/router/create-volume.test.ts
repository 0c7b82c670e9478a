/** Placing volumes before nodes that answer when the test says so: what a late answer changes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newSnapshotId, nodeKey } from '../../../src/base/csi/handles.js';
import type { CallContext, RequestOf } from '../../../src/base/csi/service.js';
import { CsiError } from '../../../src/base/errors.js';
import { createLogger } from '../../../src/base/logger.js';
import { VolumePlacement } from '../../../src/router/create-volume.js';
import type { NodeConnection } from '../../../src/router/node-connection.js';
import { eventually } from '../../support/eventually.js';

const KEY = 'blockdelta.csi/node';
const nodes = ['node-a', 'node-b'].map(
  (id) => ({ id, key: id, isConnected: true, unreachableSince: null }) as NodeConnection,
);
const topologies = nodes.map(({ id }) => ({ segments: { [KEY]: id } }));
const request = {
  name: 'twice',
  accessibility_requirements: { requisite: topologies, preferred: topologies },
} as unknown as RequestOf<'CreateVolume'>;

/** node-a comes first, and makes the volume; node-b is slow, fails some times, and then has what `late` says. */
async function placed(late: string, failures = 0) {
  const lines: string[] = [];
  let duplicates = 0;
  const made = new Map<string, string>();
  let answer = (_handle: string): void => undefined;
  const answered = new Promise<string>((resolve) => {
    answer = resolve;
  });
  let asked = 0;
  const slow = async (): Promise<string> => {
    asked += 1;
    const handle = await answered;
    if (asked > 1 && asked <= 1 + failures) throw new Error('the connection was lost');
    return handle;
  };
  const find = async ({ id }: NodeConnection): Promise<string> => (id === 'node-b' ? slow() : (made.get(id) ?? ''));
  const logger = createLogger('info', { write: (line) => lines.push(line) });
  const placement = new VolumePlacement({
    topologyKey: KEY,
    nodes: () => nodes,
    find,
    logger,
    ask: async ({ id }) => {
      made.set(id, `vol-of-${id}`);
      return Buffer.from(id);
    },
    remoteSources: { bring: async () => undefined, hasReplica: async () => false, snapshotForClone: async () => '' },
    isGone: () => false,
    capacityOf: async () => 0n,
    patience: async () => undefined,
    now: () => 0,
    duplicateFound: () => {
      duplicates += 1;
    },
  });
  const created = await placement.create(request, {} as CallContext);
  assert.equal(created.toString(), 'node-a');
  assert.equal(duplicates, 0);
  answer(late);
  return { placement, lines, duplicates: () => duplicates };
}

test('an answer that comes after another node has made the volume reports both handles', async () => {
  const { lines, duplicates } = await placed('vol-of-node-b');
  await eventually('a report', () => duplicates() === 1);
  const { name, volumes } = JSON.parse(lines.join(''));
  assert.deepEqual(
    { name, volumes },
    {
      name: 'twice',
      volumes: [
        { node: 'node-a', volume: 'vol-of-node-a' },
        { node: 'node-b', volume: 'vol-of-node-b' },
      ],
    },
  );
});

test('a late answer that there is no volume reports nothing', async () => {
  const { placement, lines, duplicates } = await placed('');
  await placement.lookAgain();
  assert.deepEqual([duplicates(), lines], [0, []]);
});

test('a node that can be reached and does not answer is asked until it does', async () => {
  const { lines, duplicates } = await placed('vol-of-node-b', 3);
  await eventually('a report', () => duplicates() === 1);
  assert.equal(lines.length, 1);
});

test('a snapshot is pulled by the chosen node only, and without a choice by the node that has it', async () => {
  const [a, b] = nodes as [NodeConnection, NodeConnection];
  const snapshotId = newSnapshotId(nodeKey('node-b'));
  const keyed = [a, b].map((each) => ({ ...each, key: nodeKey(each.id) }) as NodeConnection);
  const asked: string[] = [];
  const brought: string[] = [];
  const placement = new VolumePlacement({
    topologyKey: KEY,
    nodes: () => keyed,
    find: async () => '',
    logger: createLogger('info', { write: () => undefined }),
    ask: async ({ id }) => {
      asked.push(id);
      if (id === 'node-a') throw CsiError.resourceExhausted('full');
      return Buffer.from(id);
    },
    remoteSources: {
      bring: async ({ id }) => void brought.push(id),
      hasReplica: async () => false,
      snapshotForClone: async () => '',
    },
    isGone: () => false,
    capacityOf: async () => 0n,
    patience: async () => undefined,
    now: () => 0,
    duplicateFound: () => undefined,
  });
  const of = (preferred: object[]) =>
    ({
      name: 'from a snapshot',
      parameters: { remoteSources: 'true' },
      volume_content_source: { snapshot: { snapshot_id: snapshotId } },
      accessibility_requirements: { requisite: topologies, preferred },
    }) as unknown as RequestOf<'CreateVolume'>;
  const context = { deadline: Infinity } as CallContext;
  await assert.rejects(placement.create(of(topologies), context), /full/);
  assert.deepEqual([asked, brought], [['node-a'], ['node-a']]);
  assert.equal((await placement.create(of([]), context)).toString(), 'node-b');
  assert.deepEqual([asked, brought], [['node-a', 'node-b'], ['node-a']]);
});
