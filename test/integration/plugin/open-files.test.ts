/** A small limit of open files: fewer connections, and never EMFILE. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { test as plainTest, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '../../../src/base/errors.js';
import { openFilesLimit } from '../../../src/base/listening/open-files.js';
import { Authority, tlsSettings } from '../../support/certificates.js';
import { CsiClient } from '../../support/csi-client.js';
import { eventually } from '../../support/eventually.js';
import { Plugin } from '../../support/plugin.js';
import { test } from '../../support/running-plugin.js';
import { temporaryDirectory } from '../../support/temporary.js';
import { Workspace } from '../../support/workspace.js';

/** Of which 64 are left for connections. */
const FILES = { router: 256, plugin: 320 };
const limited = (files: number): string[] => ['prlimit', `--nofile=${files}`];

/** Opens far more connections than there may be files, which begin HTTP/2 and stay; then others are served. */
async function survives(t: TestContext, running: Plugin, files: number): Promise<void> {
  t.after(() => running.kill());
  const path = running.endpoint.slice('unix://'.length);
  for (let index = 0; index < 2 * files; index += 1) {
    const socket = await connected(path);
    t.after(() => socket.destroy());
    socket.on('error', () => undefined);
    socket.resume();
    socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0');
  }
  const client = new CsiClient(running.endpoint);
  t.after(() => client.close());
  await eventually('another client is served', async () => {
    const answer = await client.identity.Probe({}).catch(() => null);
    return answer?.['ready'].value === true;
  });
  const open = readdirSync(`/proc/${running.process.pid}/fd`).length;
  assert.ok(open < files - 32, `${open} files are open`);
  assert.match(running.log, /leaves 64 connections instead of the 128/);
  assert.doesNotMatch(running.log, /EMFILE|cannot accept/);
}

/** Connects as soon as the kernel's queue has room: a program that gets no processor accepts nothing. */
async function connected(path: string): Promise<Socket> {
  for (;;) {
    const socket = connect(path);
    try {
      await once(socket, 'connect');
      return socket;
    } catch (thrown) {
      if (errorCode(thrown) !== 'EAGAIN') throw thrown;
      await delay(20);
    }
  }
}

plainTest('H12: a router with few files has fewer connections', async (t) => {
  const directory = temporaryDirectory();
  const list = join(directory, 'nodes.json');
  writeFileSync(list, '{"nodes": []}');
  const router = Plugin.route({
    socket: join(directory, 'router.sock'),
    by: limited(FILES.router),
    env: {
      BLOCKDELTA_ROUTE_NODES: `file:${list}`,
      ...tlsSettings(new Authority(directory).issue('router', 'blockdelta-router')),
    },
  });
  await survives(t, await router.ready(), FILES.router);
});

test('H12: a plugin with few files has fewer connections, and still makes its pool', async (t) => {
  const workspace = new Workspace('open-files');
  t.after(() => workspace.dispose());
  // The threads of the default setting would take most of the files.
  const env = { BLOCKDELTA_VOLUME_THREADS: '2' };
  const plugin = await Plugin.start(workspace, { env, by: limited(FILES.plugin) });
  await survives(t, plugin, FILES.plugin);
});

plainTest('a limit that leaves hardly any connection ends the start and says what to do', async (t) => {
  const workspace = new Workspace('open-files-none');
  t.after(() => workspace.dispose());
  const plugin = Plugin.launch(workspace, { by: limited(128) });
  assert.equal(await plugin.exitCode(), 1);
  assert.match(
    plugin.log,
    /^blockdelta: cannot serve with a limit of 128 open files: 416 are needed beside connections; raise the hard limit to 544 \(LimitNOFILE=/m,
  );
  assert.deepEqual(readdirSync(workspace.directory), []);
});

plainTest('the limit of open files is read as the kernel prints it', () => {
  const line = (soft: string): string =>
    `Limit                     Soft Limit           Hard Limit           Units     \n` +
    `Max open files            ${soft}              524288               files     \n`;
  assert.equal(openFilesLimit(line('1024')), 1024);
  assert.equal(openFilesLimit(line('unlimited')), Number.POSITIVE_INFINITY);
  assert.throws(() => openFilesLimit(''), /mount proc at \/proc/);
});
