/** The lines of a start and a stop, and starts that must fail: one line each, without a stack. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { release } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { CsiClient } from '../support/csi-client.js';
import { Plugin, type PluginOptions } from '../support/plugin.js';
import { logLines } from '../support/plugin-log.js';
import { PluginProcess } from '../support/plugin-process.js';
import { makePoolFileSystem, skipUnlessRoot, Workspace } from '../support/workspace.js';

const skip = skipUnlessRoot;

function workspaceOf(t: TestContext): Workspace {
  const workspace = new Workspace('start-lines');
  t.after(() => workspace.dispose());
  return workspace;
}

/** What a start that must fail prints. */
async function failedStart(
  workspace: Workspace,
  options: PluginOptions,
  code = 1,
): Promise<string> {
  const plugin = new PluginProcess(workspace, options);
  assert.equal(await plugin.exitCode(), code, plugin.output);
  return plugin.output;
}

/** The lines for the operator, which are no JSON: exactly one, and no stack anywhere. */
function onlyLine(output: string): string {
  assert.doesNotMatch(output, /"level":"fatal"|\\n +at |^ +at /m);
  const [line = '', ...more] = output.split('\n').filter((each) => /^blockdelta: /.test(each));
  assert.deepEqual(more, []);
  return line;
}

function readyLine(log: string): Record<string, unknown> {
  const line = logLines(log).findLast(({ msg }) => msg === 'ready');
  assert.ok(line, log);
  return line;
}

test('the start line has the pools, the kernel, the capabilities and how the last run ended', {
  skip,
}, async (t) => {
  const workspace = workspaceOf(t);
  const pools = `main=${makePoolFileSystem(workspace, 'xfs')}`;
  const first = await Plugin.start(workspace, { pools });
  const line = readyLine(first.log);
  assert.equal(line['kernel'], release());
  assert.ok((line['capabilities'] as string[]).includes('CAP_SYS_ADMIN'));
  assert.equal(line['lastStop'], 'not recorded');
  const [pool, ...others] = line['pools'] as Record<string, string>[];
  assert.deepEqual([pool?.['pool'], pool?.['kind'], others], ['main', 'reflink', []]);
  assert.ok(BigInt(pool?.['totalBytes'] ?? 0) > BigInt(pool?.['freeBytes'] ?? 0));
  await first.kill();
  const second = await Plugin.start(workspace, { pools });
  assert.equal(readyLine(second.log)['lastStop'], 'killed or crashed');
  assert.equal(await second.stop(), 0);
  const third = await Plugin.start(workspace, { pools });
  assert.equal(readyLine(third.log)['lastStop'], 'clean');
  await third.stop();
});

test('a pool that is in use stays mounted at the stop, and the log says so', {
  skip,
}, async (t) => {
  const workspace = workspaceOf(t);
  const plugin = await Plugin.start(workspace);
  const [pool] = readyLine(plugin.log)['pools'] as Record<string, string>[];
  assert.equal(pool?.['kind'], 'embedded reflink');
  const held = openSync(join(workspace.path('plugin'), 'pools', 'default', 'mount'), 'r');
  try {
    assert.equal(await plugin.stop(), 0);
  } finally {
    closeSync(held);
  }
  const line = logLines(plugin.log).find(({ msg }) => /stays mounted/.test(String(msg)));
  assert.match(
    String(line?.['msg']),
    /pool 'default' stays mounted at .*\/mount, because it is in use/,
  );
});

test('a process that is not root is told so', { skip }, async (t) => {
  const workspace = workspaceOf(t);
  mkdirSync(workspace.path('free'), { mode: 0o777 });
  execFileSync('chmod', ['777', workspace.directory, workspace.path('free')]);
  const by = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'];
  const line = onlyLine(await failedStart(workspace, { by }));
  assert.match(line, /the plugin runs as user 65534 and needs root/);
});

test('a state directory on a read-only file system is named', { skip }, async (t) => {
  const workspace = workspaceOf(t);
  const directory = workspace.path('plugin');
  mkdirSync(directory);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'ro', 'tmpfs', directory]);
  const line = onlyLine(await failedStart(workspace, {}));
  assert.match(line, /state directory .* cannot be written: .* read-only; mount it writable/);
});

test('a state directory whose path is a file is named', { skip }, async (t) => {
  const workspace = workspaceOf(t);
  writeFileSync(workspace.path('plugin'), '');
  const line = onlyLine(await failedStart(workspace, {}));
  assert.match(line, /state directory .* cannot be written: a file has that name/);
});

test('a state directory on a tmpfs is served with a warning', { skip }, async (t) => {
  const workspace = workspaceOf(t);
  const pools = `main=${makePoolFileSystem(workspace, 'xfs')}`;
  mkdirSync(workspace.path('plugin'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64m', 'tmpfs', workspace.path('plugin')]);
  const plugin = await Plugin.start(workspace, { pools });
  await plugin.stop();
  const line = logLines(plugin.log).find(({ msg }) => /tmpfs/.test(String(msg)));
  assert.equal(line?.['level'], 'warn', plugin.log);
});

test('a state directory in use by another plugin is named, and that plugin keeps working', {
  skip,
}, async (t) => {
  const workspace = workspaceOf(t);
  const pools = `main=${makePoolFileSystem(workspace, 'xfs')}`;
  const plugin = await Plugin.start(workspace, { pools });
  const env = { CSI_ENDPOINT: `unix://${workspace.path('other.sock')}` };
  const line = onlyLine(await failedStart(workspace, { pools, env }));
  assert.match(line, /the catalogue .* is in use by another process/);
  await answers(plugin.client);
  await plugin.kill();
  const next = await Plugin.start(workspace, { pools });
  assert.equal(readyLine(next.log)['lastStop'], 'killed or crashed');
  await next.stop();
});

async function answers(client: CsiClient): Promise<void> {
  assert.equal((await client.identity.Probe({}))['ready']?.value, true);
}

test('a misspelt setting is named with the one that was meant, and ends the start', async (t) => {
  const workspace = workspaceOf(t);
  const env = { BLOCKDELTA_POOL: 'x=/srv' };
  const line = onlyLine(await failedStart(workspace, { env }, 78));
  assert.equal(
    line,
    'blockdelta: BLOCKDELTA_POOL is not a setting: did you mean BLOCKDELTA_POOLS?',
  );
});
