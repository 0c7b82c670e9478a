/**
 * The nightly backups of the chart: its script with the real kubectl against an API server of the test's own that does with claims,
 * snapshots and Jobs what Kubernetes does, before a real router and two real nodes. The Jobs that the chart describes run as
 * processes, without a container, and write to a remote of rclone.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { runCommand } from '../../support/command.js';
import { eventually } from '../../support/eventually.js';
import { type Change, KubernetesApi, type KubernetesObject } from '../../support/kubernetes-api.js';
import { KubernetesControllers } from '../../support/kubernetes-controllers.js';
import { KubernetesJobs } from '../../support/kubernetes-jobs.js';
import { helmTemplate, type Manifest, PROGRAM_PATH, skipWithoutHelm } from '../../support/manifests.js';
import { isNightly } from '../../support/nightly.js';
import { NodeCluster } from '../../support/node-cluster.js';
import { MIB } from '../../support/orchestrator.js';
import { PROGRAM } from '../../support/program.js';
import { seededRandom } from '../../support/random.js';
import { skipUnlessRoot } from '../../support/workspace.js';
import { writeAt } from '../../support/write-at.js';

const skip = skipUnlessRoot === false ? skipWithoutHelm : skipUnlessRoot;
const SIZE = 16 * MIB;
const REPOSITORY = 'rclone:far:nightly';
const random = seededRandom('backup-claims');
/** A thin selection by day, since kubectl costs a third of a second each time. */
const NODES = isNightly ? 2 : 1;
const CLAIMS = [['default', 'orders'] as const, ['shop', 'carts'] as const].slice(0, NODES);

let cluster: NodeCluster;
let api: KubernetesApi;
let controllers: KubernetesControllers;
let jobs: KubernetesJobs;
/** Called after each change, before kubectl hears of it. */
let onChange: (change: Change) => void = () => undefined;
/** Of the claim, whose snapshots the API refuses to make. */
let refusedClaim = '';
/** Of the volumes in use: where their devices are, by the names of the claims. */
const devices = new Map<string, string>();

before(async () => {
  if (skip !== false) return;
  cluster = await NodeCluster.start('claims', { pools: (['xfs', 'btrfs'] as const).slice(0, NODES) });
  const { place } = cluster;
  renderChart();
  api = await KubernetesApi.start({
    exec: async () => ({ code: 1, output: '' }),
    onChange: (change) => onChange(change),
    logOf: (pod) => jobs.logOf(pod),
    refuse: ({ kind, spec }) =>
      kind === 'VolumeSnapshot' && spec.source.persistentVolumeClaimName === refusedClaim
        ? 'a quota of the namespace allows no more snapshots'
        : null,
  });
  controllers = new KubernetesControllers(api, cluster);
  const program = place.path('blockdelta');
  writeFileSync(program, `#!/bin/sh\nexec ${process.execPath} ${PROGRAM} "$@"\n`, { mode: 0o755 });
  const configuration = `[far]\ntype = alias\nremote = ${place.path('objects')}\n`;
  writeFileSync(place.path('rclone.conf'), configuration, { mode: 0o400 });
  jobs = new KubernetesJobs(api, {
    program,
    path: `${process.env['PATH']}:/usr/sbin:/sbin`,
    endpoint: (node) => cluster.plugin(Number(node.split('-')[1])).endpoint,
    place: (volume, node) => {
      if (volume === 'rclone') return place.path('rclone.conf');
      // Short, since sockets are in it.
      const path = place.path(`${volume.split('-')[0]}-${node}`);
      mkdirSync(path, { recursive: true, mode: 0o700 });
      return path;
    },
  });
  const look = api.onObject;
  api.onObject = () => {
    look();
    jobs.look();
  };
  writeFileSync(place.path('kubeconfig'), kubeconfig());
  for (const name of ['node-1', 'node-2']) api.create('nodes', { metadata: { name } });
  api.create('storageclasses', { metadata: { name: 'blockdelta-ext4' }, parameters: {} });
  for (const [index, [namespace, name]] of CLAIMS.entries()) await startClaim(namespace, name, `node-${index + 1}`);
  api.create('persistentvolumes', {
    metadata: { name: 'foreign' },
    spec: { csi: { driver: 'other.csi', volumeHandle: 'far' }, claimRef: { uid: 'its own' } },
    status: { phase: 'Bound' },
  });
  const labels = { backup: 'nightly' };
  const ofOthers = { spec: { volumeName: 'foreign' }, status: { phase: 'Bound' } };
  api.create('persistentvolumeclaims', { metadata: { name: 'foreign', namespace: 'default', labels }, ...ofOthers });
  const waiting = {
    metadata: { name: 'waiting', namespace: 'default', labels },
    spec: {},
    status: { phase: 'Pending' },
  };
  api.create('persistentvolumeclaims', waiting);
});
after(async () => {
  jobs?.stop();
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

const volumeOf = (namespace: string, name: string): KubernetesObject =>
  api.find('persistentvolumes', '', api.find('persistentvolumeclaims', namespace, name)?.spec.volumeName ?? '');
const handleOf = (namespace: string, name: string): string => volumeOf(namespace, name).spec.csi.volumeHandle;

/** A claim that is bound, with a device in use. */
async function startClaim(namespace: string, name: string, node: string): Promise<void> {
  api.create('persistentvolumeclaims', {
    metadata: {
      name,
      namespace,
      labels: { backup: 'nightly' },
      annotations: { 'volume.kubernetes.io/selected-node': node },
    },
    spec: {
      storageClassName: 'blockdelta-ext4',
      accessModes: ['ReadWriteOnce'],
      volumeMode: 'Block',
      resources: { requests: { storage: `${SIZE}` } },
    },
  });
  await eventually(`${name} is bound`, () => volumeOf(namespace, name)?.status.phase === 'Bound');
  const { node: number, volume } = controllers.held(volumeOf(namespace, name));
  devices.set(name, await cluster.orchestrator(number).bringUp(volume));
  write(name, 0, 4 * MIB);
}

const write = (name: string, offset: number, size: number): void =>
  writeAt(devices.get(name) ?? '', offset, random.bytes(size));

interface Run {
  readonly code: number | null;
  readonly output: string;
}

/** What the chart makes of the values. */
let manifests: readonly Manifest[] = [];

function renderChart(backups: object = {}): void {
  manifests = helmTemplate({
    image: { repository: 'registry.example/blockdelta' },
    pools: [{ kind: 'directory' }],
    backups: {
      enabled: true,
      repository: REPOSITORY,
      secret: 'blockdelta-rclone',
      namespaces: ['default', 'shop'],
      selector: 'backup=nightly',
      ...(isNightly ? { keep: { last: 1 } } : {}),
      compress: 'zstd',
      metricsDirectory: '/var/lib/node_exporter',
      kubectl: { image: 'registry.example/kubectl' },
      ...backups,
    },
  });
}

/** Runs the script as the CronJob of the chart does. `killAfter` says after which change it is killed. */
async function night(killAfter: (change: Change) => boolean = () => false): Promise<Run> {
  const find = (kind: string): Manifest =>
    manifests.find((each) => each.kind === kind && each.metadata.name === 'blockdelta-backup') ?? assert.fail(kind);
  const files = cluster.place.path('configuration');
  mkdirSync(files, { recursive: true });
  for (const [name, text] of Object.entries<string>(find('ConfigMap')['data'])) writeFileSync(join(files, name), text);
  const [container] = find('CronJob')['spec'].jobTemplate.spec.template.spec.containers;
  const env = Object.fromEntries(
    container.env.map(({ name, value = 'blockdelta' }: { name: string; value?: string }) => [name, value]),
  );
  const [shell, script] = container.command;
  const child = spawn(shell, [script.replace(env['JOBS'], files)], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...env,
      PATH: PROGRAM_PATH,
      JOBS: files,
      HOME: cluster.place.directory,
      TMPDIR: cluster.place.directory,
      KUBECONFIG: cluster.place.path('kubeconfig'),
      POLL_SECONDS: '1',
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

/** The names of the images of a volume at the remote. */
function imagesOf(namespace: string, name: string): string[] {
  const directory = cluster.place.path('objects', 'nightly', handleOf(namespace, name));
  return readdirSync(directory).filter((each) => each.endsWith('.qcow2'));
}

/** Asserts that nothing is left of a run but its Jobs. */
async function assertClean(count: number): Promise<void> {
  await eventually('the snapshots are deleted', () => api.list('volumesnapshots').length === 0);
  assert.equal(api.list('jobs').length, count);
  for (let node = 1; node <= NODES; node += 1) {
    const volumes = await cluster.plugin(node).client.controller.ListVolumes({});
    assert.equal(volumes['entries'].length, 1, 'no temporary volume is left');
  }
}

/** Asserts that the newest backup is the volume as it is. */
async function assertRestored(t: TestContext, namespace: string, name: string): Promise<void> {
  const file = cluster.place.path(`restored-${name}`);
  const args = ['restore', REPOSITORY, '--volume', handleOf(namespace, name), '--to', file, '--force'];
  const env = { RCLONE_CONFIG: cluster.place.path('rclone.conf'), BLOCKDELTA_RUNTIME_DIR: cluster.place.directory };
  const { code, stderr } = await runCommand(t, args, env);
  assert.equal(code, 0, stderr);
  assert.ok(readFileSync(file).equals(readFileSync(devices.get(name) ?? '')), `${name} is restored as it was`);
}

const line = (namespace: string, name: string, what: string): RegExp =>
  new RegExp(`backup-claims: ${namespace}/${name} \\(${handleOf(namespace, name)}\\): ${what}`);

test('a night backs up each claim from its node, deletes its snapshot, and says what it has done', {
  skip,
}, async () => {
  const { code, output } = await night();
  assert.equal(code, 0, output);
  for (const [namespace, name] of CLAIMS) {
    assert.match(output, line(namespace, name, 'full, \\d+ bytes, there is no backup of an earlier snapshot'));
    assert.equal(imagesOf(namespace, name).length, 1);
  }
  const count = CLAIMS.length;
  assert.match(output, new RegExp(`\nbackup-claims: ${count} backups of ${count} claims, 0 failures\n$`));
  await assertClean(count + (isNightly ? 1 : 0));
  assert.ok(existsSync(cluster.place.path('metrics-node-1', 'blockdelta-backup.prom')));
});

if (isNightly) {
  test('a killed run and a failing claim later, the night is small, though its bases are deleted, and pruned', {
    skip,
  }, async (t) => {
    for (const [namespace, name] of CLAIMS) await assertRestored(t, namespace, name);
    for (const name of devices.keys()) write(name, MIB, 64 * 1024);
    const killed = await night(({ what }) => /^POST jobs\/.*-node-1$/.test(what));
    assert.equal(killed.code, null, killed.output);
    assert.equal(api.list('volumesnapshots').length, 2);

    await startClaim('default', 'late', 'node-1');
    refusedClaim = 'late';
    const { code, output } = await night();
    assert.equal(code, 1, output);
    for (const [namespace, name] of CLAIMS) {
      assert.match(output, line(namespace, name, 'delta, \\d+ bytes\n'));
      assert.equal(imagesOf(namespace, name).length, 1, 'the older one is pruned');
      await assertRestored(t, namespace, name);
    }
    assert.match(output, /a quota of the namespace allows no more snapshots/);
    assert.match(output, /backup-claims: default\/late: no snapshot within 600 s: /);
    assert.match(output, /\nbackup-claims: 2 backups of 3 claims, 1 failures\n$/);
    refusedClaim = '';
  });

  test('a snapshot that cannot be backed up fails its claim alone, and the next night removes it', {
    skip,
  }, async () => {
    const { controller } = cluster.router.client;
    const deleted: Promise<unknown>[] = [];
    const { code, output } = await night(({ what }) => {
      const [mine] = api
        .list('volumesnapshots')
        .filter(({ spec }) => spec.source.persistentVolumeClaimName === 'carts');
      if (/^POST jobs\/.*-node-1$/.test(what))
        deleted.push(controller.DeleteSnapshot({ snapshot_id: mine?.status.handle }));
      return false;
    });
    await Promise.all(deleted);
    assert.equal(code, 1, output);
    assert.match(output, line('shop', 'carts', 'there is no snapshot|no snapshot'));
    assert.match(output, line('default', 'late', 'full'));
    assert.match(output, /\nbackup-claims: 2 backups of 3 claims, 1 failures\n$/);
    await eventually('the others are deleted', () => api.list('volumesnapshots').length === 1);
    const next = await night();
    assert.equal(next.code, 0, next.output);
    await eventually('the snapshots are deleted', () => api.list('volumesnapshots').length === 0);
  });

  test('whenever a run is killed, the next ones leave nothing behind but backups', { skip }, async (t) => {
    const seen = new Set<string>();
    const isNew = ({ what, isEffective }: Change): boolean => {
      const step = what.replace(/blockdelta-backup-\d+/, 'run');
      if (!isEffective || seen.has(step)) return false;
      seen.add(step);
      return true;
    };
    for (;;) {
      const { code, output } = await night(isNew);
      if (code === 0) break;
      assert.equal(code, null, output);
      write('orders', 2 * MIB, 4096);
    }
    t.diagnostic(`killed after ${[...seen].join(', ')}`);
    for (const step of ['POST volumesnapshots/run-1', 'POST jobs/run-node-2', 'POST jobs/run-prune']) {
      assert.ok(seen.has(step), step);
    }
    await eventually('the snapshots are deleted', () => api.list('volumesnapshots').length === 0);
    assert.equal(api.list('jobs').length, 3);
    for (const [namespace, name] of CLAIMS) await assertRestored(t, namespace, name);
  });

  test('a night without any claim to back up fails', { skip }, async () => {
    renderChart({ selector: 'backup=never' });
    const { code, output } = await night();
    assert.equal(code, 1, output);
    assert.match(output, /no claim in default shop has a volume of blockdelta\.csi and the labels 'backup=never'/);
  });
}
