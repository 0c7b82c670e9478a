/** What deploy/kubernetes gives the plugin of a node: mounts that the kubelet sees, and no rights for others. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { packagePath } from '../../../src/base/package-root.js';
import { LAST_RESORT_MS } from '../../../src/cli/service-process.js';
import { parseConfig, SETTINGS } from '../../../src/config/config.js';
import { container, flag, forEveryOverlay } from '../../support/cluster.js';

const DRIVER = SETTINGS.BLOCKDELTA_DRIVER_NAME.fallback;

forEveryOverlay('what the plugin mounts reaches the kubelet, at the same path', (cluster) => {
  const { volumeMounts } = container(cluster.node, 'plugin');
  const both = volumeMounts.filter(({ mountPropagation }) => mountPropagation === 'Bidirectional');
  assert.deepEqual(both.map(({ mountPath }) => mountPath).sort(), [
    '/var/lib/blockdelta',
    '/var/lib/kubelet',
  ]);
  for (const { name, mountPath } of volumeMounts) {
    const { hostPath } = cluster.node.volumes.find((volume) => volume.name === name) ?? {};
    if (hostPath === undefined || name === 'plugin-directory' || name === 'cgroups') continue;
    assert.equal(hostPath.path, mountPath);
  }
});

forEveryOverlay('every pool and the state directory are on the host', (cluster) => {
  const plugin = container(cluster.node, 'plugin');
  const { pools, stateDirectory } = parseConfig(cluster.environment(plugin));
  const onHost = plugin.volumeMounts.filter(({ name }) =>
    cluster.node.volumes.some((volume) => volume.name === name && volume.hostPath !== undefined),
  );
  for (const directory of [stateDirectory, ...pools.map((pool) => pool.directory)]) {
    const mount = onHost.find(
      ({ mountPath }) => directory === mountPath || directory.startsWith(`${mountPath}/`),
    );
    assert.ok(mount, directory);
    assert.notEqual(mount.mountPropagation, undefined, directory);
  }
});

forEveryOverlay(
  'only the plugin is privileged, and all root file systems are read-only',
  (cluster) => {
    const capabilities = [
      ...readFileSync(packagePath('docs/security.md'), 'utf8').matchAll(/CAP_[A-Z_]+/g),
    ];
    for (const pod of cluster.pods) {
      for (const { name, securityContext } of pod.containers) {
        assert.equal(securityContext['readOnlyRootFilesystem'], true, name);
        assert.equal(securityContext['privileged'] === true, name === 'plugin', name);
        if (name === 'plugin') continue;
        assert.equal(securityContext['allowPrivilegeEscalation'], false, name);
        const { drop, add = [] } = securityContext['capabilities'] as {
          drop: string[];
          add?: string[];
        };
        assert.deepEqual(drop, ['ALL'], name);
        for (const added of add)
          assert.ok(capabilities.some(([known]) => known === `CAP_${added}`));
      }
      for (const field of ['hostNetwork', 'hostPID', 'hostIPC']) {
        assert.equal(pod.spec[field], undefined, `${pod.owner}: ${field}`);
      }
    }
  },
);

forEveryOverlay(
  'behind a router nothing of the controller runs as root or sees the host',
  (cluster, overlay) => {
    const { spec, volumes } = cluster.controller;
    const context = spec['securityContext'] as { runAsUser: number; runAsNonRoot: boolean };
    assert.equal(context.runAsNonRoot, overlay !== 'single-node');
    assert.equal(context.runAsUser === 0, overlay === 'single-node');
    const paths = volumes.flatMap(({ hostPath }) => hostPath?.path ?? []);
    assert.deepEqual(
      paths,
      overlay === 'single-node' ? [`/var/lib/kubelet/plugins/${DRIVER}`] : [],
    );
  },
);

forEveryOverlay('the plugin has no limits, and ends before it is killed', (cluster) => {
  const plugin = container(cluster.node, 'plugin');
  assert.ok(plugin.resources.requests);
  assert.equal(plugin.resources.limits, undefined);
  const { shutdownGraceMs } = parseConfig(cluster.environment(plugin));
  const needed = shutdownGraceMs + LAST_RESORT_MS;
  assert.ok(Number(cluster.node.spec['terminationGracePeriodSeconds']) * 1000 > needed);
});

forEveryOverlay('the liveness probe is patient', (cluster) => {
  const { livenessProbe } = container(cluster.node, 'plugin');
  assert.ok(livenessProbe);
  const { periodSeconds, failureThreshold = 3, timeoutSeconds } = livenessProbe;
  assert.ok(periodSeconds * failureThreshold >= 300);
  const timeout = flag(container(cluster.node, 'livenessprobe'), 'probe-timeout');
  assert.ok(Number.parseInt(timeout ?? '', 10) < timeoutSeconds);
});

forEveryOverlay('the plugin runs on every node and is evicted last', (cluster) => {
  assert.equal(cluster.node.spec['priorityClassName'], 'system-node-critical');
  assert.deepEqual(cluster.node.spec['tolerations'], [{ operator: 'Exists' }]);
  assert.equal(cluster.controller.spec['priorityClassName'], 'system-cluster-critical');
});
