/** Sockets that a command cannot use: each is named as what it is, with what to do. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { runCommand } from '../support/command.js';
import { skipUnlessRoot, Workspace } from '../support/workspace.js';

const UNREACHABLE = 6;

function workspaceOf(t: TestContext): Workspace {
  const workspace = new Workspace('cli-socket');
  t.after(() => workspace.dispose());
  return workspace;
}

/** A socket on which nobody listens any more. */
async function deadSocket(workspace: Workspace): Promise<string> {
  const path = workspace.path('dead.sock');
  const server = createServer().listen(path);
  await once(server, 'listening');
  // A server removes its own path when it closes.
  renameSync(path, `${path}.left`);
  await new Promise((done) => server.close(done));
  return `${path}.left`;
}

test('a missing socket and a file that is none are named at once', async (t) => {
  const workspace = workspaceOf(t);
  const file = workspace.path('file.sock');
  writeFileSync(file, '');
  for (const [path, message] of [
    [workspace.path('no.sock'), /there is no socket at .*no\.sock: start the plugin/],
    [file, /nothing listens on|is not a socket/],
  ] as const) {
    const ended = await runCommand(t, ['delta', 'a', 'b', '--endpoint', `unix://${path}`]);
    assert.equal(ended.code, UNREACHABLE);
    assert.match(ended.stderr, message);
  }
});

test('a socket that nobody serves is tried again, and named in the end', async (t) => {
  const path = await deadSocket(workspaceOf(t));
  const ended = await runCommand(t, ['allocated', 's', '--endpoint', `unix://${path}`]);
  assert.equal(ended.code, UNREACHABLE);
  assert.match(
    ended.stderr,
    /gave up .*nothing listens on the socket .*: the plugin that made it has ended/,
  );
});

test('a socket without permission is said to be one', { skip: skipUnlessRoot }, async (t) => {
  const workspace = workspaceOf(t);
  const path = workspace.path('closed.sock');
  const server = createServer().listen(path);
  await once(server, 'listening');
  t.after(() => server.close());
  execFileSync('chmod', ['755', workspace.directory]);
  chmodSync(path, 0o600);
  const main = packagePath('.test-build/src/main.js');
  const user = ['--reuid=65534', '--regid=65534', '--clear-groups', process.execPath, main];
  for (const command of [['allocated', 's'], ['conformance']]) {
    const ended = spawnSync('setpriv', [...user, ...command, '--endpoint', `unix://${path}`], {
      encoding: 'utf8',
    });
    assert.match(ended.stderr, /permission denied for the socket .*: run the command as root, or/);
    assert.notEqual(ended.status, 0);
  }
});
