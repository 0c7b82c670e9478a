/** `blockdelta serve` as a process: starts, failed starts and stops. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { packagePath } from '../../src/base/package-root.js';
import { SETTINGS } from '../../src/config/config.js';
import { CsiClient } from '../support/csi-client.js';
import { Plugin } from '../support/plugin.js';
import { skipUnlessRoot, Workspace } from '../support/workspace.js';

const MAIN = packagePath('.test-build/src/main.js');

function makeWorkspace(t: TestContext): Workspace {
  const workspace = new Workspace('serve');
  t.after(() => workspace.dispose());
  return workspace;
}

interface Running {
  child: ChildProcess;
  ended: Promise<{ code: number | null; signal: string | null }>;
  stderr(): string;
}

function serve(t: TestContext, env: Record<string, string>, args: string[] = []): Running {
  const child = spawn(process.execPath, [MAIN, 'serve', ...args], {
    env: { PATH: `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  child.stdout?.on('data', (data: Buffer) => {
    text += data.toString();
  });
  child.stderr?.on('data', (data: Buffer) => {
    text += data.toString();
  });
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal }));
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return { child, ended, stderr: () => text };
}

function settings(workspace: Workspace): Record<string, string> {
  return {
    CSI_ENDPOINT: `unix://${workspace.path('csi.sock')}`,
    BLOCKDELTA_STATE_DIR: workspace.path('state'),
    BLOCKDELTA_EMBEDDED_POOL_SIZE: '1Gi',
  };
}

test('E10: an invalid setting: exit code 78 and one line that names it, before anything is created', async (t) => {
  const workspace = makeWorkspace(t);
  const wrong = { ...settings(workspace), BLOCKDELTA_SCAN_THREADS: 'many' };
  const running = serve(t, wrong);
  assert.deepEqual(await running.ended, { code: 78, signal: null });
  assert.equal(
    running.stderr(),
    "blockdelta: BLOCKDELTA_SCAN_THREADS is 'many': it must be a whole number from 1 to 64\n",
  );
  assert.deepEqual(readdirSync(workspace.directory), []);
});

test('without any setting, the error names the required one', async (t) => {
  const running = serve(t, {});
  assert.equal((await running.ended).code, 78);
  assert.match(running.stderr(), /^blockdelta: CSI_ENDPOINT is not set\./);
});

test('a path that cannot become the socket: exit code 1 and the reason', async (t) => {
  const workspace = makeWorkspace(t);
  writeFileSync(workspace.path('csi.sock'), '');
  const running = serve(t, settings(workspace));
  assert.equal((await running.ended).code, 1);
  assert.match(running.stderr(), /^blockdelta: .*csi\.sock exists and is not a socket/);
  assert.deepEqual(readdirSync(workspace.directory), ['csi.sock']);
});

test('a state directory that cannot be created: exit code 1, and the socket is removed', async (t) => {
  const workspace = makeWorkspace(t);
  writeFileSync(workspace.path('state'), '');
  const running = serve(t, settings(workspace));
  assert.equal((await running.ended).code, 1);
  assert.match(running.stderr(), /^blockdelta: .*state/m);
  assert.ok(!existsSync(workspace.path('csi.sock')));
});

test('help shows every setting with its default', async (t) => {
  const running = serve(t, {}, ['--help']);
  assert.equal((await running.ended).code, 0);
  for (const [name, { fallback }] of Object.entries(SETTINGS)) {
    const line = running
      .stderr()
      .split('\n')
      .find((each) => each.includes(`  ${name} `));
    assert.ok(line?.includes(fallback === null ? '' : `(default: ${fallback})`), name);
  }
});

const needsRoot = { skip: skipUnlessRoot };

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  test(`${signal} is exit code 0, and the socket is gone`, needsRoot, async (t) => {
    const workspace = makeWorkspace(t);
    const plugin = await Plugin.start(workspace);
    t.after(() => plugin.kill());
    plugin.process.kill(signal);
    const [code, by] = await once(plugin.process, 'exit');
    assert.deepEqual([code, by], [0, null]);
    assert.ok(!existsSync(workspace.path('plugin.sock')));
    assert.match(plugin.log, /"msg":"stopped"/);
    plugin.client.close();
  });
}

test('SIGTERM while the pools start is exit code 0', needsRoot, async (t) => {
  const workspace = makeWorkspace(t);
  const running = serve(t, settings(workspace));
  while (!existsSync(workspace.path('csi.sock'))) await delay(1);
  running.child.kill('SIGTERM');
  assert.deepEqual(await running.ended, { code: 0, signal: null }, running.stderr());
});

/** A socket has its name from bind() on, and refuses connections until listen(). */
function acceptsConnections(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const connection = connect(socket);
    connection.once('error', () => resolve(false));
    connection.once('connect', () => {
      connection.destroy();
      resolve(true);
    });
  });
}

test('ID8: Probe answers from the start: not ready, then ready', needsRoot, async (t) => {
  const workspace = makeWorkspace(t);
  const env = settings(workspace);
  const running = serve(t, env);
  while (!(await acceptsConnections(workspace.path('csi.sock')))) await delay(1);
  const client = new CsiClient(env['CSI_ENDPOINT'] as string);
  t.after(() => client.close());
  const seen: boolean[] = [];
  while (seen.at(-1) !== true) {
    const { ready } = await client.identity.Probe({}, { deadlineMs: 10_000 });
    seen.push(ready.value);
    assert.ok(seen.length < 10_000, running.stderr());
  }
  assert.equal(seen[0], false);
  assert.equal(seen.filter((ready) => ready).length, 1);
});

test(
  'a second plugin on a socket fails at once and leaves the first alone',
  needsRoot,
  async (t) => {
    const workspace = makeWorkspace(t);
    const plugin = await Plugin.start(workspace);
    t.after(() => plugin.kill());
    const second = serve(t, {
      ...settings(workspace),
      CSI_ENDPOINT: `unix://${workspace.path('plugin.sock')}`,
    });
    assert.equal((await second.ended).code, 1);
    assert.match(second.stderr(), /^blockdelta: another process serves on/);
    assert.deepEqual((await plugin.client.identity.Probe({}))['ready'], { value: true });
  },
);

test('after kill -9 the plugin starts again on the stale socket', needsRoot, async (t) => {
  const workspace = makeWorkspace(t);
  const first = await Plugin.start(workspace);
  await first.kill();
  assert.ok(existsSync(workspace.path('plugin.sock')));
  const second = await Plugin.start(workspace);
  assert.equal(await second.stop(), 0);
});
