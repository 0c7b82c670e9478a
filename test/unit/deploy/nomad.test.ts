/**
 * The jobs of deploy/nomad are HCL, and what they name exists. No Nomad runs here: what Nomad itself would say
 * to them is not known.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import hcl from '@cdktn/hcl2json';
import { ACCESS_MODES } from '../../../src/base/csi/volume-capability.js';
import { packagePath } from '../../../src/base/package-root.js';
import { LAST_RESORT_MS } from '../../../src/cli/service-process.js';
import { parseConfig, SETTINGS } from '../../../src/driver/config/config.js';
import { isFileSystem } from '../../../src/driver/host/file-systems.js';
import { parseVolumeParameters } from '../../../src/driver/volumes/volume-parameters.js';
import { parseRouteConfig, ROUTE_SETTINGS } from '../../../src/router/settings.js';
import { checkoutText } from '../../support/checkout-text.js';

const DIRECTORY = 'deploy/nomad';
const JOBS = { controller: 'controller', node: 'node', 'single-node': 'monolith' };
// biome-ignore lint/suspicious/noExplicitAny: HCL has no schema here; tests read what they know
type Block = Record<string, any>;

interface Job {
  type: string;
  group: Block;
  /** Of the plugin or the router. */
  task: Block;
  guardian: Block | undefined;
  /** With the name of the client filled in. */
  env: Record<string, string>;
}

const parse = (file: string) => hcl.parse(file, checkoutText(`${DIRECTORY}/${file}`)) as Promise<Block>;

async function job(name: string): Promise<Job> {
  const parsed = await parse(`${name}.nomad.hcl`);
  const [body] = Object.values(parsed['job']).flat() as Block[];
  const [group] = Object.values(body?.['group']).flat() as Block[];
  const tasks: Record<string, Block[]> = group?.['task'] ?? {};
  const { guardian, ...others } = tasks;
  const [task] = Object.values(others).flat();
  assert.ok(body !== undefined && group !== undefined && task !== undefined);
  const filledIn = Object.entries(task['env'][0] as Record<string, string>).map(([key, value]) => [
    key,
    // biome-ignore lint/suspicious/noTemplateCurlyInString: Nomad's syntax
    value.replace('${node.unique.name}', 'client-a'),
  ]);
  const env = Object.fromEntries(filledIn);
  return { type: body['type'], group, task, guardian: guardian?.[0], env };
}

test('deploy/nomad has the jobs and the volume that docs/nomad.md lists', () => {
  const files = readdirSync(packagePath(DIRECTORY)).sort();
  const listed = [...checkoutText('docs/nomad.md').matchAll(/^\| `([\w.-]+\.hcl)` \|/gm)];
  assert.deepEqual(files, listed.map(([, name]) => name).sort());
});

/** Milliseconds that Nomad gives a task to end. */
const killAfterMs = ({ task }: Job): number => Number.parseInt(task['kill_timeout'], 10) * 1000;

for (const name of ['node', 'single-node']) {
  test(`the job ${name} runs the plugin on every client, with its settings, its mounts and time to end`, async () => {
    const { type, env, task, guardian, ...rest } = await job(name);
    assert.ok(Object.keys(env).every((key) => key in SETTINGS));
    const { nodeId, socketPath, guardianSocket, ...config } = parseConfig(env);
    const { stateDirectory, pools, shutdownGraceMs } = config;
    assert.deepEqual([nodeId, socketPath, type], ['client-a', '/csi/csi.sock', 'system']);
    const mounts = task['config'][0].mount as Block[];
    const mount = mounts.find(({ target }) => target === stateDirectory);
    assert.equal(mount?.['source'], stateDirectory);
    assert.equal(mount?.['bind_options'][0].propagation, 'rshared');
    for (const { directory } of pools) assert.ok(directory.startsWith(`${stateDirectory}/`));
    assert.equal(task['kill_signal'], 'SIGTERM');
    assert.ok(killAfterMs({ type, env, task, guardian, ...rest }) > shutdownGraceMs + LAST_RESORT_MS);
    assert.deepEqual(guardian?.['lifecycle'][0], { hook: 'prestart', sidecar: true });
    const { image, args } = guardian?.['config'][0] ?? {};
    assert.deepEqual([image, args], [task['config'][0].image, ['--listen', guardianSocket]]);
  });
}

test('the router accepts the environment of the job controller, of which every variable is a setting', async () => {
  const controller = await job('controller');
  assert.ok(Object.keys(controller.env).every((key) => key in ROUTE_SETTINGS));
  const { source, shutdownGraceMs } = parseRouteConfig(controller.env);
  assert.deepEqual(source, { kind: 'file', path: '/local/nodes.json' });
  assert.ok(killAfterMs(controller) >= shutdownGraceMs);
});

test('every job serves the socket of one plugin id, and only the router has no rights', async () => {
  const { version } = JSON.parse(checkoutText('package.json')) as { version: string };
  for (const [name, type] of Object.entries(JOBS)) {
    const { task, env } = await job(name);
    assert.deepEqual(task['csi_plugin'], [{ id: 'blockdelta', type, mount_dir: '/csi' }]);
    assert.equal(env['CSI_ENDPOINT'], 'unix:///csi/csi.sock');
    assert.equal(env['BLOCKDELTA_DRIVER_NAME'], SETTINGS.BLOCKDELTA_DRIVER_NAME.fallback);
    const [config] = task['config'];
    assert.equal(config.image, `registry.example/blockdelta:${version}`);
    assert.equal(config.readonly_rootfs, true);
    assert.equal(config.privileged === true, name !== 'controller');
    assert.deepEqual(config.args, [name === 'controller' ? 'route' : 'serve']);
  }
});

test('every night the job backup runs the script on each client, at the socket and in the directory of the plugin there', async () => {
  const { type, task, env } = await job('backup');
  const node = await job('node');
  assert.equal(type, 'sysbatch');
  const [config] = task['config'];
  assert.deepEqual([config.image, config.privileged], [node.task['config'][0].image, true]);
  const script = config.args[0].replace('/opt/blockdelta/lib/node_modules/blockdelta/', '');
  const text = checkoutText(script);
  const read = ['BLOCKDELTA_RUNTIME_DIR', 'RCLONE_CONFIG', ...['REPOSITORY', 'BACKUP', 'PRUNE']];
  assert.deepEqual(Object.keys(env).sort(), read.sort());
  for (const name of read) assert.ok(text.includes(name), name);
  const mounts = new Map((config.mount as Block[]).map((mount) => [mount['target'], mount]));
  const [service] = node.group['service'];
  const [template] = task['template'];
  const line =
    /nomadService "([\w-]+)".* \(index \.Tags 0\) \(env "([\w.]+)"\) \}\}CSI_ENDPOINT=unix:\/\/(.*)\/\{\{ \.AllocID \}\}\/csi\.sock/;
  const [, name, tag, sockets = ''] = line.exec(template.data) ?? [];
  assert.deepEqual([name, `\${${tag}}`], [service.name, service.tags[0]]);
  assert.ok(mounts.has(sockets) && template.env === true);
  const runtime = [...mounts].find(([target]) => env['BLOCKDELTA_RUNTIME_DIR']?.startsWith(`${target}/`));
  assert.equal(runtime?.[1]['bind_options'][0].propagation, 'rslave');
  assert.ok(runtime?.[1]['source'].endsWith(`/csi/node/${node.task['csi_plugin'][0].id}`));
  assert.ok([...mounts.keys()].some((target) => env['RCLONE_CONFIG']?.startsWith(`${target}/`)));
  for (const options of ['BACKUP', 'PRUNE']) {
    const spool = /--spool=(\S+)/.exec(env[options] ?? '')?.[1] ?? assert.fail(options);
    assert.ok([...mounts.keys()].some((target) => spool.startsWith(`${target}/`)));
  }
});

test('router and nodes agree on port, names and certificates', async () => {
  const node = await job('node');
  const controller = await job('controller');
  const port = node.group['network'][0].port.csi[0];
  assert.deepEqual(port, { static: 9810, to: 9810 });
  assert.equal(node.env['BLOCKDELTA_LISTEN_ADDRESS'], `0.0.0.0:${port.to}`);
  assert.deepEqual(node.task['config'][0].ports, ['csi']);
  assert.equal(node.env['BLOCKDELTA_TLS_PEER_NAME'], 'blockdelta-router');
  assert.equal(controller.env['BLOCKDELTA_TLS_PEER_NAME'], 'blockdelta-node');
  for (const { env, task } of [node, controller]) {
    const files = ['CERTIFICATE', 'KEY', 'CA'].map((key) => env[`BLOCKDELTA_TLS_${key}`]);
    const wanted = ['tls.crt', 'tls.key', 'ca.crt'].map((file) => `/etc/blockdelta/tls/${file}`);
    assert.deepEqual(files, wanted);
    const targets = (task['config'][0].mount as Block[]).map(({ target }) => target);
    assert.ok(targets.includes('/etc/blockdelta/tls'));
  }
});

test('the list of nodes comes from the service of the nodes, and is JSON for any number', async () => {
  const { group } = await job('node');
  const { task, env } = await job('controller');
  const [service] = group['service'];
  const [template] = task['template'];
  assert.equal(env['BLOCKDELTA_ROUTE_NODES'], `file:/${template.destination}`);
  assert.equal(template.change_mode, 'noop');
  // biome-ignore lint/suspicious/noTemplateCurlyInString: Nomad's syntax
  assert.deepEqual(service.tags, ['${node.unique.name}']);
  const pattern =
    /^(.*)\{\{ range \$i, \$node := nomadService "([\w-]+)" \}\}\{\{ if \$i \}\}(.*?)\{\{ end \}\}([\s\S]*)\{\{ end \}\}([\s\S]*)$/;
  const [, before, name, separator, item = '', after] = pattern.exec(template.data) ?? [];
  assert.equal(name, service.name);
  for (const count of [0, 1, 3]) {
    const nodes = [...Array(count).keys()].map((index) => ({ id: `client-${index}`, address: `10.0.0.${index}:9810` }));
    const items = nodes.map(({ id, address }) =>
      item.replace('{{ index $node.Tags 0 }}', id).replace('{{ $node.Address }}:{{ $node.Port }}', address),
    );
    assert.deepEqual(JSON.parse(`${before}${items.join(separator)}${after}`), { nodes });
  }
});

test('the example volume asks for what the plugin serves', async () => {
  const volume = await parse('volume.hcl');
  assert.equal(volume['plugin_id'], 'blockdelta');
  const [{ fs_type: fsType }] = volume['mount_options'];
  assert.ok(isFileSystem(fsType));
  const [capability] = volume['capability'];
  const mode = capability.access_mode.toUpperCase().replaceAll('-', '_');
  const served = ACCESS_MODES.filter((name) => name.startsWith('SINGLE_NODE_'));
  assert.ok((served as readonly string[]).includes(mode), mode);
  parseVolumeParameters(volume['parameters'][0], { capabilities: [], isRestored: false });
  const [{ topology }] = volume['topology_request'][0].required;
  assert.deepEqual(Object.keys(topology[0].segments), [parseConfig((await job('node')).env).topologyKey]);
});
