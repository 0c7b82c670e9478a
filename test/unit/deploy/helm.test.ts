/**
 * deploy/helm/blockdelta, rendered by the real helm: every combination gives valid objects, every value reaches them, wrong
 * values are refused with their names, and deploy/kubernetes/single-node is what the chart makes.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { parse } from 'yaml';
import { packagePath } from '../../../src/base/package-root.js';
import { checkoutText } from '../../support/checkout-text.js';
import { cluster, KEPT, RENDERINGS, render } from '../../support/cluster.js';
import {
  assertValid,
  CHART,
  helmTemplate,
  kustomize,
  type Manifest,
  parseManifests,
  runOnManifests,
  skipWithoutHelm as skip,
} from '../../support/manifests.js';
import { isNightly } from '../../support/nightly.js';
import { temporaryDirectory } from '../../support/temporary.js';

const IMAGE = { image: { repository: 'registry.example/blockdelta' } };
const POOL = { ...IMAGE, pools: [{ kind: 'embedded' }] };

const find = (manifests: readonly Manifest[], kind: string, name?: string): Manifest =>
  manifests.find((each) => each.kind === kind && (name ?? each.metadata.name) === each.metadata.name) ??
  assert.fail(`no ${kind} ${name}`);
const podSpec = (manifests: readonly Manifest[], kind: 'DaemonSet' | 'Deployment') =>
  find(manifests, kind)['spec'].template.spec;

test('chart and plugin have one version', () => {
  const { version } = JSON.parse(checkoutText('package.json'));
  const chart = parse(checkoutText(`${CHART}/Chart.yaml`));
  assert.deepEqual([chart.version, chart.appVersion], [version, version]);
});

test('the rendering of the repository is what scripts/render-manifests makes', { skip }, () => {
  const kept = packagePath(`deploy/kubernetes/${KEPT}`);
  const made = render(KEPT);
  assert.deepEqual(readdirSync(kept), readdirSync(made));
  for (const file of readdirSync(made)) {
    const isSame = readFileSync(join(kept, file), 'utf8') === readFileSync(join(made, file), 'utf8');
    assert.ok(isSame, `${kept}/${file} is not what the chart makes: run scripts/render-manifests`);
  }
});

test('a call without a name makes all renderings, and an unknown name is refused with the known ones', {
  skip,
}, () => {
  const directory = temporaryDirectory();
  const run = (...args: string[]) => spawnSync(packagePath('scripts/render-manifests'), args, { encoding: 'utf8' });
  assert.equal(run('--out', directory).status, 0);
  assert.deepEqual(readdirSync(directory).sort(), RENDERINGS);
  const { status, stderr } = run('--out', directory, 'every-node');
  assert.equal(status, 1);
  assert.match(stderr, /every-node-values\.yaml does not exist: name one of backups .* thin\n$/);
  assert.match(run('--ouch', directory).stderr, /'--ouch .*' is not --out DIR \[NAME\.\.\.\]/);
});

test('kustomize takes a rendering as it is, without a warning', { skip }, () => {
  const byName = (manifests: readonly Manifest[]) =>
    new Map(manifests.map((each) => [`${each.kind} ${each.metadata.name}`, each]));
  assert.deepEqual(byName(kustomize(render('complete'))), byName(cluster('complete').manifests));
});

test('helm finds nothing wrong in the chart, whatever the values', { skip }, () => {
  for (const name of RENDERINGS) {
    const values = `--values=${CHART}/ci/${name}-values.yaml`;
    const { status, stdout } = runOnManifests('helm', ['lint', '--strict', CHART, values]);
    assert.equal(status, 0, stdout);
  }
});

test('values combine freely, for each way and each pool, with all extras and with none', {
  skip,
}, async () => {
  const enabled = { enabled: true };
  const extras = {
    snapshotMetadata: { enabled: true, certManager: true },
    groupSnapshots: enabled,
    podIoLimits: enabled,
    monitoring: enabled,
  };
  const transfers = enabled;
  const kinds = ['directory', 'embedded', 'thin'];
  for (const [index, router] of [
    { enabled: true },
    { enabled: false },
    { enabled: true, certManager: true },
  ].entries()) {
    for (const kind of isNightly ? kinds : kinds.slice(index, index + 1)) {
      for (const chosen of [{}, extras]) {
        const among = chosen === extras && router.enabled ? { transfers } : {};
        const manifests = helmTemplate({ ...IMAGE, ...chosen, ...among, router, pools: [{ kind }] });
        await assertValid(manifests);
        const names = manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
        assert.equal(new Set(names).size, names.length);
      }
    }
  }
});

const BACKUPS = {
  enabled: true,
  repository: 'rclone:far:bucket/of cluster',
  secret: 'far',
  namespaces: ['shop', 'blog', 'shop'],
  kubectl: { image: 'images.example/kubectl:v9' },
};

/** The Jobs that backup-claims makes, by their files. */
function backupJobs(manifests: readonly Manifest[]): ReadonlyMap<string, Manifest> {
  const { data } = find(manifests, 'ConfigMap', 'blockdelta-backup') as { data?: Record<string, string> };
  const files = Object.entries(data ?? {}).filter(([name]) => name.endsWith('.yaml'));
  return new Map(files.map(([name, text]) => [name, ...parseManifests(text)] as [string, Manifest]));
}

test('the CronJob of backups has the script of the chart, a role for each namespace, and Jobs that fit the plugin', {
  skip,
}, async () => {
  const values = { ...POOL, kubeletDirectory: '/var/lib/k0s/kubelet', backups: { ...BACKUPS, keep: { daily: 7 } } };
  const manifests = helmTemplate(values, '--namespace=storage');
  const jobs = backupJobs(manifests);
  assert.deepEqual([...jobs.keys()].sort(), ['backup.yaml', 'prune.yaml']);
  await assertValid([...manifests, ...jobs.values()]);
  const script = checkoutText(`${CHART}/files/backup-claims`);
  assert.equal(find(manifests, 'ConfigMap', 'blockdelta-backup')['data']['backup-claims'].trimEnd(), script.trimEnd());
  const roles = manifests.filter(({ metadata }) => metadata.name === 'blockdelta-backup-claims');
  const places = roles.map(({ kind, metadata }) => `${kind} ${metadata.namespace}`).sort();
  assert.deepEqual(places, ['Role blog', 'Role shop', 'RoleBinding blog', 'RoleBinding shop']);
  const { concurrencyPolicy, jobTemplate } = find(manifests, 'CronJob')['spec'];
  assert.deepEqual([concurrencyPolicy, jobTemplate.spec.backoffLimit], ['Forbid', 0]);
  const [starter] = jobTemplate.spec.template.spec.containers;
  assert.equal(starter.image, 'images.example/kubectl:v9');
  const [, given = ''] = /^# Environment:\n([\s\S]*?)^set /m.exec(script) ?? [];
  const read = [...given.matchAll(/^# {3}([A-Z_]+) /gm)].map(([, name]) => name);
  const set = starter.env.map(({ name }: { name: string }) => name);
  assert.deepEqual(
    read.filter((name) => name !== 'POLL_SECONDS').sort(),
    set.filter((name: string) => name !== 'HOME').sort(),
  );
  const node = podSpec(manifests, 'DaemonSet');
  for (const [file, { metadata, spec }] of jobs) {
    assert.deepEqual([metadata.name, metadata.labels?.['blockdelta.csi/backup']], ['@NAME@', 'storage']);
    const pod = spec.template.spec;
    const [container] = pod.containers;
    assert.deepEqual([pod.automountServiceAccountToken, spec.backoffLimit], [false, 0]);
    assert.equal(container.image, node.containers.find(({ name }: { name: string }) => name === 'plugin').image);
    const isPrivileged = container.securityContext.privileged === true;
    assert.equal(isPrivileged, file === 'backup.yaml');
    const mounted = (name: string) => container.volumeMounts.find((each: { name: string }) => each.name === name);
    assert.deepEqual(mounted('rclone'), {
      name: 'rclone',
      mountPath: '/etc/rclone/rclone.conf',
      subPath: 'rclone.conf',
      readOnly: true,
    });
    const secret = pod.volumes.find(({ name }: { name: string }) => name === 'rclone').secret;
    assert.deepEqual(secret, { secretName: 'far', defaultMode: 0o400 });
    const kubelet = mounted('kubelet-directory');
    assert.equal(kubelet?.mountPropagation, isPrivileged ? 'HostToContainer' : undefined);
    const runtime = container.env.find(({ name }: { name: string }) => name === 'BLOCKDELTA_RUNTIME_DIR').value;
    assert.equal(runtime, isPrivileged ? '/var/lib/k0s/kubelet/blockdelta' : '/spool/run');
  }
  assert.deepEqual([...backupJobs(helmTemplate({ ...POOL, backups: BACKUPS })).keys()], ['backup.yaml']);
});

test('the values of docs/nightly-backups.md make Jobs for their claims', { skip }, async () => {
  const [, text = ''] =
    /^```yaml\n(# my-values\.yaml\n[\s\S]*?)^```$/m.exec(checkoutText('docs/nightly-backups.md')) ?? [];
  const { backups } = parse(text);
  const manifests = helmTemplate({ ...POOL, backups });
  await assertValid([...manifests, ...backupJobs(manifests).values()]);
  assert.ok(JSON.stringify(find(manifests, 'CronJob')).includes(`"${backups.namespaces.join(' ')}"`));
});

test('values of backups reach the Jobs', { skip }, () => {
  const backups = {
    ...BACKUPS,
    keep: { last: 3, monthly: 12 },
    compact: 30,
    compress: 'zstd',
    jobs: 4,
    schedule: '1 2 3 4 5',
    timeZone: 'Europe/Berlin',
    selector: 'backup in (nightly, all)',
    snapshotClass: 'kept',
    snapshotSeconds: 61,
    backupSeconds: 7200,
    spoolDirectory: '/srv/spool',
    metricsDirectory: '/srv/metrics',
    resources: { limits: { memory: '3Gi' } },
  };
  const manifests = helmTemplate({ ...POOL, backups });
  const jobs = backupJobs(manifests);
  const commandOf = (file: string): string[] => jobs.get(file)?.['spec'].template.spec.containers[0].command;
  assert.deepEqual(commandOf('backup.yaml').slice(-10), [
    '7200',
    '/opt/blockdelta/bin/blockdelta',
    'backup',
    '-',
    '--json',
    '--to=rclone:far:bucket/of cluster',
    '--jobs=4',
    '--compress=zstd',
    '--metrics=/metrics/blockdelta-backup.prom',
    '--spool=/spool/images',
  ]);
  assert.deepEqual(commandOf('prune.yaml').slice(-6), [
    'prune',
    'rclone:far:bucket/of cluster',
    '--keep-last=3',
    '--keep-monthly=12',
    '--compact=30',
    '--spool=/spool/images',
  ]);
  const text = JSON.stringify([...jobs.values()]);
  for (const path of ['/srv/spool', '/srv/metrics', '"memory":"3Gi"']) assert.ok(text.includes(path), path);
  const { schedule, timeZone, jobTemplate } = find(manifests, 'CronJob')['spec'];
  assert.deepEqual([schedule, timeZone], ['1 2 3 4 5', 'Europe/Berlin']);
  const { env } = jobTemplate.spec.template.spec.containers[0];
  const value = (wanted: string) => env.find(({ name }: { name: string }) => name === wanted)?.value;
  assert.deepEqual(['NAMESPACES', 'SELECTOR', 'SNAPSHOT_CLASS', 'SNAPSHOT_SECONDS', 'BACKUP_SECONDS'].map(value), [
    'shop blog',
    'backup in (nightly, all)',
    'kept',
    '61',
    '7200',
  ]);
});

test('unknown keys and wrong values are refused, each by its name', { skip }, () => {
  const refused = (values: object): string => {
    const args = ['template', 'release', CHART, '--values=-'];
    const { status, stderr } = runOnManifests('helm', args, JSON.stringify(values));
    assert.equal(status, 1, JSON.stringify(values));
    return stderr;
  };
  assert.match(refused(IMAGE), /pools is empty: name at least one, for example --set 'pools\[0\]\.kind=embedded'/);
  assert.match(
    refused({ ...POOL, image: {} }),
    /image\.repository is empty: build the image .* --set image\.repository=/,
  );
  const sizes = { ...IMAGE, pools: ['1Gi', '2Gi'].map((size) => ({ kind: 'embedded', name: `p${size[0]}`, size })) };
  assert.match(refused(sizes), /all embedded pools have one size/);
  const long = { ...POOL, kubeletDirectory: `/${'long/'.repeat(20)}kubelet` };
  assert.match(refused(long), /the kernel allows at most 107 characters/);
  for (const name of ['repository', 'secret', 'namespaces']) {
    const { [name]: _, ...backups } = BACKUPS as Record<string, unknown>;
    assert.match(refused({ ...POOL, backups }), new RegExp(`backups\\.${name} is empty`));
  }
  assert.match(refused({ ...POOL, backups: { ...BACKUPS, kubectl: {} } }), /backups\.kubectl\.image is empty: name an/);
  const transfers = { enabled: true };
  assert.match(refused({ ...POOL, transfers, router: { enabled: false } }), /transfers\.enabled needs router\.enabled/);
  const own = { ...transfers, firstPort: 9800, count: 9 };
  assert.match(refused({ ...POOL, transfers: own }), /the ports 9800 to 9808 meet 9808 to 9811/);
  const annotations = { 'storageclass.kubernetes.io/is-default-class': 'true' };
  const found = refused({
    pool: {},
    transfers: {
      firstPort: 1023,
      count: 65,
      rate: '100MB',
      storageClasses: [
        { name: 'b', fsType: 'ext4', default: true },
        { name: 'c', fsType: 'ext4', annotations },
      ],
    },
    pools: [
      { kind: 'zfs' },
      { kind: 'directory', path: '/srv/a,b' },
      { kind: 'embedded', size: '100GB' },
      { kind: 'thin', dataDevice: 'sdb' },
    ],
    sidecars: { attacher: {} },
    router: { enable: false },
    settings: {
      LOG_LEVEL: 'info',
      BLOCKDELTA_POOLS: 'a=/b',
      BLOCKDELTA_TRANSFER_PORTS: '10900',
      BLOCKDELTA_RESERVE_PERCENT: 1.5,
    },
    kubeletDirectory: 'var/lib/kubelet',
    driverName: 'Block_Delta',
    backups: {
      repository: 'rclone::s3,secret_access_key=x:bucket',
      keep: { daily: 0, nightly: 1 },
      compress: 'gzip',
      jobs: 33,
      namespaces: ['Shop'],
      metricsDirectory: 'metrics',
    },
    controller: { replicas: 0 },
    storageClasses: [{ name: 'a', fsType: 'ext3' }],
    node: { resources: { requests: { memory: 'much' } } },
  });
  for (const key of ['pool', 'attacher', 'enable', 'nightly']) {
    assert.ok(found.includes(`additional properties '${key}' not allowed`), key);
  }
  const places = [
    'pools/0/kind',
    'pools/1/path',
    'pools/2/size',
    'pools/3/dataDevice',
    'settings',
    'settings/BLOCKDELTA_RESERVE_PERCENT',
    'kubeletDirectory',
    'driverName',
    'backups/repository',
    'backups/keep/daily',
    'backups/compress',
    'backups/jobs',
    'backups/namespaces/0',
    'backups/metricsDirectory',
    'controller/replicas',
    'transfers/firstPort',
    'transfers/count',
    'transfers/rate',
    'transfers/storageClasses/0/default',
    'transfers/storageClasses/1/annotations/storageclass.kubernetes.io~1is-default-class',
    'storageClasses/0/fsType',
    'node/resources/requests/memory',
  ];
  for (const place of places) assert.ok(found.includes(`at '/${place}':`), `${place}\n${found}`);
  for (const name of ['LOG_LEVEL', 'BLOCKDELTA_POOLS', 'BLOCKDELTA_TRANSFER_PORTS'])
    assert.ok(found.includes(`'${name}'`), name);
});

test('settings are in the pod, so that a changed one restarts it, as the plugin reads them', {
  skip,
}, () => {
  const wanted = { BLOCKDELTA_SCAN_THREADS: '10000000', BLOCKDELTA_CHANGE_LISTS: 'off' };
  // Helm reads `off` in a file of values as false.
  const settings = { BLOCKDELTA_SCAN_THREADS: 10_000_000, BLOCKDELTA_CHANGE_LISTS: false };
  const { containers } = podSpec(helmTemplate({ ...POOL, settings }), 'DaemonSet');
  const env = containers.flatMap(({ env = [] }: { env?: object[] }) => env);
  for (const [name, value] of Object.entries(wanted)) {
    assert.ok(
      env.some((each: object) => isDeepStrictEqual(each, { name, value })),
      name,
    );
  }
});

test('ports, rate and classes of transfers are values, up to the last port', { skip }, async () => {
  const storageClasses = [{ name: 'far', fsType: 'xfs', parameters: { pool: 'fast' }, reclaimPolicy: 'Retain' }];
  const transfers = { enabled: true, firstPort: 65_472, count: 64, rate: '2Gi', storageClasses };
  const manifests = helmTemplate({ ...POOL, transfers });
  await assertValid(manifests);
  const { env, ports } = podSpec(manifests, 'DaemonSet').containers[0];
  const value = (wanted: string) => env.find(({ name }: { name: string }) => name === wanted)?.value;
  const [first, last] = [65_472, 65_535];
  assert.equal(value('BLOCKDELTA_TRANSFER_PORTS'), `${first}-${last}`);
  assert.equal(value('BLOCKDELTA_TRANSFER_RATE'), '2Gi');
  assert.deepEqual(ports.at(-1), { name: `transfer-${last}`, containerPort: last, protocol: 'TCP' });
  const policy = find(manifests, 'NetworkPolicy', 'blockdelta-node')['spec'];
  assert.deepEqual(policy.egress[0].ports, [{ port: first, endPort: last, protocol: 'TCP' }]);
  const { parameters, reclaimPolicy } = find(manifests, 'StorageClass', 'far');
  const wanted = { 'csi.storage.k8s.io/fstype': 'xfs', pool: 'fast', remoteSources: 'true' };
  assert.deepEqual([parameters, reclaimPolicy], [wanted, 'Retain']);
  const unlimited = podSpec(helmTemplate({ ...POOL, transfers: { enabled: true } }), 'DaemonSet').containers[0].env;
  assert.ok(!unlimited.some(({ name }: { name: string }) => name === 'BLOCKDELTA_TRANSFER_RATE'));
});

test('image, resources, log level and arguments of each sidecar are values', { skip }, () => {
  const { sidecars } = parse(checkoutText(`${CHART}/values.yaml`), { merge: true });
  const resources = { requests: { cpu: '7m' } };
  const changed = Object.keys(sidecars).map((name) => [
    name,
    { image: `example/${name}:v9`, logLevel: 9, extraArgs: [`--of=${name}`], resources },
  ]);
  const manifests = helmTemplate({
    ...POOL,
    sidecars: Object.fromEntries(changed),
    snapshotMetadata: { enabled: true },
  });
  const containers = [...podSpec(manifests, 'DaemonSet').containers, ...podSpec(manifests, 'Deployment').containers];
  for (const name of Object.keys(sidecars)) {
    const found = containers.find(({ image }) => image === `example/${name}:v9`);
    assert.deepEqual([found?.args[0], found?.args.at(-1)], ['--v=9', `--of=${name}`], name);
    assert.deepEqual(found.resources.requests.cpu, '7m', name);
  }
});

test('names, places and images of the values leave no default behind', { skip }, async () => {
  const placed = { nodeSelector: { disk: 'fast' }, tolerations: [{ key: 'storage' }], affinity: { nodeAffinity: {} } };
  const values = {
    pools: [
      { kind: 'directory', name: 'fast', path: '/mnt/fast' },
      { kind: 'embedded', name: 'spare', size: '7Gi' },
    ],
    image: {
      repository: 'images.example/storage',
      tag: '9.9.9',
      pullPolicy: 'Always',
      digest: `sha256:${'ab'.repeat(32)}`,
    },
    networkPolicies: { apiServerPorts: [7777] },
    imagePullSecrets: [{ name: 'pull' }],
    driverName: 'disks.example',
    kubeletDirectory: '/var/lib/k0s/kubelet',
    listenHost: '[::]',
    node: {
      ...placed,
      resources: { requests: { cpu: '3m' } },
      updateStrategy: { type: 'OnDelete' },
      podLabels: { team: 'storage' },
      podAnnotations: { scraped: 'yes' },
      extraEnv: [{ name: 'NODE_OPTIONS', value: '--import=/opt/trace.mjs' }],
      extraVolumeMounts: [{ name: 'trace', mountPath: '/opt' }],
      extraVolumes: [{ name: 'trace', emptyDir: {} }],
    },
    controller: { ...placed, replicas: 3 },
    router: { nodeCertificatesDirectory: '/opt/tls', settings: { BLOCKDELTA_LOG_LEVEL: 'debug' } },
    snapshotMetadata: { enabled: true, caCert: 'QUFB' },
    groupSnapshots: { enabled: true },
    podIoLimits: { enabled: true },
    monitoring: {
      enabled: true,
      namespace: 'prometheus',
      rules: { enabled: true, documentation: 'https://docs.example/blockdelta' },
      dashboard: { enabled: true, labels: { grafana: 'yes' } },
    },
    volumeSnapshotClasses: [
      { name: 'kept', default: true, annotations: { 'k10.kasten.io/is-snapshot-class': 'true' } },
    ],
    volumeAttributesClasses: [{ name: 'slow', labels: { tier: 'bronze' }, parameters: { readAheadKiB: '4' } }],
    storageClasses: [
      {
        name: 'one',
        fsType: 'xfs',
        default: true,
        parameters: { pool: 'fast' },
        volumeBindingMode: 'Immediate',
        reclaimPolicy: 'Retain',
        allowVolumeExpansion: false,
      },
    ],
  };
  const manifests = helmTemplate(values, '--namespace=storage');
  await assertValid(manifests);
  const text = JSON.stringify(manifests);
  for (const gone of ['registry.example', 'blockdelta.csi', '/var/lib/kubelet', '0.0.0.0', '/srv/']) {
    assert.ok(!text.includes(gone), gone);
  }
  assert.doesNotMatch(text, /"namespace":"(?!storage")/);
  for (const kind of ['DaemonSet', 'Deployment'] as const) {
    const { nodeSelector, tolerations, affinity, imagePullSecrets } = podSpec(manifests, kind);
    assert.deepEqual(nodeSelector, { 'kubernetes.io/os': 'linux', ...placed.nodeSelector });
    assert.deepEqual([tolerations, affinity], [placed.tolerations, placed.affinity]);
    assert.deepEqual(imagePullSecrets, values.imagePullSecrets);
  }
  assert.equal(find(manifests, 'Deployment')['spec'].replicas, 3);
  const tls = podSpec(manifests, 'DaemonSet').volumes.find(({ name }: { name: string }) => name === 'tls');
  assert.equal(tls.hostPath.path, '/opt/tls');
  const { parameters, volumeBindingMode, reclaimPolicy, allowVolumeExpansion, metadata } = find(
    manifests,
    'StorageClass',
  );
  assert.deepEqual(parameters, { 'csi.storage.k8s.io/fstype': 'xfs', pool: 'fast' });
  assert.deepEqual([volumeBindingMode, reclaimPolicy, allowVolumeExpansion], ['Immediate', 'Retain', false]);
  assert.deepEqual(Object.values((metadata as { annotations?: object }).annotations ?? {}), ['true']);
  const { spec } = find(manifests, 'SnapshotMetadataService', 'disks.example');
  assert.deepEqual([spec.address, spec.caCert], ['blockdelta-snapshot-metadata.storage.svc:6443', 'QUFB']);
  assert.match(text, /"images\.example\/storage:9\.9\.9@sha256:(?:ab){32}"/);
  const policy = find(manifests, 'NetworkPolicy', 'blockdelta-controller');
  assert.deepEqual(policy['spec'].egress[0], { ports: [{ port: 7777, protocol: 'TCP' }] });
  assert.match(text, /"kubernetes.io\/metadata.name":"prometheus"/);
  assert.match(text, /"BLOCKDELTA_LOG_LEVEL","value":"debug"/);
  const { template, updateStrategy } = find(manifests, 'DaemonSet')['spec'];
  assert.deepEqual(updateStrategy, { type: 'OnDelete' });
  assert.deepEqual([template.metadata.labels.team, template.metadata.annotations], ['storage', { scraped: 'yes' }]);
  const plugin = template.spec.containers.find(({ name }: { name: string }) => name === 'plugin');
  const env = new Map(plugin.env.map(({ name, value }: { name: string; value: string }) => [name, value]));
  assert.equal(env.get('NODE_OPTIONS'), '--import=/opt/trace.mjs');
  assert.equal(env.get('BLOCKDELTA_POOLS'), 'fast=directory:/mnt/fast,spare=image:/var/lib/blockdelta/pools/spare');
  assert.equal(env.get('BLOCKDELTA_EMBEDDED_POOL_SIZE'), '7Gi');
  assert.ok(plugin.volumeMounts.some(({ name }: { name: string }) => name === 'trace'));
  assert.ok(template.spec.volumes.some(({ name }: { name: string }) => name === 'trace'));
  const annotations = {
    'k10.kasten.io/is-snapshot-class': 'true',
    'snapshot.storage.kubernetes.io/is-default-class': 'true',
  };
  assert.deepEqual(
    (find(manifests, 'VolumeSnapshotClass', 'kept').metadata as { annotations?: object }).annotations,
    annotations,
  );
  assert.equal(find(manifests, 'VolumeAttributesClass', 'slow').metadata.labels?.['tier'], 'bronze');
  assert.match(text, /"runbook_url":"https:\/\/docs\.example\/blockdelta\/alerts\.html#blockdeltadown"/);
  const dashboard = find(manifests, 'ConfigMap', 'blockdelta-dashboard');
  assert.equal(dashboard.metadata.labels?.['grafana'], 'yes');
  assert.deepEqual(
    JSON.parse(dashboard['data']['blockdelta.json']),
    JSON.parse(checkoutText(`${CHART}/files/dashboard.json`)),
  );
});

test('the plugin leaves a node that is labelled for a repair, and the alert rules of the chart are those of the file', {
  skip,
}, () => {
  const manifests = helmTemplate({ ...POOL, monitoring: { enabled: true, rules: { enabled: true } } });
  const [term] = podSpec(manifests, 'DaemonSet').affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
    .nodeSelectorTerms;
  assert.deepEqual(term.matchExpressions, [{ key: 'blockdelta.csi/stopped', operator: 'DoesNotExist' }]);
  assert.ok(checkoutText('docs/runbook.md').includes('kubectl label node "$NODE" blockdelta.csi/stopped=true'));
  assert.deepEqual(find(manifests, 'PrometheusRule')['spec'], parse(checkoutText(`${CHART}/files/alerts.yaml`)));
});

test('the test of the release uses a class that exists, and no rights', { skip }, () => {
  const manifests = helmTemplate(POOL);
  const { spec, metadata } = find(manifests, 'Pod', 'blockdelta-test');
  assert.deepEqual((metadata as { annotations?: object }).annotations, {
    'helm.sh/hook': 'test',
    'helm.sh/hook-delete-policy': 'before-hook-creation,hook-succeeded',
  });
  const [{ ephemeral }] = spec.volumes;
  find(manifests, 'StorageClass', ephemeral.volumeClaimTemplate.spec.storageClassName);
  assert.deepEqual([spec.automountServiceAccountToken, spec.securityContext.runAsNonRoot], [false, true]);
});

const NOTES: [what: string, values: object, said: RegExp[], unsaid: RegExp[]][] = [
  [
    'a router',
    POOL,
    [/^ +deploy\/kubernetes\/certificates\.sh certificates NODE/m],
    [/cert-manager/, /csistoragecapacities/, /caCert/],
  ],
  [
    'a router with cert-manager and changed-block lists',
    { ...POOL, router: { certManager: true }, snapshotMetadata: { enabled: true } },
    [/key of cert-manager's authority first/, /until snapshotMetadata\.caCert/],
    [],
  ],
  [
    'one node',
    { ...POOL, router: { enabled: false }, image: { repository: 'images.example/blockdelta' } },
    [/on one node/, /get csistoragecapacities/],
    [/certificates/, /still an example/],
  ],
  [
    'one node with changed-block lists',
    { ...POOL, router: { enabled: false }, snapshotMetadata: { enabled: true } },
    [/^ +deploy\/kubernetes\/certificates\.sh certificates$/m],
    [],
  ],
];

for (const [what, values, said, unsaid] of NOTES) {
  test(`the notes of an installation have the next commands: ${what}`, { skip }, () => {
    const args = ['install', 'mine', CHART, '--dry-run=client', '--namespace=blockdelta', '--values=-'];
    const { status, stdout, stderr } = runOnManifests('helm', args, JSON.stringify(values));
    assert.equal(status, 0, stderr);
    const [, notes = ''] = stdout.split('\nNOTES:\n');
    for (const words of [...said, /^ +helm -n blockdelta test mine$/m]) assert.match(notes, words);
    for (const words of unsaid) assert.doesNotMatch(notes, words);
  });
}

test('every part that templates share is used', () => {
  const directory = `${CHART}/templates`;
  const templates = readdirSync(packagePath(directory), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.\w+$/.test(name))
    .map((name) => checkoutText(`${directory}/${name}`))
    .join('\n');
  for (const [, name = ''] of templates.matchAll(/define "([\w.]+)"/g)) {
    assert.ok(templates.includes(`include "${name}"`), name);
  }
});
