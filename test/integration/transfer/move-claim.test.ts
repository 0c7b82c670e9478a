/**
 * deploy/kubernetes/move-claim with the real kubectl against an API server of the test's own that does with claims, volumes,
 * snapshots and pods what Kubernetes does, before a real router and two real nodes. It is killed after every change, nodes die in
 * between, and nothing of the claim is ever lost or in use twice.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { packagePath } from '../../../src/base/package-root.js';
import { runCommand } from '../../support/command.js';
import { eventually } from '../../support/eventually.js';
import { type Change, KubernetesApi, type KubernetesObject } from '../../support/kubernetes-api.js';
import { KubernetesControllers } from '../../support/kubernetes-controllers.js';
import { PROGRAM_PATH, skipWithoutHelm } from '../../support/manifests.js';
import { isNightly } from '../../support/nightly.js';
import { NodeCluster } from '../../support/node-cluster.js';
import { MIB } from '../../support/orchestrator.js';
import { seededRandom } from '../../support/random.js';
import { refused } from '../../support/refusal.js';
import { skipUnlessRoot } from '../../support/workspace.js';

const SCRIPT = packagePath('deploy/kubernetes/move-claim');
const skip = skipUnlessRoot === false ? skipWithoutHelm : skipUnlessRoot;
const SIZE = 32 * MIB;
/** After which changes the command is killed. */
const EACH = isNightly ? 1 : 4;
const random = seededRandom('move-claim');

let cluster: NodeCluster;
let api: KubernetesApi;
let controllers: KubernetesControllers;
/** Called after each change, before kubectl hears of it. */
let onChange: (change: Change) => void = () => undefined;
const changes: string[] = [];

before(async () => {
  if (skip !== false) return;
  cluster = await NodeCluster.start('move-claim', { pools: ['xfs', 'btrfs'] });
  api = await KubernetesApi.start({
    exec: async ([, ...args]) => {
      const ended = await runCommand({ after: () => undefined }, args, { CSI_ENDPOINT: cluster.router.endpoint });
      return { code: ended.code ?? 1, output: ended.stdout + ended.stderr };
    },
    onChange: (change) => {
      if (change.isEffective) changes.push(change.what);
      // The workload writes as long as it runs.
      controllers.write(random.bytes(4096), 4096 * random.below(SIZE / 4096));
      onChange(change);
    },
  });
  controllers = new KubernetesControllers(api, cluster);
  writeFileSync(cluster.place.path('kubeconfig'), kubeconfig());
  for (const name of ['node-1', 'node-2']) api.create('nodes', { metadata: { name } });
  const parameters = { remoteSources: 'true' };
  api.create('storageclasses', { metadata: { name: 'blockdelta-ext4-anywhere' }, parameters });
  api.create('storageclasses', { metadata: { name: 'blockdelta-ext4' }, parameters: {} });
  api.create('volumesnapshotclasses', { metadata: { name: 'blockdelta' } });
  const labels = { app: 'router' };
  const selector = { matchLabels: labels };
  api.create('deployments', {
    metadata: { name: 'blockdelta-controller', namespace: 'blockdelta' },
    spec: { selector },
  });
  api.create('pods', {
    metadata: { name: 'controller', namespace: 'blockdelta', labels },
    spec: { containers: [{ name: 'router' }] },
    status: { phase: 'Running' },
  });
});
after(async () => {
  controllers?.stop();
  api?.close();
  await cluster?.dispose();
});

const kubeconfig = (): string =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'test',
    clusters: [{ name: 'test', cluster: { server: api.url } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    users: [{ name: 'test', user: {} }],
  });

interface Run {
  readonly code: number | null;
  readonly output: string;
}

/** Runs move-claim. `killAfter` says after which change it is killed. */
async function moveClaim(args: readonly string[], killAfter: (change: Change) => boolean = () => false): Promise<Run> {
  const child = spawn(SCRIPT, args, {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: PROGRAM_PATH,
      HOME: cluster.place.directory,
      KUBECONFIG: cluster.place.path('kubeconfig'),
      POLL_SECONDS: '0.1',
    },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  onChange = (change) => {
    if (child.pid !== undefined && killAfter(change)) process.kill(-child.pid, 'SIGKILL');
  };
  const [code] = await once(child, 'close');
  onChange = () => undefined;
  return { code, output };
}

const claimNamed = (name: string): KubernetesObject => api.find('persistentvolumeclaims', 'default', name);
const volumeOf = (name: string): KubernetesObject =>
  api.find('persistentvolumes', '', claimNamed(name)?.spec.volumeName ?? '');

/** A claim on node 1 and a StatefulSet whose pod uses it and has written to it. */
async function startWorkload(name: string): Promise<KubernetesObject> {
  api.create('persistentvolumeclaims', {
    metadata: {
      name,
      namespace: 'default',
      labels: { app: name },
      annotations: { 'volume.kubernetes.io/selected-node': 'node-1', note: 'a "quoted" one' },
      finalizers: ['kubernetes.io/pvc-protection'],
    },
    spec: {
      storageClassName: 'blockdelta-ext4',
      accessModes: ['ReadWriteOnce'],
      volumeMode: 'Block',
      resources: { requests: { storage: `${SIZE}` } },
    },
  });
  api.create('statefulsets', { metadata: { name, namespace: 'default' }, spec: { replicas: 1, claim: name } });
  await eventually('the pod runs', () => controllers.path !== null);
  controllers.write(random.bytes(8 * MIB), 0);
  return volumeOf(name);
}

/** Everything of a workload goes, and no pod, claim, volume or snapshot is left. */
async function removeWorkload(name: string): Promise<void> {
  api.patch('statefulsets', { metadata: { name, namespace: 'default' } }, { spec: { replicas: 0 } });
  await eventually('the pod is gone', () => api.find('pods', 'default', `${name}-0`) === undefined);
  api.delete('statefulsets', api.find('statefulsets', 'default', name));
  for (const volume of api.list('persistentvolumes')) {
    api.patch('persistentvolumes', volume, { spec: { persistentVolumeReclaimPolicy: 'Delete' } });
  }
  for (const claim of api.list('persistentvolumeclaims')) api.delete('persistentvolumeclaims', claim);
  await eventually('nothing is left', () =>
    ['persistentvolumeclaims', 'persistentvolumes', 'volumesnapshots'].every((kind) => api.list(kind).length === 0),
  );
}

/** Which of the volumes a kubelet could use now; those in use count. */
async function usable(volumes: readonly KubernetesObject[]): Promise<string[]> {
  const found: string[] = [];
  for (const each of volumes) {
    const { node, volume } = controllers.held(each);
    const orchestrator = cluster.orchestrator(node);
    const isStaged = await orchestrator.stage(volume).then(
      () => true,
      () => false,
    );
    if (!isStaged) continue;
    found.push(volume.id);
    // A pod may use it by now.
    await orchestrator.unstage(volume).catch(() => undefined);
  }
  return found;
}

/** The old volume of a claim, and the one that is made to take its place. */
function volumesOfMove(old: KubernetesObject, name: string): KubernetesObject[] {
  const others = [volumeOf(`${name}-move-last`), volumeOf(name)];
  return [...new Set([old, ...others].filter((each) => each !== undefined).map(({ metadata }) => metadata.name))]
    .map((each) => api.find('persistentvolumes', '', each))
    .filter((each) => each !== undefined);
}

async function assertMoved(name: string, old: KubernetesObject): Promise<void> {
  const [claim, volume] = [claimNamed(name), volumeOf(name)];
  assert.notEqual(volume.metadata.name, old.metadata.name);
  assert.equal(controllers.held(volume).node, 2);
  assert.deepEqual(claim.metadata.labels, { app: name });
  const { note, ...system } = claim.metadata.annotations;
  assert.deepEqual([note, system], ['a "quoted" one', { 'pv.kubernetes.io/bind-completed': 'yes' }]);
  assert.equal(claim.spec.storageClassName, 'blockdelta-ext4');
  assert.equal(volume.spec.persistentVolumeReclaimPolicy, 'Delete');
  await eventually('the pod runs again', () => controllers.path !== null);
  assert.equal(controllers.found, controllers.left);
  const kept = api.find('persistentvolumes', '', old.metadata.name);
  assert.deepEqual([kept.spec.persistentVolumeReclaimPolicy, kept.status.phase], ['Retain', 'Released']);
  assert.deepEqual(Object.keys(kept.metadata.annotations), ['blockdelta.csi/moved']);
  assert.deepEqual(api.list('volumesnapshots'), []);
  const { node, volume: held } = controllers.held(old);
  await refused(cluster.orchestrator(node).stage(held), 'FAILED_PRECONDITION', /is superseded/);
}

test('a claim moves with all its data, whenever the command is killed and run again, and is never usable twice', {
  skip,
}, async (t) => {
  const old = await startWorkload('data');
  const args = ['data', '--to', 'node-2', '--workload', 'statefulset/data'];
  const made: string[] = [];
  const killedAfter: string[] = [];
  const seen = new Set<string>();
  const isNew = ({ what, isEffective, body }: Change): boolean => {
    // A change that a run repeats is not the next one.
    if (!isEffective || seen.has(what + body)) return false;
    seen.add(what + body);
    made.push(what);
    if (made.length % EACH !== 0) return false;
    killedAfter.push(what);
    return true;
  };
  for (;;) {
    const { code, output } = await moveClaim(args, isNew);
    const volumes = volumesOfMove(old, 'data');
    const found = await usable(volumes);
    assert.ok(found.length <= 1, `${killedAfter.at(-1)}: ${found.join(' and ')} can be used`);
    if (code === 0) break;
    assert.equal(code, null, output);
  }
  t.diagnostic(`killed after ${killedAfter.length} of ${made.length} changes: ${killedAfter.join(', ')}`);
  for (const what of [
    'EXEC cordon',
    'EXEC supersede',
    'POST persistentvolumeclaims/data-move-last',
    'POST persistentvolumeclaims/data',
  ]) {
    assert.ok(
      made.some((each) => each.startsWith(what)),
      what,
    );
  }
  await assertMoved('data', old);
  const twice = await moveClaim(['data', '--to', 'node-2']);
  assert.match(`${twice.code} ${twice.output}`, /^0 move-claim: claim default\/data is on node node-2\n$/);
  const deleted = await moveClaim(['data', '--delete-source']);
  assert.equal(deleted.code, 0, deleted.output);
  assert.equal(api.find('persistentvolumes', '', old.metadata.name), undefined);
  await removeWorkload('data');
});

test('nodes that die in between delay the move, and lose nothing', { skip }, async () => {
  const old = await startWorkload('dying');
  const died: string[] = [];
  const dies = async (node: number, what: string): Promise<void> => {
    died.push(what);
    await cluster.plugin(node).kill();
    await cluster.startPlugin(node);
  };
  const at: Readonly<Record<string, number>> = {
    'POST persistentvolumeclaims/dying-move-1': 2,
    'POST volumesnapshots/dying-move-last': 1,
    'POST persistentvolumeclaims/dying-move-last': 2,
    'DELETE persistentvolumeclaims/dying': 1,
  };
  const restarts: Promise<void>[] = [];
  const { code, output } = await moveClaim(
    ['dying', '--to', 'node-2', '--workload', 'statefulset/dying', '--until', '0', '--rounds', '2'],
    ({ what }) => {
      const node = at[what];
      if (node !== undefined && !died.includes(what)) restarts.push(dies(node, what));
      return false;
    },
  );
  await Promise.all(restarts);
  assert.equal(code, 0, output);
  assert.equal(died.length, 4);
  await eventually('the nodes can be reached', async () => (await usable([volumeOf('dying')])).length === 1);
  await assertMoved('dying', old);
  await removeWorkload('dying');
});

test('a move is undone until the new volume takes the place of the old one, and not after that', {
  skip,
}, async () => {
  const old = await startWorkload('undone');
  const args = ['undone', '--to', 'node-2', '--workload', 'statefulset/undone'];
  const points = [`PATCH persistentvolumes/pvc-`, 'EXEC cordon', 'POST volumesnapshots/undone-move-1'];
  for (const point of isNightly ? points : points.slice(0, 2)) {
    const isLast = point.startsWith('PATCH');
    const killed = await moveClaim(args, ({ what, isEffective }) =>
      isLast
        ? isEffective &&
          what.startsWith(point) &&
          what !== `PATCH persistentvolumes/${old.metadata.name}` &&
          claimNamed('undone-move-last') !== undefined
        : what.startsWith(point),
    );
    assert.equal(killed.code, null, killed.output);
    const dry = await moveClaim([...args, '--dry-run']);
    assert.match(`${dry.code} ${dry.output}`, /^1 move-claim: claim undone is being moved/);
    const elsewhere = await moveClaim(['undone', '--to', 'node-1']);
    assert.match(
      `${elsewhere.code} ${elsewhere.output}`,
      /^1 move-claim: claim undone is being moved to node node-2: /,
    );
    const { code, output } = await moveClaim(['undone', '--abort']);
    assert.equal(code, 0, output);
    const kept = api.find('persistentvolumes', '', old.metadata.name);
    assert.equal(kept.spec.persistentVolumeReclaimPolicy, 'Delete');
    assert.deepEqual(Object.keys(kept.metadata.annotations), []);
    assert.deepEqual([api.list('volumesnapshots').length, api.list('persistentvolumeclaims').length], [0, 1]);
    await eventually('the pod runs again', () => controllers.path !== null);
    assert.equal(volumeOf('undone').metadata.name, old.metadata.name);
  }
  const none = await moveClaim(['undone', '--abort']);
  assert.match(`${none.code} ${none.output}`, /^1 move-claim: claim default\/undone is not being moved\n$/);
  const superseding = await moveClaim(args, ({ what }) => what.startsWith('EXEC supersede'));
  assert.equal(superseding.code, null);
  const late = await moveClaim(['undone', '--abort']);
  assert.match(`${late.code} ${late.output}`, /^1 move-claim: volume \S+ is taking the place of /);
  assert.equal((await moveClaim(args)).code, 0);
  await assertMoved('undone', old);
  await removeWorkload('undone');
});

test('what cannot be moved is refused before anything changes, a dry run changes nothing, and nothing of others is touched', {
  skip,
}, async () => {
  await startWorkload('still');
  changes.length = 0;
  for (const [args, why] of [
    [['nothing', '--to', 'node-2'], /there is no claim default\/nothing that is bound/],
    [['still', '--to', 'node-3'], /there is no node node-3/],
    [
      ['still', '--to', 'node-2', '--class', 'blockdelta-ext4'],
      /there is no StorageClass blockdelta-ext4 with the parameter remoteSources/,
    ],
    [['still', '--to', 'node-2', '--snapshot-class', 'other'], /there is no VolumeSnapshotClass other/],
    [['still', '--to', 'node-2', '--workload', 'statefulset/other'], /there is no statefulset\/other/],
    [['still', '--delete-source'], /claim default\/still has no old volume/],
  ] as const) {
    const { code, output } = await moveClaim(args);
    assert.match(`${code} ${output}`, new RegExp(`^1 move-claim: ${why.source}`));
  }
  const dry = await moveClaim(['still', '--to', 'node-2', '--dry-run']);
  assert.match(
    `${dry.code} ${dry.output}`,
    /^0 move-claim: would move claim default\/still .* from node node-1 to node node-2, by class /,
  );
  assert.equal((await moveClaim(['still'])).code, 2);
  assert.equal((await moveClaim(['--bad'])).code, 2);
  assert.deepEqual(changes, []);
  const metadata = { name: 'still-move-1', namespace: 'default' };
  const foreign = api.create('volumesnapshots', { metadata, status: { readyToUse: true } });
  const stopped = await moveClaim(['still', '--to', 'node-2']);
  assert.match(
    `${stopped.code} ${stopped.output}`,
    /^1 [\s\S]*volumesnapshot still-move-1 is in the way, which this move has not made/,
  );
  assert.equal((await moveClaim(['still', '--abort'])).code, 0);
  assert.notEqual(api.find('volumesnapshots', 'default', 'still-move-1'), undefined);
  api.delete('volumesnapshots', foreign);
  await removeWorkload('still');
});

test('all claims of a node move, and a backup after that is full, not wrong', { skip }, async () => {
  const old = await startWorkload('drained');
  const { controller } = cluster.router.client;
  const before = await controller.CreateSnapshot({ name: 'before', source_volume_id: old.spec.csi.volumeHandle });
  api.patch('statefulsets', { metadata: { name: 'drained', namespace: 'default' } }, { spec: { replicas: 0 } });
  await eventually(
    'the pod is gone',
    () => controllers.path === null && api.find('pods', 'default', 'drained-0') === undefined,
  );
  const { code, output } = await moveClaim(['--node', 'node-1', '--to', 'node-2']);
  assert.equal(code, 0, output);
  api.patch('statefulsets', { metadata: { name: 'drained', namespace: 'default' } }, { spec: { replicas: 1 } });
  await assertMoved('drained', old);
  const again = await moveClaim(['--node', 'node-1', '--to', 'node-2']);
  assert.deepEqual(again, { code: 0, output: '' });
  const { volumeHandle } = volumeOf('drained').spec.csi;
  const after = await controller.CreateSnapshot({ name: 'after', source_volume_id: volumeHandle });
  const [base, target] = [before.snapshot.snapshot_id, after.snapshot.snapshot_id];
  await refused(cluster.router.client.delta(base, target), 'INVALID_ARGUMENT', /belong to different nodes/);
  assert.ok((await cluster.router.client.allocated(target)).ranges.length > 0);
  for (const snapshot_id of [base, target]) await controller.DeleteSnapshot({ snapshot_id });
  await removeWorkload('drained');
});
