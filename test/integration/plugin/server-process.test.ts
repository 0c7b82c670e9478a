/** `blockdelta serve` as a process: what starts and stops print, failed starts in one line, and who shares a state. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { release } from 'node:os';
import { test as plainTest, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { newSnapshotId, nodeKey } from '../../../src/base/csi/handles.js';
import { SETTINGS } from '../../../src/driver/config/config.js';
import { runCommand } from '../../support/command.js';
import { Plugin, type PluginOptions } from '../../support/plugin.js';
import { logLines } from '../../support/plugin-log.js';
import { refused } from '../../support/refusal.js';
import { test } from '../../support/running-plugin.js';
import { makePoolFileSystem, Workspace } from '../../support/workspace.js';

function workspaceOf(t: TestContext): Workspace {
  const workspace = new Workspace('serve');
  t.after(() => workspace.dispose());
  return workspace;
}

/** What a start that must fail tells the operator: one line, no JSON, and no stack anywhere. */
async function failedStart(workspace: Workspace, options: PluginOptions = {}, code = 1): Promise<string> {
  const plugin = Plugin.launch(workspace, options);
  assert.equal(await plugin.exitCode(), code, plugin.log);
  assert.doesNotMatch(plugin.log, /"level":"fatal"|\\n +at |^ +at /m);
  const [line = '', ...more] = plugin.log.split('\n').filter((each) => /^blockdelta: /.test(each));
  assert.deepEqual(more, []);
  return line;
}

function readyLine({ log }: Plugin): Record<string, unknown> {
  return logLines(log).findLast(({ msg }) => msg === 'ready') ?? assert.fail(log);
}

async function isReady({ client }: Plugin): Promise<void> {
  assert.equal((await client.identity.Probe({}))['ready']?.value, true);
}

for (const [name, value, said] of [
  ['BLOCKDELTA_SCAN_THREADS', 'many', " is 'many': it must be a whole number from 1 to 64"],
  ['BLOCKDELTA_POOL', 'x=/srv', ' is not a setting: did you mean BLOCKDELTA_POOLS?'],
] as const) {
  plainTest(`E10: ${name}=${value} ends the start with exit code 78 and one line, and nothing is made`, async (t) => {
    const workspace = workspaceOf(t);
    const line = await failedStart(workspace, { env: { [name]: value } }, 78);
    assert.equal(line, `blockdelta: ${name}${said}`);
    assert.deepEqual(readdirSync(workspace.directory), []);
  });
}

plainTest('the error without any setting names the required one, and help has all', async (t) => {
  const { code, stderr } = await runCommand(t, ['serve'], {});
  assert.equal(code, 78);
  assert.match(stderr, /^blockdelta: CSI_ENDPOINT is not set\./);
  const help = await runCommand(t, ['serve', '--help'], {});
  assert.equal(help.code, 0);
  for (const [name, { fallback }] of Object.entries(SETTINGS)) {
    const line = help.stdout.split('\n').find((each) => each.includes(`  ${name} `));
    assert.ok(line?.includes(fallback === null ? '' : `(default: ${fallback})`), name);
  }
});

test('a state directory that cannot be written is named, and the socket goes', async (t) => {
  const workspace = workspaceOf(t);
  const directory = workspace.path('plugin');
  writeFileSync(directory, '');
  const file = await failedStart(workspace);
  assert.match(file, /state directory .* cannot be written: a file has that name/);
  execFileSync('rm', [directory]);
  mkdirSync(directory);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'ro', 'tmpfs', directory]);
  const readOnly = await failedStart(workspace);
  assert.match(readOnly, /state directory .* cannot be written: .* read-only; mount it writable/);
  assert.ok(!existsSync(workspace.path('plugin.sock')));
});

test('a process that is not root is told so', async (t) => {
  const workspace = workspaceOf(t);
  execFileSync('chmod', ['777', workspace.directory]);
  const by = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'];
  const line = await failedStart(workspace, { by });
  assert.match(line, /the plugin runs as user 65534 and needs root/);
});

test('an address of the metrics that is in use ends the start', async (t) => {
  const workspace = workspaceOf(t);
  const other = createServer().listen({ host: '127.0.0.1', port: 0 });
  await once(other, 'listening');
  t.after(() => other.close());
  const { port } = other.address() as { port: number };
  const address = `127.0.0.1:${port}`;
  const line = await failedStart(workspace, { env: { BLOCKDELTA_METRICS_ADDRESS: address } });
  assert.match(line, new RegExp(`BLOCKDELTA_METRICS_ADDRESS is ${address}, .* choose another`));
  assert.ok(!existsSync(workspace.path('plugin.sock')));
});

test('E17: the start line has the pools and the end of the last run, and one plugin has the socket', async (t) => {
  const workspace = workspaceOf(t);
  const pools = `main=${makePoolFileSystem(workspace, 'xfs')}`;
  const socket = workspace.path('plugin.sock');
  const first = await Plugin.start(workspace, { pools });
  const line = readyLine(first);
  assert.equal(line['kernel'], release());
  assert.ok((line['capabilities'] as string[]).includes('CAP_SYS_ADMIN'));
  assert.equal(line['lastStop'], 'not recorded');
  const [pool, ...others] = line['pools'] as Record<string, string>[];
  assert.deepEqual([pool?.['pool'], pool?.['kind'], others], ['main', 'reflink', []]);
  assert.ok(BigInt(pool?.['totalBytes'] ?? 0) > BigInt(pool?.['freeBytes'] ?? 0));
  // Another plugin has neither its socket nor its state directory, and does not affect it.
  const served = await failedStart(workspace, { pools });
  assert.match(served, /^blockdelta: another process serves on/);
  const env = { CSI_ENDPOINT: `unix://${workspace.path('other.sock')}` };
  const inUse = await failedStart(workspace, { pools, env });
  assert.match(inUse, /the catalogue .* is in use by another process/);
  await isReady(first);
  await first.kill();
  assert.ok(existsSync(socket));
  const second = await Plugin.start(workspace, { pools });
  assert.equal(readyLine(second)['lastStop'], 'killed or crashed');
  assert.equal(await second.stop(), 0);
  assert.ok(!existsSync(socket));
  const third = await Plugin.start(workspace, { pools });
  assert.equal(readyLine(third)['lastStop'], 'clean');
  third.process.kill('SIGINT');
  assert.deepEqual(await once(third.process, 'exit'), [0, null]);
  assert.ok(!existsSync(socket));
  assert.match(third.log, /"msg":"stopped"/);
  third.client.close();
});

test('a state directory on a tmpfs is served with a warning', async (t) => {
  const workspace = workspaceOf(t);
  const pools = `main=${makePoolFileSystem(workspace, 'xfs')}`;
  mkdirSync(workspace.path('plugin'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64m,mode=0700', 'tmpfs', workspace.path('plugin')]);
  const plugin = await Plugin.start(workspace, { pools });
  await plugin.stop();
  const line = logLines(plugin.log).find(({ msg }) => /tmpfs/.test(String(msg)));
  assert.equal(line?.['level'], 'warn', plugin.log);
});

/** Whether it accepts connections: it has its name from bind() on, before listen(). */
function isServed(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketPath, () => socket.destroy());
    socket.once('close', (hadError) => resolve(!hadError));
    socket.once('error', () => undefined);
  });
}

const SMALL = { env: { BLOCKDELTA_EMBEDDED_POOL_SIZE: '1Gi' } };

test('SIGTERM while the pools start ends the plugin with exit code 0', async (t) => {
  const workspace = workspaceOf(t);
  const plugin = Plugin.launch(workspace, SMALL);
  while (!existsSync(workspace.path('plugin.sock'))) await delay(1);
  plugin.process.kill('SIGTERM');
  assert.equal(await plugin.exitCode(), 0, plugin.log);
});

test('ID8: Probe answers from the start until it is ready, and a list that is asked for meanwhile waits', async (t) => {
  const workspace = workspaceOf(t);
  const plugin = Plugin.launch(workspace, SMALL);
  t.after(() => plugin.kill());
  while (!(await isServed(workspace.path('plugin.sock')))) await delay(1);
  const { client } = plugin;
  const unknown = newSnapshotId(nodeKey('test-node'));
  const list = refused(client.allocated(unknown), 'NOT_FOUND');
  const isReady = async () => (await client.identity.Probe({}, { deadlineMs: 60_000 }))['ready'].value;
  for (let count = 0; !(await isReady()); count += 1) assert.ok(count < 10_000, plugin.log);
  await list;
  // A pool in use stays mounted at the stop, and the log says so.
  const mount = workspace.path('plugin', 'pools', 'default', 'mount');
  const held = openSync(mount, 'r');
  plugin.process.kill('SIGTERM');
  assert.equal(await plugin.exitCode(), 0);
  closeSync(held);
  const said = logLines(plugin.log).map(({ msg }) => String(msg));
  const stays = new RegExp(`pool 'default' stays mounted at ${mount}, because it is in use`);
  assert.ok(
    said.some((msg) => stays.test(msg)),
    plugin.log,
  );
});
