/**
 * Velero's block data mover in a cluster of two nodes with volumes on other nodes: whichever node the scheduler chooses for the pod
 * of a backup, with the class that docs/velero.md names for it the claim is made beside the snapshot, and no byte is pulled.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, before } from 'node:test';
import { parse } from 'yaml';
import { nodeKey, nodeKeyOf } from '../../../src/base/csi/handles.js';
import { packagePath } from '../../../src/base/package-root.js';
import { checkoutText } from '../../support/checkout-text.js';
import type { VolumeKind } from '../../support/contents.js';
import type { Message } from '../../support/csi-client.js';
import { eventually } from '../../support/eventually.js';
import { MetricsText } from '../../support/metrics-text.js';
import { isNightly } from '../../support/nightly.js';
import { NodeCluster, untilReachable } from '../../support/node-cluster.js';
import type { VolumeSpec } from '../../support/orchestrator.js';
import { seededRandom } from '../../support/random.js';
import { test } from '../../support/running-plugin.js';
import { MOMENTS, type Moment, VeleroMover } from '../../support/velero-mover.js';
import { proveNights } from '../../support/velero-nights.js';
import { skipUnlessRoot } from '../../support/workspace.js';
import { writeAt } from '../../support/write-at.js';

const NODES = [1, 2] as const;
const METRICS = '127.0.0.1:9811';
const ANYWHERE = { remoteSources: 'true' };

let cluster: NodeCluster;
before(async () => {
  if (skipUnlessRoot !== false) return;
  const env = { BLOCKDELTA_METRICS_ADDRESS: METRICS };
  cluster = await NodeCluster.start('velero', { pools: ['xfs', 'btrfs'], poolSizeMiB: 2048, env });
});
after(() => cluster?.dispose());

/** Bytes of snapshots of other nodes that the plugin on the node has fetched since its start. */
function pulledTo(node: number): number | undefined {
  const get = `fetch('http://${METRICS}/metrics').then((answer) => answer.text()).then(console.log)`;
  const [program = '', ...args] = [...cluster.network.on(node), process.execPath, '-e', get];
  const text = execFileSync(program, args, { encoding: 'utf8' });
  return new MetricsText(text.trimEnd()).value('blockdelta_pool_pulled_bytes_total');
}

const assertNothingPulled = (): void => assert.deepEqual(NODES.map(pulledTo), [0, 0]);

/** The parameters of the class that the page's ConfigMap gives to backups of claims of another. */
function parametersForBackupsOf(storageClass: string): Record<string, string> {
  const [, json = ''] = /```json\n(.*?)```/s.exec(checkoutText('docs/velero.md')) ?? [];
  const named = JSON.parse(json).backupPVC[storageClass].storageClass;
  const values = parse(readFileSync(packagePath('deploy/helm/blockdelta/values.yaml'), 'utf8'));
  const found = values.storageClasses.find(({ name }: Message) => name === named);
  assert.ok(found !== undefined, named);
  return found.parameters ?? {};
}

/** As external-provisioner asks when the scheduler has chosen a node. */
const topology = (chosen: number): Message => {
  const on = (node: number): Message => ({ segments: { 'blockdelta.csi/node': cluster.nodeId(node) } });
  return { requisite: NODES.map(on), preferred: [on(chosen), ...NODES.filter((node) => node !== chosen).map(on)] };
};

/** Kills a plugin, or the router, and starts it again. Resolves when the router reaches both nodes. */
async function restart(which: 1 | 2 | 'router'): Promise<void> {
  if (which === 'router') {
    await cluster.router.kill();
    await cluster.startRouter();
  } else {
    await cluster.plugin(which).kill();
    await cluster.startPlugin(which);
  }
  for (const node of NODES) {
    const accessible_topology = { segments: { 'blockdelta.csi/node': cluster.nodeId(node) } };
    await untilReachable(() => cluster.router.client.controller.GetCapacity({ accessible_topology }));
  }
}

const CASES: readonly (readonly [VolumeKind, 1 | 2])[] = [
  ['ext4', 1],
  ['xfs', 2],
  ['btrfs', 1],
];

for (const [kind, node] of isNightly ? CASES : CASES.slice(0, 1)) {
  test(`no night of Velero pulls a byte of a volume with ${kind} on node ${node}, whichever node its pod is to run on`, async (t) => {
    const random = seededRandom(`velero on nodes, ${kind}`);
    const orchestrator = cluster.orchestrator(node);
    // Each twice, so one follows the other at least once.
    const chosen = random.shuffled([1, 2, 1, 2]);
    const claims: (string | null)[] = [];
    const createVolume = async (request: Message): Promise<Message> => {
      const place = chosen[claims.length] ?? assert.fail('there are four backups');
      const made = await cluster.untilMade({ ...request, accessibility_requirements: topology(place) });
      claims.push(nodeKeyOf(made['volume'].volume_id));
      return made;
    };
    const seen = new Map<Moment, number>();
    const meanwhile = async (moment: Moment): Promise<void> => {
      const times = (seen.get(moment) ?? 0) + 1;
      seen.set(moment, times);
      // A restart sets the counters to zero.
      if (isNightly || moment === 'the snapshot is deleted') assertNothingPulled();
      if (isNightly) await restart(random.pick([...NODES, 'router']));
      else if (moment === 'the snapshot is deleted' && times === 2) await restart(node);
    };
    const parameters = parametersForBackupsOf(`blockdelta-${kind}-anywhere`);
    const client = () => cluster.router.client;
    const mover = new VeleroMover({ orchestrator, client, createVolume, parameters, readOnly: false, meanwhile });
    const create = (spec: VolumeSpec) => cluster.create(node, kind, { ...spec, parameters: ANYWHERE });
    t.diagnostic(await proveNights({ kind, grownAfter: 1, random, orchestrator, create, mover }));
    assert.deepEqual(claims, Array(4).fill(nodeKey(cluster.nodeId(node))));
    assert.deepEqual([...seen.keys()], MOMENTS);
    assertNothingPulled();
    // A pull leaves a replica, whatever has restarted since.
    for (const each of NODES) assert.deepEqual(JSON.parse(await cluster.command(t, each, 'replicas', '--json')), []);
  });
}

test('with a class for volumes on other nodes the claim is made on the node of the pod, and its bytes are pulled', async () => {
  const [a, b] = [cluster.orchestrator(1), cluster.orchestrator(2)];
  const volume = await cluster.create(1, 'elsewhere', { parameters: ANYWHERE });
  const target = await a.bringUp(volume);
  const bytes = seededRandom('elsewhere').bytes(1 << 20);
  writeAt(target, 0, bytes);
  const snapshotId = await a.snapshot(volume);
  assertNothingPulled();
  const claim = await cluster.create(2, 'claim', { snapshotId, parameters: ANYWHERE });
  assert.equal(nodeKeyOf(claim.id), nodeKey(cluster.nodeId(2)));
  assert.ok(
    readFileSync(await b.bringUp(claim))
      .subarray(0, bytes.length)
      .equals(bytes),
  );
  // The figures are up to a second old.
  await eventually('what is pulled is counted', () => pulledTo(2) === bytes.length);
  assert.equal(pulledTo(1), 0);
  await b.remove(claim);
  await a.deleteSnapshot(snapshotId);
  await a.remove(volume);
});
