/** Concurrent starts on one socket: a live process never loses it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, linkSync, statSync, unlinkSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { bindSocketPath } from '../../src/base/listening/socket-path.js';
import { StartError } from '../../src/server/server.js';
import { isNightly } from '../support/nightly.js';
import { makeServer, unaryService } from '../support/server-fixture.js';
import { temporaryDirectory } from '../support/temporary.js';

const ROUNDS = isNightly ? 200 : 20;
const IDENTITY = unaryService('Identity', { Probe: async () => ({}) });

async function listen(path: string): Promise<Server> {
  const server = createServer();
  server.listen(path);
  await once(server, 'listening');
  return server;
}

/** Leaves a stale socket file, as a killed process does. */
async function leaveStaleSocket(directory: string, path: string): Promise<void> {
  const other = join(directory, 'other.sock');
  const server = await listen(other);
  // Node unlinks the path it bound; a second name keeps the file.
  linkSync(other, path);
  server.close();
  await once(server, 'close');
}

/** Another process in the middle of its start. Resolves once it has the lock. */
async function lock(t: TestContext, directory: string): Promise<() => void> {
  const script = 'flock 9; echo locked; read -r end';
  const child = spawn('bash', ['-c', `exec 9<"$0"; ${script}`, directory], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(child, 'close');
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  await once(child.stdout, 'data');
  return () => child.stdin.end();
}

function refuses(error: unknown): boolean {
  return error instanceof StartError && /another process serves/.test(error.message);
}

test('H9: a start waits for a concurrent one, and then finds the socket served', async (t) => {
  const directory = temporaryDirectory();
  const made = makeServer(directory, { services: [IDENTITY] });
  await leaveStaleSocket(directory, made.socketPath);
  const stale = statSync(made.socketPath).ino;
  const release = await lock(t, directory);
  const started = assert.rejects(made.server.start(), refuses);
  await delay(300);
  assert.equal(statSync(made.socketPath).ino, stale, 'the socket is not examined meanwhile');
  // The one under way replaces the stale socket by its own.
  unlinkSync(made.socketPath);
  const live = await listen(made.socketPath);
  release();
  await started;
  assert.ok(existsSync(made.socketPath));
  live.close();
  made.client.close();
});

test('H9: one of concurrent starts on a stale socket serves, and the others report it', async () => {
  const directory = temporaryDirectory();
  for (let round = 0; round < ROUNDS; round += 1) {
    const made = [0, 1, 2, 3].map(() => makeServer(directory, { services: [IDENTITY] }));
    const path = made[0]?.socketPath as string;
    await leaveStaleSocket(directory, path);
    const results = await Promise.allSettled(made.map(({ server }) => server.start()));
    const failures = results.filter((result) => result.status === 'rejected');
    assert.equal(failures.length, 3, `round ${round}`);
    for (const { reason } of failures) assert.ok(refuses(reason), String(reason));
    const winner = made[results.findIndex(({ status }) => status === 'fulfilled')];
    winner?.server.open([]);
    assert.deepEqual(await winner?.client.identity.Probe({}), { ready: null });
    for (const { client } of made) client.close();
    winner?.server.force();
    await winner?.server.stop();
    assert.equal(existsSync(path), false);
  }
});

test('a process that keeps the directory locked delays a start, but does not prevent it', async (t) => {
  const directory = temporaryDirectory();
  const path = join(directory, 'csi.sock');
  await leaveStaleSocket(directory, path);
  await lock(t, directory);
  const warnings: string[] = [];
  const logger = { warn: (_fields: unknown, message: string) => warnings.push(message) };
  let live: Server | undefined;
  const options = { logger: logger as never, lockTimeoutMs: 50 };
  const bind = async (): Promise<void> => {
    live = await listen(path);
  };
  await bindSocketPath(path, bind, options);
  assert.match(warnings.join(), /keeps the directory of the socket locked/);
  // What serves is refused, with or without the lock.
  await assert.rejects(bindSocketPath(path, bind, options), refuses);
  live?.close();
});
