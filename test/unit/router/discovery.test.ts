/** Nodes from a file, and from pods of a fake API server: it serves their list and watch as the real one does. */
import assert from 'node:assert/strict';
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { StartError } from '../../../src/base/listening/socket-path.js';
import { createLogger } from '../../../src/base/logger.js';
import { FileDiscovery } from '../../../src/router/file-discovery.js';
import { KubernetesDiscovery } from '../../../src/router/kubernetes-discovery.js';
import type { NodeEntry } from '../../../src/router/node-list.js';
import { type Pod, PodList } from '../../../src/router/pod-list.js';
import { parseRouteConfig } from '../../../src/router/settings.js';
import { eventually } from '../../support/eventually.js';
import type { Manifest } from '../../support/manifests.js';
import { type FakePod, PodsApi } from '../../support/pods-api.js';
import { temporaryDirectory } from '../../support/temporary.js';

const listOf = (...ids: string[]): string =>
  JSON.stringify({ nodes: ids.map((id) => ({ id, address: '10.0.0.1:9810' })) });

function discovery(t: TestContext) {
  const directory = temporaryDirectory();
  const path = join(directory, 'nodes.json');
  const lines: string[] = [];
  const logger = createLogger('info', { write: (line) => lines.push(line) });
  const source = new FileDiscovery(path, logger, () => performance.now(), 20);
  const lists: string[] = [];
  t.after(() => source.stop());
  const start = () => source.start((nodes) => lists.push(nodes.map(({ id }) => id).join(' ')));
  return { directory, path, lists, start, errors: () => lines.filter((line) => line.includes('"error"')) };
}

test('a list is followed through symbolic links that are swapped, as in a ConfigMap', async (t) => {
  const { directory, path, lists, start } = discovery(t);
  const version = (name: string, text: string): void => {
    mkdirSync(join(directory, name));
    writeFileSync(join(directory, name, 'nodes.json'), text);
    symlinkSync(name, join(directory, '..data.new'));
    renameSync(join(directory, '..data.new'), join(directory, '..data'));
  };
  version('1', listOf('a'));
  symlinkSync('..data/nodes.json', path);
  await start();
  version('2', listOf('b'));
  await eventually('the new list', () => lists.at(-1) === 'b');
});

test('a list that cannot be used leaves the last one in force, with one error in the log', async (t) => {
  const { path, lists, start, errors } = discovery(t);
  writeFileSync(path, listOf('a'));
  await start();
  writeFileSync(path, '{"nodes": [');
  await eventually('an error', () => errors().length > 0);
  assert.deepEqual(lists, ['a']);
  writeFileSync(path, listOf('c'));
  await eventually('the corrected list', () => lists.at(-1) === 'c');
  assert.equal(errors().length, 1);
});

test('a start without a list, or with a wrong one, fails and says why', async (t) => {
  const { path, start } = discovery(t);
  await assert.rejects(start(), StartError);
  writeFileSync(path, '');
  await assert.rejects(start(), StartError);
  writeFileSync(path, '[]');
  await assert.rejects(start(), /cannot use the list of nodes .*nodes\.json: .*list "nodes"/);
});

const HOUR = 3_600_000;

const pod = (name: string, nodeName: string, podIP: string): FakePod => ({
  metadata: { name, namespace: 'storage', labels: { app: 'node' } },
  spec: { nodeName },
  status: { phase: 'Running', podIP },
});
const ROLE = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'Role',
  metadata: { name: 'router', namespace: 'storage' },
  rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['list', 'watch'] }],
};

const NODES_ROLE = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRole',
  metadata: { name: 'router' },
  rules: [{ apiGroups: [''], resources: ['nodes'], verbs: ['list', 'watch'] }],
};

async function discover(
  t: TestContext,
  pods: readonly FakePod[],
  isBroken = false,
  roles: object[] = [ROLE],
  taints = 'off',
) {
  const server = await PodsApi.start(roles as readonly Manifest[], pods, temporaryDirectory());
  server.isBroken = isBroken;
  const lines: string[] = [];
  const logger = createLogger('info', { write: (line) => lines.push(line) });
  const { source } = parseRouteConfig({
    CSI_ENDPOINT: 'unix:///csi.sock',
    BLOCKDELTA_TLS_CERTIFICATE: '/c',
    BLOCKDELTA_TLS_KEY: '/k',
    BLOCKDELTA_TLS_CA: '/ca',
    BLOCKDELTA_ROUTE_NODES: 'kubernetes:storage/app=node',
    BLOCKDELTA_ROUTE_TAINTS: taints,
    ...server.environment,
  });
  assert.ok(source.kind === 'kubernetes');
  const discovery = new KubernetesDiscovery(source, logger, () => performance.now());
  const lists: (readonly NodeEntry[])[] = [];
  t.after(() => {
    discovery.stop();
    server.close();
  });
  const started = discovery.start((nodes) => lists.push(nodes));
  return { discovery, server, started, lists, log: () => lines.join('') };
}

test('pods are listed by their labels, and followed as they come and go', async (t) => {
  const other = { ...pod('p0', 'node-c', '10.0.0.3') };
  other.metadata = { ...other.metadata, labels: { app: 'other' } };
  const pods = [other, pod('p1', 'node-a', '10.0.0.1'), pod('p2', 'node-b', '10.0.0.2')];
  const { server, started, lists } = await discover(t, pods);
  await started;
  assert.deepEqual(lists.at(-1), [
    { id: 'node-a', address: '10.0.0.1:9810' },
    { id: 'node-b', address: '10.0.0.2:9810' },
  ]);
  await eventually('a watch', () => server.watches === 1);
  server.event('DELETED', pod('p1', 'node-a', '10.0.0.1'));
  await eventually('no address', () => lists.at(-1)?.[0]?.address === null);
  server.event('ADDED', pod('p3', 'node-a', '10.0.0.9'));
  await eventually('another one', () => lists.at(-1)?.[0]?.address === '10.0.0.9:9810');
});

test('an API server that is away at the start is asked again', async (t) => {
  const pods = [pod('p1', 'node-a', '10.0.0.1')];
  const { server, started, lists, log } = await discover(t, pods, true);
  await eventually('a line in the log', () => log().includes('cannot watch the pods app=node'));
  server.isBroken = false;
  await started;
  assert.equal(lists.at(-1)?.[0]?.address, '10.0.0.1:9810');
});

test('a list is complete while the API server answers', async (t) => {
  const { discovery, server, started } = await discover(t, [pod('p1', 'node-a', '10.0.0.1')]);
  await started;
  assert.notEqual(discovery.completeSince, null);
  await eventually('a watch', () => server.watches === 1);
  server.isBroken = true;
  server.endWatches();
  await eventually('it is not known', () => discovery.completeSince === null);
  server.isBroken = false;
  await eventually('it is known again', () => discovery.completeSince !== null);
});

test('a watch that ends goes on, one whose version is forgotten begins anew, and a renewed token is used', async (t) => {
  const pods = [1, 2, 3, 4, 5].map((each) => pod(`p${each}`, `node-${each}`, `10.0.0.${each}`));
  const { server, started, lists, log } = await discover(t, pods);
  await started;
  assert.equal(lists.at(-1)?.length, 5, 'of three pages');
  await eventually('a watch', () => server.watches === 1);
  server.token = 'second token';
  server.giveToken();
  server.endWatches();
  await eventually('another watch', () => server.watches === 1);
  assert.equal(server.requests.filter((each) => each.startsWith('list pods')).length, 3);
  server.hasForgotten = true;
  server.endWatches();
  await eventually('another list', () => server.requests.filter((each) => each.startsWith('list pods')).length === 6);
  await eventually('a third watch', () => server.watches === 1);
  server.event('ADDED', pod('p9', 'node-9', '10.0.0.9'));
  await eventually('the new node', () => lists.at(-1)?.length === 6);
  assert.equal(log(), '');
});

test('a refusal is said once, with what the API server says', async (t) => {
  const { server, log } = await discover(t, [], true);
  await eventually('a line in the log', () => log().includes('HTTP status 503'));
  server.token = 'another token';
  server.isBroken = false;
  await eventually('another line', () => log().includes('HTTP status 401'));
});

const OUT_OF_SERVICE = 'node.kubernetes.io/out-of-service';

test('a node is retired while it has the taint that says it is out of service', async (t) => {
  const pods = [pod('p1', 'node-a', '10.0.0.1')];
  const { discovery, server, started, lists } = await discover(t, pods, false, [ROLE, NODES_ROLE], 'on');
  server.node('node-a');
  server.node('node-b', OUT_OF_SERVICE);
  await started;
  await eventually('the nodes are known', () => discovery.knowsRetired && lists.at(-1)?.length === 2);
  const a = { id: 'node-a', address: '10.0.0.1:9810' };
  const retired = (id: string) => ({ id, address: null, retired: true });
  assert.deepEqual(lists.at(-1), [a, retired('node-b')]);
  await eventually('the nodes are watched', () => server.requests.includes('watch nodes '));
  server.node('node-a', 'node.kubernetes.io/unreachable', OUT_OF_SERVICE);
  await eventually('node-a is retired', () => lists.at(-1)?.[0]?.retired === true);
  assert.deepEqual(lists.at(-1), [retired('node-a'), retired('node-b')]);
  server.node('node-a');
  server.node('node-b');
  await eventually('none is', () => lists.at(-1)?.length === 1);
  assert.deepEqual(lists.at(-1), [a]);
});

test('a router that may not watch nodes finds its pods, and says that it does not know which are retired', async (t) => {
  const pods = [pod('p1', 'node-a', '10.0.0.1')];
  const { discovery, started, lists, log } = await discover(t, pods, false, [ROLE], 'on');
  await started;
  await eventually('it has said so', () => log().includes('cannot watch nodes'));
  assert.deepEqual([discovery.knowsRetired, lists.at(-1)?.length], [false, 1]);
  assert.match(log(), /HTTP status 403.*no volume that has had copies/);
});

test('without the setting no node is asked for, and none is retired', async (t) => {
  const { discovery, server, started } = await discover(t, [pod('p1', 'node-a', '10.0.0.1')], false, [
    ROLE,
    NODES_ROLE,
  ]);
  server.node('node-a', OUT_OF_SERVICE);
  await started;
  await eventually('a watch', () => server.watches === 1);
  assert.equal(discovery.knowsRetired, true);
  assert.deepEqual(
    server.requests.filter((each) => each.includes('nodes')),
    [],
  );
});

const podOf = (nodeName: string, podIP: string, more: Partial<Pod> = {}): Pod => ({
  spec: { nodeName },
  status: { podIP, phase: 'Running' },
  ...more,
});

test('a node is the name in spec.nodeName, at the address of its pod', () => {
  const list = new PodList(9810);
  const pods = [podOf('a', '10.0.0.1'), podOf('b', 'fd00::1'), { spec: {} }];
  assert.deepEqual(list.nodesOf(pods, 0), [
    { id: 'a', address: '10.0.0.1:9810' },
    { id: 'b', address: '[fd00::1]:9810' },
  ]);
});

test('the pod that stays counts where a node has two, then the newest', () => {
  const list = new PodList(1);
  const at = (hour: number) => new Date(hour * HOUR).toISOString();
  const ending = podOf('a', '1.1.1.1', { metadata: { creationTimestamp: at(5), deletionTimestamp: at(6) } });
  const old = podOf('a', '2.2.2.2', { metadata: { creationTimestamp: at(1) } });
  const young = podOf('a', '3.3.3.3', { metadata: { creationTimestamp: at(2) } });
  assert.deepEqual(list.nodesOf([ending, old, young], 0), [{ id: 'a', address: '3.3.3.3:1' }]);
  assert.deepEqual(list.nodesOf([ending], 0), [{ id: 'a', address: '1.1.1.1:1' }]);
});

test('a node without a pod, or whose pod has no address yet, stays listed without an address', () => {
  const list = new PodList(1);
  list.nodesOf([podOf('a', '1.1.1.1')], 0);
  assert.deepEqual(list.nodesOf([], HOUR), [{ id: 'a', address: null }]);
  assert.deepEqual(list.nodesOf([podOf('a', '')], HOUR), [{ id: 'a', address: null }]);
  assert.deepEqual(list.nodesOf([], HOUR + 1), [{ id: 'a', address: null }]);
  assert.deepEqual(list.nodesOf([], 2 * HOUR + 1), []);
  const failed = podOf('a', '1.1.1.1', { status: { podIP: '1.1.1.1', phase: 'Failed' } });
  assert.deepEqual(list.nodesOf([failed], 0), [{ id: 'a', address: null }]);
});
