/**
 * The renderings of the chart for kubectl: objects that are valid by the published schemas, refer to
 * each other, give the plugin and the router settings that they accept, and nobody more rights than docs/kubernetes.md
 * lists.
 */
import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { test } from 'node:test';
import type { VolumeCapability } from '../../../src/base/csi/volume-capability.js';
import { SOCKET_PATH_MAX } from '../../../src/base/settings/values.js';
import { LAST_RESORT_MS } from '../../../src/cli/service-process.js';
import { parseConfig, SETTINGS } from '../../../src/driver/config/config.js';
import { isOrchestratorKey } from '../../../src/driver/csi/orchestrator-keys.js';
import { isFileSystem } from '../../../src/driver/host/file-systems.js';
import { parseDeviceSettings } from '../../../src/driver/volumes/device-settings.js';
import { parseVolumeParameters } from '../../../src/driver/volumes/volume-parameters.js';
import { parseRouteConfig, ROUTE_SETTINGS } from '../../../src/router/settings.js';
import { checkoutText } from '../../support/checkout-text.js';
import {
  type Cluster,
  cluster,
  container,
  flag,
  forEveryRendering,
  KEPT,
  KUBERNETES_DOCUMENT,
  type Pod,
  RENDERINGS,
} from '../../support/cluster.js';
import { assertValid, type Manifest, skipWithoutHelm as skip } from '../../support/manifests.js';

/** Its account and its role. */
const ROUTER = 'blockdelta-router';
/** The account of the nightly backups. Its roles begin with this name. */
const BACKUP = 'blockdelta-backup';
const GUARDIAN = '/opt/blockdelta/bin/blockdelta-guardian';
const DRIVER = SETTINGS.BLOCKDELTA_DRIVER_NAME.fallback;
/** The renderings that have a component. */
const WITH_GROUPS = ['group-snapshots', 'complete'];
const WITH_METADATA = ['snapshot-metadata', 'complete'];
const WITH_TRANSFERS = ['complete'];
const isRouted = ({ name }: Cluster): boolean => name !== KEPT;

const plugin = (of: Cluster) => container(of.node, 'plugin');
const hasTransfers = ({ name }: Cluster): boolean => WITH_TRANSFERS.includes(name);
const DEFAULT_CLASS = 'storageclass.kubernetes.io/is-default-class';
/** The ports of a NetworkPolicy that are given by number. */
const numbered = ({ port, endPort = port }: { port: number; endPort?: number }): number[] =>
  Array.from({ length: endPort - port + 1 }, (_, index) => port + index);
const rolesOf = (of: Cluster) => [...of.of('Role'), ...of.of('ClusterRole')];
const bindingsOf = (of: Cluster) => [...of.of('RoleBinding'), ...of.of('ClusterRoleBinding')];

/** The rows of a table below a heading of docs/kubernetes.md. */
function rowsBelow(heading: string, row: RegExp): string[][] {
  const [, section = ''] = KUBERNETES_DOCUMENT.split(`\n## ${heading}\n`);
  return [...(section.split('\n## ')[0] ?? '').matchAll(row)].map((match) => match.slice(1));
}

forEveryRendering('every object is valid, is there once, and has its namespace', async (cluster) => {
  await assertValid(cluster.manifests);
  const clusterWide = [
    'Namespace',
    'CSIDriver',
    'ClusterRole',
    'ClusterRoleBinding',
    'StorageClass',
    'VolumeSnapshotClass',
    'VolumeGroupSnapshotClass',
    'VolumeAttributesClass',
    'SnapshotMetadataService',
  ];
  const names = cluster.manifests.map(({ kind, metadata: { name, namespace } }) => {
    const own = name === `${BACKUP}-claims` ? 'default' : 'blockdelta';
    const wanted = clusterWide.includes(kind) ? undefined : own;
    assert.equal(namespace, wanted, `${kind} ${name}`);
    return `${kind} ${name}`;
  });
  assert.ok(names.length > 20);
  assert.equal(new Set(names).size, names.length);
});

test('a field that the schema does not know is found', { skip }, async () => {
  const daemonSet = structuredClone(cluster('complete').of('DaemonSet'));
  const { containers } = daemonSet[0]?.['spec'].template.spec ?? assert.fail();
  containers[0].volumeMount = [];
  await assert.rejects(assertValid(daemonSet), /0\/volumeMount is not in the schema/);
});

forEveryRendering('plugin and router accept their environments', (cluster) => {
  const node = cluster.environment(plugin(cluster));
  assert.ok(Object.keys(node).every((name) => name in SETTINGS) && 'BLOCKDELTA_POOLS' in node);
  const { driverName, shutdownGraceMs } = parseConfig(node);
  assert.equal(driverName, DRIVER);
  const graceOf = ({ spec }: Pod) => Number(spec['terminationGracePeriodSeconds']) * 1000;
  assert.ok(graceOf(cluster.node) > shutdownGraceMs + LAST_RESORT_MS);
  const id = plugin(cluster).env?.find(({ name }) => name === 'BLOCKDELTA_NODE_ID');
  assert.equal(id?.valueFrom?.fieldRef.fieldPath, 'spec.nodeName');
  const router = cluster.controller.containers.find(({ name }) => name === 'router');
  if (router === undefined) return;
  const { NAMESPACE: namespace, ...env } = cluster.environment(router);
  assert.ok(Object.keys(env).every((name) => name in ROUTE_SETTINGS));
  const inPod = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' };
  const { source, ...config } = parseRouteConfig({ ...env, ...inPod });
  assert.equal(config.driverName, DRIVER);
  assert.ok(source.kind === 'kubernetes' && source.namespace === namespace);
  const account = source.access.accountDirectory;
  assert.ok(router.volumeMounts.some(({ mountPath }) => mountPath === account));
  assert.ok(graceOf(cluster.controller) > config.shutdownGraceMs + LAST_RESORT_MS);
});

forEveryRendering('every object and path names the same driver', (cluster) => {
  const named = [
    ...cluster.of('CSIDriver').map(({ metadata }) => metadata.name),
    ...cluster.of('SnapshotMetadataService').map(({ metadata }) => metadata.name),
    ...cluster.of('StorageClass').map(({ provisioner }) => provisioner),
    ...cluster.of('VolumeAttributesClass').map(({ driverName }) => driverName),
    ...cluster.of('VolumeSnapshotClass').map(({ driver }) => driver),
    ...cluster.of('VolumeGroupSnapshotClass').map(({ driver }) => driver),
  ];
  assert.deepEqual([...new Set(named)], [DRIVER]);
  const socket = `/var/lib/kubelet/plugins/${DRIVER}/csi.sock`;
  assert.ok(socket.length <= SOCKET_PATH_MAX);
  const registrar = container(cluster.node, 'node-driver-registrar');
  assert.equal(flag(registrar, 'kubelet-registration-path'), socket);
  const directory = cluster.node.volumes.find(({ name }) => name === 'plugin-directory');
  assert.equal(`${directory?.hostPath?.path}/csi.sock`, socket);
});

forEveryRendering('every class has parameters that the plugin accepts', (cluster) => {
  const classes = cluster.of('StorageClass');
  assert.equal(classes.length, hasTransfers(cluster) ? 6 : 3);
  for (const { parameters, volumeBindingMode, allowVolumeExpansion } of classes) {
    const fsType = parameters['csi.storage.k8s.io/fstype'];
    assert.ok(isFileSystem(fsType), fsType);
    assert.equal(Object.keys(parameters).filter(isOrchestratorKey).length, 1);
    const capability = { accessType: 'mount', fsType } as unknown as VolumeCapability;
    parseVolumeParameters(parameters, { capabilities: [capability], isRestored: false });
    assert.deepEqual([volumeBindingMode, allowVolumeExpansion], ['WaitForFirstConsumer', true]);
  }
  const modifiable = cluster.of('VolumeAttributesClass');
  assert.ok(modifiable.length > 0);
  for (const { parameters } of modifiable) parseDeviceSettings(parameters, 'parameters');
  const keys = modifiable.flatMap(({ parameters }) => Object.keys(parameters));
  const root = cluster.environment(plugin(cluster))['BLOCKDELTA_CGROUP_ROOT'];
  assert.equal(
    root !== undefined,
    keys.some((key) => key.endsWith('PerSecond')),
    'limits of pods are offered only where the plugin can set them',
  );
  if (root === undefined) return;
  const mount = plugin(cluster).volumeMounts.find(({ mountPath }) => mountPath === root);
  assert.ok(mount !== undefined && mount.readOnly !== true);
});

forEveryRendering('the CSIDriver object says what the plugin does', (cluster) => {
  assert.deepEqual(cluster.of('CSIDriver')[0]?.['spec'], {
    attachRequired: SETTINGS.BLOCKDELTA_CONTROLLER_PUBLISH.fallback !== 'off',
    podInfoOnMount: true,
    storageCapacity: true,
    fsGroupPolicy: 'File',
    requiresRepublish: false,
    seLinuxMount: false,
    volumeLifecycleModes: ['Persistent'],
  });
});

forEveryRendering('what the plugin mounts reaches the kubelet, at the same path', (cluster) => {
  const { volumeMounts } = plugin(cluster);
  const both = volumeMounts.filter(({ mountPropagation }) => mountPropagation === 'Bidirectional');
  assert.deepEqual(both.map(({ mountPath }) => mountPath).sort(), ['/var/lib/blockdelta', '/var/lib/kubelet']);
  const { pools, stateDirectory } = parseConfig(cluster.environment(plugin(cluster)));
  const unshared = new Set([stateDirectory, ...pools.map(({ directory }) => directory)]);
  for (const { name, mountPath, mountPropagation } of volumeMounts) {
    const { hostPath } = cluster.node.volumes.find((volume) => volume.name === name) ?? {};
    if (hostPath === undefined || name === 'plugin-directory' || name === 'cgroups') continue;
    assert.equal(hostPath.path, mountPath);
    if (mountPropagation === undefined) continue;
    for (const path of unshared) if (`${path}/`.startsWith(`${mountPath}/`)) unshared.delete(path);
  }
  assert.deepEqual([...unshared], []);
});

forEveryRendering('the plugin alone is privileged, root file systems are read-only', (cluster) => {
  const capabilities: string[] = checkoutText('docs/security.md').match(/CAP_[A-Z_]+/g) ?? [];
  for (const pod of cluster.pods) {
    for (const { name, securityContext } of pod.containers) {
      assert.equal(securityContext['readOnlyRootFilesystem'], true, name);
      assert.equal(securityContext['privileged'] === true, name === 'plugin', name);
      if (name === 'plugin') continue;
      assert.equal(securityContext['allowPrivilegeEscalation'], false, name);
      const { drop, add = [] } = securityContext['capabilities'] as Record<string, string[]>;
      assert.deepEqual(drop, ['ALL'], name);
      for (const added of add) assert.ok(capabilities.includes(`CAP_${added}`), added);
    }
    for (const field of ['hostNetwork', 'hostPID', 'hostIPC']) {
      assert.equal(pod.spec[field], undefined, `${pod.owner}: ${field}`);
    }
  }
  // Behind a router nothing of the controller runs as root or sees the host.
  const { spec, volumes } = cluster.controller;
  const { runAsUser, runAsNonRoot } = spec['securityContext'] as Record<string, unknown>;
  assert.deepEqual([runAsNonRoot, runAsUser !== 0], [isRouted(cluster), isRouted(cluster)]);
  assert.deepEqual(
    volumes.flatMap(({ hostPath }) => hostPath?.path ?? []),
    isRouted(cluster) ? [] : [`/var/lib/kubelet/plugins/${DRIVER}`],
  );
});

forEveryRendering('the plugin has no limits, is evicted last and probed patiently', (cluster) => {
  const { resources, livenessProbe } = plugin(cluster);
  assert.deepEqual([resources.requests === undefined, resources.limits], [false, undefined]);
  assert.equal(cluster.node.spec['priorityClassName'], 'system-node-critical');
  assert.deepEqual(cluster.node.spec['tolerations'], [{ operator: 'Exists' }]);
  assert.equal(cluster.controller.spec['priorityClassName'], 'system-cluster-critical');
  assert.ok(livenessProbe);
  const { periodSeconds, failureThreshold = 3, timeoutSeconds } = livenessProbe;
  assert.ok(periodSeconds * failureThreshold >= 300);
  const timeout = flag(container(cluster.node, 'livenessprobe'), 'probe-timeout');
  assert.ok(Number.parseInt(timeout ?? '', 10) < timeoutSeconds);
});

forEveryRendering(
  'the guardian starts first, has one capability, and shares a socket with the plugin alone',
  (cluster) => {
    const [guardian, ...others] = cluster.node.containers;
    assert.ok(guardian?.name === 'guardian' && guardian.restartPolicy === 'Always');
    const { runAsUser, capabilities, seccompProfile } = guardian.securityContext;
    assert.deepEqual([runAsUser, capabilities], [0, { drop: ['ALL'], add: ['SYS_ADMIN'] }]);
    assert.deepEqual(seccompProfile, { type: 'RuntimeDefault' });
    const [program, option, socket, ...rest] = guardian.command ?? [];
    assert.deepEqual([program, option, rest], [GUARDIAN, '--listen', []]);
    assert.equal(cluster.environment(plugin(cluster))['BLOCKDELTA_GUARDIAN_SOCKET'], socket);
    const [mount, ...more] = guardian.volumeMounts;
    assert.deepEqual([dirname(socket ?? ''), more], [mount?.mountPath, []]);
    const sharing = others.filter(({ volumeMounts }) =>
      volumeMounts.some((each) => each.name === mount?.name && each.mountPath === mount.mountPath),
    );
    assert.deepEqual(sharing, [plugin(cluster)]);
    const volume = cluster.node.volumes.find(({ name }) => name === mount?.name);
    assert.deepEqual(volume?.['emptyDir'], { medium: 'Memory', sizeLimit: '1Mi' });
  },
);

forEveryRendering('every reference leads to an object', (cluster) => {
  const certificates = cluster.of('Certificate').map(({ spec }) => spec.secretName);
  const issued = cluster.of('Issuer').flatMap(({ spec }) => spec.ca?.secretName ?? []);
  for (const name of issued) assert.ok(certificates.includes(name), name);
  for (const pod of cluster.pods) {
    assert.ok(cluster.has('ServiceAccount', pod.account), pod.account);
    const mounts = pod.containers.flatMap(({ volumeMounts }) => volumeMounts);
    const mounted = new Set(mounts.map(({ name }) => name));
    assert.deepEqual([...mounted].sort(), pod.volumes.map(({ name }) => name).sort(), pod.owner);
    for (const { secret } of pod.volumes) {
      if (secret === undefined || cluster.has('Secret', secret.secretName)) continue;
      if (certificates.length > 0) assert.ok(certificates.includes(secret.secretName));
      assert.match(secret.secretName, /^blockdelta-(router|snapshot-metadata)-tls$/);
      assert.match(KUBERNETES_DOCUMENT, new RegExp(`^\\| \`${secret.secretName}\` \\|`, 'm'));
    }
  }
  for (const { roleRef, subjects } of bindingsOf(cluster)) {
    assert.ok(cluster.has(roleRef.kind, roleRef.name), roleRef.name);
    const [{ kind, name, namespace }, ...others] = subjects;
    assert.ok(cluster.has(kind, name), name);
    const other = [ROUTER, BACKUP].find((each) => roleRef.name.startsWith(each));
    const account = other ?? cluster.controller.account;
    assert.deepEqual([name, namespace, others], [account, 'blockdelta', []]);
  }
  for (const { spec } of cluster.of('Certificate')) {
    assert.ok(cluster.has(spec.issuerRef.kind, spec.issuerRef.name));
  }
});

forEveryRendering('ports have one user in a pod, and whatever names a port finds it', (cluster) => {
  const portsOf = (pods: readonly Pod[]) =>
    pods.flatMap(({ containers }) => containers.flatMap(({ ports = [] }) => ports));
  /** Ports of components that a rendering does not have are no targets. */
  const assertPort = (pods: readonly Pod[], port: string, ...optional: string[]): void => {
    const names = [...portsOf(pods).map(({ name }) => name), ...optional];
    assert.ok(names.includes(port), port);
  };
  for (const pod of cluster.pods) {
    const ports = portsOf([pod]);
    for (const key of ['containerPort', 'name'] as const) {
      assert.equal(new Set(ports.map((port) => port[key])).size, ports.length, pod.owner);
    }
    // The limit of the API.
    for (const { name } of ports) assert.ok(name.length <= 15, name);
    for (const each of pod.containers) {
      for (const probe of [each.startupProbe, each.livenessProbe, each.readinessProbe]) {
        if (probe !== undefined) assertPort([pod], probe.httpGet.port);
      }
      const env = cluster.environment(each);
      const endpoints = [
        env['BLOCKDELTA_LISTEN_ADDRESS'],
        env['BLOCKDELTA_METRICS_ADDRESS'],
        flag(each, 'http-endpoint'),
        flag(each, 'port')?.replace(/^/, ':'),
      ];
      // livenessprobe serves the port of the container that it probes.
      if (each.name === 'livenessprobe') continue;
      for (const endpoint of endpoints) {
        const isOwn = each.ports?.some(({ containerPort }) => endpoint?.endsWith(`:${containerPort}`));
        assert.ok(endpoint === undefined || isOwn, `${each.name}: ${endpoint}`);
      }
    }
  }
  for (const { metadata, spec } of cluster.of('Service')) {
    const pods = cluster.selectedBy(spec.selector);
    assert.equal(pods.length, 1, metadata.name);
    for (const { targetPort } of spec.ports) assertPort(pods, targetPort);
  }
  for (const { spec } of cluster.of('NetworkPolicy')) {
    assert.ok(cluster.selectedBy(spec.podSelector.matchLabels).length > 0);
    for (const { ports, from } of spec.ingress ?? []) {
      for (const { port } of ports) {
        if (typeof port === 'string') assertPort(cluster.pods, port, 'md-health', 'metrics');
      }
      for (const { podSelector } of from) {
        if (podSelector === undefined) continue;
        assert.ok(cluster.selectedBy(podSelector.matchLabels).length > 0);
      }
    }
    for (const { ports, to = [] } of spec.egress ?? []) {
      const targets = to.flatMap((each: Manifest) => cluster.selectedBy(each['podSelector'].matchLabels));
      for (const { port } of ports) if (typeof port === 'string') assertPort(targets, port);
    }
  }
  for (const { spec } of [...cluster.of('PodMonitor'), ...cluster.of('PodDisruptionBudget')]) {
    const pods = cluster.selectedBy(spec.selector.matchLabels);
    assert.equal(pods.length, 1);
    for (const { port } of spec.podMetricsEndpoints ?? []) assertPort(pods, port, 'md-health');
  }
});

forEveryRendering('all containers find the CSI socket, and one serves it', (cluster) => {
  for (const pod of cluster.pods) {
    const servers = pod.containers.filter(({ env = [] }) => env.some(({ name }) => name === 'CSI_ENDPOINT'));
    const isController = pod === cluster.controller;
    assert.equal(servers.length, isController && !isRouted(cluster) ? 0 : 1, pod.owner);
    for (const server of servers) {
      assert.equal(cluster.environment(server)['CSI_ENDPOINT'], 'unix:///csi/csi.sock');
    }
    for (const { name, args, volumeMounts } of pod.containers) {
      if (name === 'guardian') continue;
      const mount = volumeMounts.find(({ mountPath }) => mountPath === '/csi');
      assert.equal(mount?.name, isController ? 'socket-directory' : 'plugin-directory', name);
      for (const arg of args.filter((each) => each.startsWith('--csi-address'))) {
        assert.equal(arg, '--csi-address=/csi/csi.sock', name);
      }
    }
  }
});

forEveryRendering('a router needs certificates and a way to nodes, one node neither', (cluster) => {
  const env = cluster.environment(plugin(cluster));
  const routers = cluster.controller.containers.filter(({ name }) => name === 'router');
  assert.equal(routers.length, isRouted(cluster) ? 1 : 0);
  for (const router of routers) {
    assert.equal(cluster.controller.containers[0], router);
    assert.equal(router.restartPolicy, 'Always', 'it goes on beside the others');
    assert.ok(router.startupProbe !== undefined, 'they wait for it');
  }
  assert.equal(env['BLOCKDELTA_LISTEN_ADDRESS'] !== undefined, isRouted(cluster));
  const [policy] = cluster.of('NetworkPolicy').filter((each) => each.metadata.name === 'blockdelta-node');
  const port = policy?.['spec'].ingress?.[0].ports[0].port;
  assert.equal(port, isRouted(cluster) ? 'csi' : undefined);
  assert.equal(cluster.has('PodDisruptionBudget', 'blockdelta-controller'), isRouted(cluster));
  for (const router of routers.map((each) => cluster.environment(each))) {
    assert.ok(env['BLOCKDELTA_LISTEN_ADDRESS']?.endsWith(`:${router['BLOCKDELTA_ROUTE_PORT']}`));
    const rest = router['BLOCKDELTA_ROUTE_NODES']?.slice('kubernetes:blockdelta/'.length) ?? '';
    const labels = Object.fromEntries(rest.split(',').map((part) => part.split('=')));
    assert.deepEqual(cluster.selectedBy(labels), [cluster.node]);
    const usages: Record<string, string> = { 'blockdelta-router': 'client auth', 'blockdelta-node': 'server auth' };
    const peers = [env, router].map((each) => each['BLOCKDELTA_TLS_PEER_NAME']);
    assert.deepEqual(peers, Object.keys(usages));
    for (const { spec } of cluster.of('Certificate')) {
      const usage = usages[spec.dnsNames?.[0] ?? ''];
      if (usage !== undefined) assert.ok(spec.usages.includes(usage));
    }
  }
});

forEveryRendering(
  'H38: the container that the network reaches reads pods, and nodes if there are copies, and has no other right',
  (cluster) => {
    const routers = cluster.controller.containers.filter(({ name }) => name === 'router');
    const granted = (account: string) =>
      bindingsOf(cluster)
        .filter(({ subjects }) => subjects[0].name === account)
        .flatMap(({ roleRef }) => rolesOf(cluster).filter((role) => isReferenced(role, roleRef)))
        .flatMap(({ kind, rules }) => rules.map((rule: object) => ({ kind, ...rule })));
    const reads = (kind: string, resource: string) => ({
      kind,
      apiGroups: [''],
      resources: [resource],
      verbs: ['list', 'watch'],
    });
    const wanted = [reads('Role', 'pods'), ...(hasTransfers(cluster) ? [reads('ClusterRole', 'nodes')] : [])];
    for (const router of routers) {
      const secrets = router.volumeMounts.flatMap(({ name, mountPath }) => {
        const volume = cluster.controller.volumes.find((each) => each.name === name);
        assert.equal(volume?.['projected'], undefined, 'of the account of the pod');
        return mountPath.startsWith('/var/run/secrets') ? (volume?.secret?.secretName ?? '') : [];
      });
      const [secret, ...others] = cluster.of('Secret');
      assert.deepEqual([secrets, others], [[secret?.metadata.name], []]);
      assert.equal(secret?.['type'], 'kubernetes.io/service-account-token');
      const { annotations } = (secret?.metadata ?? {}) as { annotations?: object };
      assert.deepEqual(annotations, { 'kubernetes.io/service-account.name': ROUTER });
      assert.deepEqual(granted(ROUTER), wanted);
      const sharing = cluster.pods
        .flatMap(({ containers }) => containers)
        .filter(({ volumeMounts }) => volumeMounts.some(({ name }) => name === 'router-token'));
      assert.deepEqual(sharing, [router]);
    }
    assert.deepEqual(granted(cluster.node.account), []);
  },
);

const isReferenced = ({ kind, metadata }: Manifest, roleRef: { kind: string; name: string }) =>
  kind === roleRef.kind && metadata.name === roleRef.name;

forEveryRendering(
  'H38: a node connects to transfers of other nodes alone, and the controller only to some',
  (cluster) => {
    const egressOf = (name: string) => {
      const policy = cluster.of('NetworkPolicy').find(({ metadata }) => metadata.name === name);
      assert.deepEqual(policy?.['spec'].policyTypes, ['Ingress', 'Egress']);
      return policy?.['spec'].egress;
    };
    const amongNodes = egressOf('blockdelta-node') ?? [];
    assert.equal(amongNodes.length, hasTransfers(cluster) ? 1 : 0);
    const [api, nodes, ...others] = egressOf('blockdelta-controller');
    assert.deepEqual([api.to, others], [undefined, []]);
    assert.ok(api.ports.every(({ port }: { port: unknown }) => typeof port === 'number'));
    assert.equal(nodes?.ports[0].port, isRouted(cluster) ? 'csi' : undefined);
    if (nodes === undefined) return;
    assert.deepEqual(cluster.selectedBy(nodes.to[0].podSelector.matchLabels), [cluster.node]);
    assert.equal(nodes.to[0].namespaceSelector, undefined);
  },
);

forEveryRendering('nodes reach each other at the ports of transfers, if there are any, and at no other', (cluster) => {
  const { ports, bytesPerSecond } = parseConfig(cluster.environment(plugin(cluster))).transfers;
  assert.deepEqual([ports.length, bytesPerSecond], hasTransfers(cluster) ? [8, 100n << 20n] : [0, null]);
  const named = (plugin(cluster).ports ?? []).filter(({ name }) => name.startsWith('transfer-'));
  assert.deepEqual(
    named.map(({ containerPort }) => containerPort),
    ports,
  );
  const policy = cluster.of('NetworkPolicy').find(({ metadata }) => metadata.name === 'blockdelta-node');
  const { ingress = [], egress = [] } = policy?.['spec'] ?? assert.fail();
  const among = (rules: Manifest[], peers: 'from' | 'to') =>
    rules.filter((rule) => {
      const [{ podSelector, ...elsewhere }, ...others] = rule[peers];
      assert.deepEqual([elsewhere, others], [{}, []]);
      return cluster.selectedBy(podSelector.matchLabels).includes(cluster.node);
    });
  for (const rules of [among(ingress, 'from'), among(egress, 'to')]) {
    assert.equal(rules.length, hasTransfers(cluster) ? 1 : 0);
    assert.deepEqual(
      rules.flatMap((rule) => rule['ports'].flatMap(numbered)),
      ports,
    );
  }
});

forEveryRendering(
  'a class lets volumes leave the node of their snapshot beside each that does not, and is no default',
  (cluster) => {
    const classes = cluster.of('StorageClass').map(({ metadata, parameters, ...rest }) => {
      const { annotations = {} } = metadata as { annotations?: Record<string, string> };
      const { remoteSources = 'false', ...others } = parameters as Record<string, string>;
      assert.equal(annotations[DEFAULT_CLASS], undefined, metadata.name);
      return { name: metadata.name, remoteSources, like: { parameters: others, ...rest } };
    });
    const here = classes.filter(({ remoteSources }) => remoteSources === 'false');
    const anywhere = classes.filter(({ remoteSources }) => remoteSources === 'true');
    const wanted = hasTransfers(cluster) ? here.map(({ name, like }) => ({ name: `${name}-anywhere`, like })) : [];
    assert.deepEqual(
      anywhere.map(({ name, like }) => ({ name, like })),
      wanted,
    );
    // Without a node that was chosen, the router takes the one that has the snapshot.
    const topology = flag(container(cluster.controller, 'csi-provisioner'), 'immediate-topology');
    assert.equal(topology, hasTransfers(cluster) ? 'false' : undefined);
  },
);

test('Prometheus scrapes the plugin and the router as the job that the alert rules expect', { skip }, () => {
  const [, job] = /scrape job named `([\w-]+)`/.exec(checkoutText('docs/alerts.md')) ?? [];
  const monitors = cluster('complete').of('PodMonitor');
  const monitor = monitors.find(({ metadata }) => metadata.name === 'blockdelta-node');
  assert.equal(cluster('complete').node.labels[monitor?.['spec'].jobLabel], job);
  const controller = monitors.find(({ metadata }) => metadata.name === 'blockdelta-controller');
  const [router] = controller?.['spec'].podMetricsEndpoints ?? [];
  assert.deepEqual([router?.port, router?.relabelings], ['metrics', [{ targetLabel: 'job', replacement: job }]]);
});

test('the roles give what docs/kubernetes.md lists, and nothing else', { skip }, () => {
  const table = /^\| ([\w-]+) \| (cluster|namespace) \| (.*) \| (.*) \|$/gm;
  const wanted = [...KUBERNETES_DOCUMENT.matchAll(table)].flatMap(([, role, scope, resources = '', verbs]) =>
    resources.split(', ').map((resource) => `${role} ${scope} ${resource}: ${verbs}`),
  );
  const ofBackups = rolesOf(cluster('backups')).filter(({ metadata }) => metadata.name.startsWith(BACKUP));
  const found = [...rolesOf(cluster('complete')), ...ofBackups].flatMap(({ kind, metadata, rules }) =>
    (rules as Record<string, string[]>[]).flatMap(({ apiGroups = [], resources = [], verbs }) => {
      const [group, ...others] = apiGroups;
      assert.deepEqual(others, []);
      const scope = kind === 'Role' ? 'namespace' : 'cluster';
      const role = `${metadata.name.replace(/^blockdelta-/, '')} ${scope}`;
      return resources.map((each) => `${role} ${each}${group && `.${group}`}: ${verbs?.join(' ')}`);
    }),
  );
  assert.deepEqual(found.sort(), wanted.sort());
});

forEveryRendering('nobody may read Secrets or use wildcards', (cluster) => {
  for (const { metadata, rules } of rolesOf(cluster)) {
    for (const { apiGroups, resources, verbs } of rules) {
      const words = [...apiGroups, ...resources, ...verbs].join('\n');
      assert.doesNotMatch(words, /^(\*|secrets|deletecollection|escalate|bind|impersonate)$/m, metadata.name);
    }
  }
});

forEveryRendering('a role has its sidecar, and only sidecars with roles have tokens', (cluster) => {
  const talkers = /^(csi-(provisioner|resizer|snapshotter|snapshot-metadata)|router)$/;
  const names = cluster.controller.containers.map(({ name }) => name);
  const bindings = bindingsOf(cluster).filter(({ roleRef }) => !roleRef.name.startsWith(BACKUP));
  const bound = bindings.map(({ roleRef }) => roleRef.name.replace('group-', ''));
  for (const role of bound) {
    const name = role.replace(/^blockdelta-/, '');
    assert.ok(names.includes(name === 'router' ? name : `csi-${name}`), role);
  }
  for (const pod of cluster.pods) {
    assert.equal(pod.spec['automountServiceAccountToken'], false);
    for (const { name, volumeMounts } of pod.containers) {
      const token = volumeMounts.some(({ mountPath }) => mountPath.startsWith('/var/run/secrets'));
      assert.equal(token, talkers.test(name), name);
      if (token) assert.ok(bound.includes(`blockdelta-${name.replace('csi-', '')}`), name);
    }
  }
});

forEveryRendering('H38: every image has a fixed version, which docs/kubernetes.md names, and a digest', (cluster) => {
  const { version } = JSON.parse(checkoutText('package.json'));
  for (const { name, image } of cluster.pods.flatMap(({ containers }) => containers)) {
    if (['plugin', 'router', 'guardian'].includes(name)) {
      assert.equal(image, `registry.example/blockdelta:${version}`);
    } else {
      const [, tagged = '', digest] = /^(.*:v\d+\.\d+\.\d+)(@sha256:[0-9a-f]{64})?$/.exec(image) ?? [];
      assert.ok(KUBERNETES_DOCUMENT.includes(`| ${name} | \`${tagged}\` |`), image);
      assert.equal(digest === undefined, name === 'csi-snapshot-metadata', image);
    }
  }
});

test('docs/kubernetes.md explains every flag in use, and no other', { skip }, () => {
  const rows = rowsBelow('Flags of the sidecars', /^\| (`--.*?) \| .* \| .* \| .+ \|$/gm);
  const explained = rows.flatMap(([cell = '']) => cell.match(/(?<=`--)[\w-]+(?=`)/g) ?? []);
  const containers = cluster('complete').pods.flatMap((pod) => pod.containers);
  const flags = containers.flatMap(({ args }) => args.flatMap((arg) => arg.match(/(?<=^--)[\w-]+/) ?? []));
  assert.deepEqual([...new Set(flags)].sort(), explained.sort());
});

forEveryRendering('group snapshots and metadata services are in their renderings only', (cluster) => {
  const { containers } = cluster.controller;
  const snapshotter = container(cluster.controller, 'csi-snapshotter');
  const groups = WITH_GROUPS.includes(cluster.name);
  assert.equal(flag(snapshotter, 'feature-gates'), `CSIVolumeGroupSnapshot=${groups}`);
  assert.equal(cluster.has('VolumeGroupSnapshotClass', 'blockdelta'), groups);
  const services = cluster.of('SnapshotMetadataService');
  const sidecars = containers.filter(({ name }) => name === 'csi-snapshot-metadata');
  const count = WITH_METADATA.includes(cluster.name) ? 1 : 0;
  assert.deepEqual([services.length, sidecars.length], [count, count]);
  const args = containers.flatMap((each) => each.args);
  assert.ok(!args.some((arg) => arg.startsWith('--node-deployment')));
});

test('clients reach the sidecar under a name of its certificate, through the Service', {
  skip,
}, () => {
  const [metadataService] = cluster('complete').of('SnapshotMetadataService');
  const service = cluster('complete').of('Service')[0];
  const host = `${service?.metadata.name}.${service?.metadata.namespace}.svc`;
  assert.equal(metadataService?.['spec'].address, `${host}:${service?.['spec'].ports[0].port}`);
  const certificate = cluster('complete')
    .of('Certificate')
    .find(({ spec }) => spec.secretName === 'blockdelta-snapshot-metadata-tls');
  assert.ok(certificate?.['spec'].dnsNames.includes(host));
});

test('docs/kubernetes.md has a row for every rendering', () => {
  assert.deepEqual(
    rowsBelow('Without Helm', /^\| `([\w-]+)` \|/gm)
      .flat()
      .sort(),
    RENDERINGS,
  );
});
