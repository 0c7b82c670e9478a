/**
 * Volumes made on one node from snapshots of another: three nodes in network namespaces, pools of their own, a router, and cables
 * between them. Each volume is compared byte for byte with what the snapshot was taken of.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, fsyncSync, openSync, readdirSync, readFileSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { basename, join } from 'node:path';
import { after, before } from 'node:test';
import { nodeKey, nodeKeyOf } from '../../../src/base/csi/handles.js';
import { type Message, mountCapability } from '../../support/csi-client.js';
import { eventually } from '../../support/eventually.js';
import { blockDiscard } from '../../support/ioctls.js';
import { atNight, isNightly } from '../../support/nightly.js';
import { NodeCluster, untilReachable } from '../../support/node-cluster.js';
import { createRequest, type HeldVolume, MIB } from '../../support/orchestrator.js';
import { seededRandom } from '../../support/random.js';
import { refused } from '../../support/refusal.js';
import { test } from '../../support/running-plugin.js';
import { skipUnlessRoot } from '../../support/workspace.js';

const REMOTE = { remoteSources: 'true' };
const BLOCK = 4096;
const SIZE = 32 * MIB;
const ROUNDS = isNightly ? 30 : 5;

let cluster: NodeCluster;

before(async () => {
  if (skipUnlessRoot !== false) return;
  cluster = await NodeCluster.start('remote', {
    pools: ['xfs', 'btrfs', 'xfs-1k'],
    // A pull takes long enough to be interrupted.
    env: { BLOCKDELTA_TRANSFER_RATE: '16Mi' },
  });
});
after(() => cluster?.dispose());

/** Random writes and discards; the pieces are whole blocks. */
function change(path: string, sizeBytes: number, count: number, random = seededRandom('changes')): void {
  const file = openSync(path, 'r+');
  try {
    for (let index = 0; index < count; index += 1) {
      const length = (1 + random.below(16)) * BLOCK;
      const offset = random.below((sizeBytes - length) / BLOCK) * BLOCK;
      if (random.below(4) === 0) blockDiscard(file, offset, length);
      else writeSync(file, random.bytes(length), 0, length, offset);
    }
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

function fill(path: string, bytes: number): void {
  const file = openSync(path, 'r+');
  writeSync(file, seededRandom('content').bytes(bytes), 0, bytes, 0);
  fsyncSync(file);
  closeSync(file);
}

const on = (...nodes: number[]): Message[] =>
  nodes.map((node) => ({ segments: { 'blockdelta.csi/node': cluster.nodeId(node) } }));

const nodeOf = ({ id }: HeldVolume): string | null => nodeKeyOf(id);

/** The replicas that a node has, by the files of its pool. */
const replicasOn = (node: number): string[] =>
  readdirSync(join(cluster.poolPath(node), 'snapshots')).filter((name) => /\.(replica|pull)$/.test(name));

test('a volume goes through rounds of changes and pulls, also after growth and from deleted bases, and back', async (t) => {
  const random = seededRandom('rounds of pulls');
  const [a, b] = [cluster.orchestrator(1), cluster.orchestrator(3)];
  let size = SIZE;
  const volume = await cluster.create(1, 'rounds', { sizeBytes: size });
  const target = await a.bringUp(volume);
  let last = '';
  for (let round = 0; round < ROUNDS; round += 1) {
    if (round === 2) {
      size += 8 * MIB;
      await a.expand(volume, size);
      await a.nodeExpand(volume);
    }
    change(target, size, round === 0 ? 100 : 30, random);
    const snapshot = await a.snapshot(volume);
    if (last !== '' && round % 2 === 1) await a.deleteSnapshot(last);
    const restored = await cluster.create(3, `round ${round}`, {
      snapshotId: snapshot,
      sizeBytes: size,
      parameters: REMOTE,
    });
    assert.equal(nodeOf(restored), nodeKey('node-3'));
    const path = await b.bringUp(restored);
    assert.ok(readFileSync(path).equals(readFileSync(target)), `round ${round}`);
    if (round === ROUNDS - 1) {
      change(path, size, 20, random);
      const returning = await b.snapshot(restored);
      const back = await cluster.create(1, 'back', { snapshotId: returning, sizeBytes: size, parameters: REMOTE });
      assert.ok(readFileSync(await a.bringUp(back)).equals(readFileSync(path)), 'back');
      await a.remove(back);
    }
    await b.remove(restored);
    const replica = join(cluster.poolPath(3), 'snapshots', `${snapshot}.replica`);
    const [is, was] = [replica, join(cluster.poolPath(1), 'snapshots', snapshot)].map((file) => statSync(file).blocks);
    assert.ok((is ?? 0) <= 1.05 * (was ?? 0), `a replica of ${is} sectors of a snapshot of ${was}`);
    last = snapshot;
  }
  const pulled = [...cluster.plugin(3).log.matchAll(/"base":("snap-[^"]*"|null),"bytes":"?(\d+)/g)];
  assert.equal(pulled.length, ROUNDS);
  assert.equal(pulled.filter(([, base]) => base === 'null').length, 1, 'only the first pull is whole');
  const listed = await cluster.command(t, 3, 'replicas', '--json');
  const own = JSON.parse(listed).filter((row: Message) => row['volumeId'] === volume.id);
  assert.deepEqual([own.length, own.at(-1).id, own.at(-1).state], [ROUNDS, last, 'complete']);
  assert.match(await cluster.command(t, 3, 'replicas'), new RegExp(`^${last} +${volume.id} +main .* complete `, 'm'));
  t.diagnostic(`${pulled.map(([, , bytes]) => bytes).join(', ')} bytes pulled`);
  await a.remove(volume);
});

test('a file system is restored on another node and grown, and one that was never made is made once', async () => {
  const [a, b] = [cluster.orchestrator(1), cluster.orchestrator(2)];
  const capability = mountCapability('ext4');
  const volume = await cluster.create(1, 'files', { sizeBytes: SIZE, capability });
  const empty = await a.snapshot(volume);
  writeFileSync(join(await a.bringUp(volume), 'kept'), 'of node 1');
  const snapshot = await a.snapshot(volume);
  const spec = { sizeBytes: 2 * SIZE, capability, parameters: REMOTE };
  const restored = await cluster.create(2, 'files on 2', { ...spec, snapshotId: snapshot });
  assert.equal(readFileSync(join(await b.bringUp(restored), 'kept'), 'utf8'), 'of node 1');
  const grown = Number(execFileSync('stat', ['-f', '-c', '%b', restored.targetPath], { encoding: 'utf8' }));
  const before = Number(execFileSync('stat', ['-f', '-c', '%b', volume.targetPath], { encoding: 'utf8' }));
  assert.ok(grown > 1.5 * before, `${grown} blocks after ${before}`);
  const fresh = await cluster.create(2, 'empty on 2', { ...spec, snapshotId: empty });
  const path = await b.bringUp(fresh);
  writeFileSync(join(path, 'new'), 'of node 2');
  await b.takeDown(fresh);
  assert.equal(readFileSync(join(await b.bringUp(fresh), 'new'), 'utf8'), 'of node 2');
  const wrong = { ...spec, capability: mountCapability('xfs'), snapshotId: snapshot };
  await refused(cluster.create(2, 'wrong', wrong), 'INVALID_ARGUMENT', /holds ext4/);
  // What a raw volume holds is data, whatever it looks like.
  const raw = await cluster.create(1, 'raw', { sizeBytes: SIZE });
  fill(await a.bringUp(raw), MIB);
  const data = await cluster.create(2, 'raw on 2', { ...spec, snapshotId: await a.snapshot(raw) });
  await refused(b.stage(data), 'FAILED_PRECONDITION');
  await b.delete(data);
  await b.remove(restored, fresh);
  await a.remove(volume, raw);
});

test('a volume is cloned to another node as it was at the first call, and the next clone costs what changed', async (t) => {
  const [a, b] = [cluster.orchestrator(1), cluster.orchestrator(2)];
  const volume = await cluster.create(1, 'cloned', { sizeBytes: SIZE });
  const target = await a.bringUp(volume);
  fill(target, 4 * MIB);
  const listed = await a.snapshotIds();
  const spec = { volumeId: volume.id, sizeBytes: SIZE, parameters: REMOTE };
  const before = readFileSync(target);
  const first = await cluster.create(2, 'clone', spec);
  change(target, SIZE, 10);
  const again = await cluster.create(2, 'clone', spec);
  assert.deepEqual([again.id, nodeOf(first)], [first.id, nodeKey('node-2')]);
  assert.ok(readFileSync(await b.bringUp(first)).equals(before), 'the first clone');
  const second = await cluster.create(2, 'other clone', spec);
  assert.ok(readFileSync(await b.bringUp(second)).equals(readFileSync(target)), 'the second clone');
  const made: Message = await cluster.untilMade({
    ...createRequest('clone', spec),
    accessibility_requirements: { requisite: on(1, 2, 3), preferred: on(2) },
  });
  assert.equal(made['volume'].content_source.volume.volume_id, volume.id);
  assert.deepEqual(await a.snapshotIds(), listed);
  const rows: Message[] = JSON.parse(await cluster.command(t, 2, 'replicas', '--json'));
  const ofClone = rows.find((row) => row['volumeId'] === volume.id)?.['id'];
  const stolen = { snapshotId: ofClone, sizeBytes: SIZE, parameters: REMOTE };
  await refused(cluster.create(2, 'of another clone', stolen), 'RESOURCE_EXHAUSTED', /no replica of it/);
  const [, base] = [...cluster.plugin(2).log.matchAll(/"base":("snap-[^"]*"|null),"bytes"/g)].at(-1) ?? [];
  assert.match(base ?? '', /^"snap-/);
  await refused(
    cluster.create(2, 'of nothing', { ...spec, volumeId: first.id.replace(/^vol-.{12}/, volume.id.slice(0, 16)) }),
    'NOT_FOUND',
  );
  await b.remove(first, second);
  await a.remove(volume);
});

test('the topology and the class decide where a volume is made', async () => {
  const a = cluster.orchestrator(1);
  const volume = await cluster.create(1, 'placed', { sizeBytes: SIZE });
  const snapshotId = await a.snapshot(volume);
  const spec = { snapshotId, sizeBytes: SIZE };
  const make = async (name: string, parameters: Record<string, string>, requirement?: Message) => {
    const accessibility_requirements = requirement === undefined ? {} : { accessibility_requirements: requirement };
    const made = await cluster.untilMade({
      ...createRequest(name, { ...spec, parameters }),
      ...accessibility_requirements,
    });
    const id: string = made['volume'].volume_id;
    await a.delete({ ...volume, id });
    return nodeKeyOf(id);
  };
  assert.equal(await make('free', REMOTE), nodeKey('node-1'));
  assert.equal(await make('equal', REMOTE, { requisite: on(1, 2, 3) }), nodeKey('node-1'));
  assert.deepEqual(
    [replicasOn(2), replicasOn(3)].flat().filter((name) => name.startsWith(snapshotId)),
    [],
  );
  assert.equal(await make('chosen', REMOTE, { requisite: on(1, 2, 3), preferred: on(3, 1, 2) }), nodeKey('node-3'));
  assert.equal(await make('replica', REMOTE, { requisite: on(2, 3) }), nodeKey('node-3'));
  const elsewhere = { requisite: on(2), preferred: on(2) };
  await refused(make('bound', {}, elsewhere), 'RESOURCE_EXHAUSTED', /requisite/);
  await refused(make('off', { remoteSources: 'false' }, elsewhere), 'RESOURCE_EXHAUSTED', /requisite/);
  await refused(make('misspelt', { remoteSources: 'yes' }, elsewhere), 'INVALID_ARGUMENT', /true or false/);
  const unknown = snapshotId.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
  const asked = { ...createRequest('nothing', { ...spec, snapshotId: unknown, parameters: REMOTE }) };
  await refused(
    cluster.untilMade({ ...asked, accessibility_requirements: elsewhere }),
    'NOT_FOUND',
    /does not exist on its node 'node-1'/,
  );
  await a.remove(volume);
});

/** A pull to node 2 that is under way; `made` resolves to the volume. */
async function underWay(name: string) {
  const a = cluster.orchestrator(1);
  const volume = await cluster.create(1, name, { sizeBytes: 2 * SIZE });
  const target = await a.bringUp(volume);
  fill(target, SIZE);
  const content = readFileSync(target);
  const snapshotId = await a.snapshot(volume);
  const made = cluster.create(2, `${name} on 2`, { snapshotId, sizeBytes: 2 * SIZE, parameters: REMOTE });
  made.catch(() => undefined);
  await eventually('the pull is under way', () => replicasOn(2).includes(`${snapshotId}.pull`));
  return { volume, snapshotId, content, made };
}

async function assertArrived({
  made,
  content,
  volume,
  snapshotId,
}: Awaited<ReturnType<typeof underWay>>): Promise<void> {
  const restored = await made;
  const b = cluster.orchestrator(2);
  assert.ok(readFileSync(await b.bringUp(restored)).equals(content));
  await b.remove(restored);
  await cluster.orchestrator(1).remove(volume);
  assert.ok(replicasOn(2).includes(`${snapshotId}.replica`));
}

test('a router that ends in a pull is not missed, and two routers make one volume', async () => {
  const pull = await underWay('routers');
  await cluster.router.kill();
  await cluster.startRouter();
  const other = cluster.startSecondRouter();
  const request = createRequest('routers on 2', {
    snapshotId: pull.snapshotId,
    sizeBytes: 2 * SIZE,
    parameters: REMOTE,
  });
  const requirement = { accessibility_requirements: { requisite: on(1, 2, 3), preferred: on(2) } };
  const again = cluster.create(2, 'routers on 2', {
    snapshotId: pull.snapshotId,
    sizeBytes: 2 * SIZE,
    parameters: REMOTE,
  });
  const second = await cluster.untilMade({ ...request, ...requirement }, (await other).client);
  const restored = await again;
  assert.equal(second['volume'].volume_id, restored.id);
  await (await other).kill();
  await assertArrived({ ...pull, made: again });
});

for (const [which, node, program] of [
  ['that pulls', 2, 'nbdcopy'],
  ['of the snapshot', 1, 'nbdkit'],
] as const) {
  test(`a node ${which} is killed in a pull, and the pull goes on when it is back`, async () => {
    const pull = await underWay(`killed ${node}`);
    await cluster.plugin(node).kill();
    // What the kill leaves: no device of a transfer, and no program.
    await eventually('no program is left', () => !isRunning(program));
    await cluster.startPlugin(node);
    await pull.made.catch(() => undefined);
    const spec = { snapshotId: pull.snapshotId, sizeBytes: 2 * SIZE, parameters: REMOTE };
    const made = await untilReachable(() => cluster.create(2, `killed ${node} on 2`, spec));
    await assertArrived({ ...pull, made: Promise.resolve(made) });
  });
}

/** Whether a process of this cluster runs the program. */
const isRunning = (program: string): boolean =>
  readdirSync('/proc').some((pid) => {
    try {
      const [name = '', ...args] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      return name.endsWith(program) && args.some((argument) => argument.includes(basename(cluster.place.directory)));
    } catch {
      // It has ended, or the entry is no process.
      return false;
    }
  });

// A minute passes before a source counts as lost.
atNight(test)(
  'a cable is cut in a pull: nothing incomplete is kept as the snapshot, and the pull goes on',
  async () => {
    const pull = await underWay('cut');
    cluster.network.cut(1);
    await pull.made.catch(() => undefined);
    await eventually('the piece has failed', () =>
      cluster.plugin(2).log.includes('a piece of a snapshot was not pulled'),
    );
    assert.ok(replicasOn(2).includes(`${pull.snapshotId}.pull`));
    assert.ok(!replicasOn(2).includes(`${pull.snapshotId}.replica`));
    cluster.network.join(1);
    const spec = { snapshotId: pull.snapshotId, sizeBytes: 2 * SIZE, parameters: REMOTE };
    const made = await untilReachable(() => cluster.create(2, 'cut on 2', spec));
    await assertArrived({ ...pull, made: Promise.resolve(made) });
  },
);

test('a snapshot is deleted in a pull: the pull ends, and the volume is made', async (t) => {
  const pull = await underWay('deleted');
  await cluster.orchestrator(1).deleteSnapshot(pull.snapshotId);
  // What the pull uses is no orphan.
  for (const node of [1, 2]) {
    assert.deepEqual(JSON.parse(await cluster.command(t, node, 'gc', '--json')).objects, []);
  }
  await assertArrived(pull);
});

test('a node without ports serves no snapshot, and says which setting it lacks', async () => {
  const [a, b] = [cluster.orchestrator(1), cluster.orchestrator(2)];
  await cluster.plugin(2).stop();
  await cluster.startPlugin(2, { BLOCKDELTA_TRANSFER_PORTS: '' });
  const volume = await untilReachable(() => cluster.create(2, 'no ports', { sizeBytes: SIZE }));
  const snapshotId = await b.snapshot(volume);
  const made = () => cluster.create(1, 'no ports on 1', { snapshotId, sizeBytes: SIZE, parameters: REMOTE });
  await refused(untilReachable(made), 'FAILED_PRECONDITION', /set BLOCKDELTA_TRANSFER_PORTS/);
  assert.deepEqual(
    replicasOn(1).filter((name) => name.startsWith(snapshotId)),
    [],
  );
  await b.delete(volume);
  await a.deleteSnapshot(snapshotId);
  await cluster.plugin(2).stop();
  await cluster.startPlugin(2);
});
