/** `blockdelta nbd`, with the plugin on real devices and with nbdkit, nbdcopy and qemu-img as clients. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { afterEach, beforeEach, type TestContext } from 'node:test';
import { runCommand, startCommand } from '../../support/command.js';
import { MIB } from '../../support/orchestrator.js';
import { runPlugin, test } from '../../support/running-plugin.js';
import { skipUnlessRoot } from '../../support/workspace.js';

const SIZE = 64 * MIB;
const BLOCK = 4096;

const history = { first: '', second: '', third: '', device: '' };
const running = runPlugin('nbd-command', {
  pools: { main: 'xfs' },
  async prepare({ orchestrator }) {
    const volume = await orchestrator.create('source', { sizeBytes: SIZE });
    history.device = await orchestrator.bringUp(volume);
    write(0, 2 * MIB);
    write(40 * MIB, BLOCK);
    history.first = await orchestrator.snapshot(volume, 'first');
    write(MIB, 3 * BLOCK);
    write(50 * MIB, BLOCK);
    history.second = await orchestrator.snapshot(volume, 'second');
    history.third = await orchestrator.snapshot(volume, 'third');
    write(0, 8 * MIB);
  },
});

/** Random bytes, on disk. */
function write(offset: number, size: number): void {
  const place = [`of=${history.device}`, `seek=${offset / BLOCK}`, `count=${size / BLOCK}`];
  const how = [`bs=${BLOCK}`, 'oflag=direct', 'status=none'];
  execFileSync('dd', ['if=/dev/urandom', ...place, ...how]);
}

async function serving(t: TestContext, ...args: string[]) {
  const socket = running.workspace.path('export.sock');
  const command = ['nbd', ...args, '--socket', socket];
  const { child, output, ended } = startCommand(t, command, running.settings);
  const isReady = new Promise<void>((resolve) => {
    child.stdout.on('data', () => {
      if (output.stdout.endsWith('\n')) resolve();
    });
  });
  await Promise.race([isReady, ended]);
  assert.equal(child.exitCode, null, output.stderr);
  const stop = () => {
    child.kill('SIGTERM');
    return ended;
  };
  return { uri: output.stdout.trim(), socket, stop, child, ended };
}

const total = (uri: string, kind: 'data' | 'hole,zero'): number => {
  const text = execFileSync('nbdinfo', ['--map', '--totals', '--json', uri], { encoding: 'utf8' });
  const rows = JSON.parse(text) as { size: number; description: string }[];
  return rows.find(({ description }) => description === kind)?.size ?? 0;
};

/** The bytes of an export. */
function copyOf(uri: string, ...options: string[]): Buffer {
  const file = running.workspace.path('copy.raw');
  execFileSync('nbdcopy', [...options, uri, file]);
  const bytes = readFileSync(file);
  execFileSync('rm', [file]);
  return bytes;
}

let before: readonly string[];
beforeEach(() => {
  if (skipUnlessRoot === false) before = readdirSync(running.workspace.directory);
});
afterEach(async () => {
  if (skipUnlessRoot !== false) return;
  assert.deepEqual(readdirSync(running.workspace.directory).sort(), [...before].sort());
  assert.equal((await running.orchestrator.volumeIds()).length, 1);
});

test('the allocated ranges of a snapshot are data, and its contents those of its own time', async (t) => {
  const { uri, socket, stop } = await serving(t, history.second);
  assert.equal(uri, `nbd+unix:///?socket=${encodeURIComponent(socket)}`);
  assert.equal(total(uri, 'data'), 2 * MIB + 2 * BLOCK);
  assert.equal(total(uri, 'hole,zero'), SIZE - 2 * MIB - 2 * BLOCK);
  // The volume has changed since then; a snapshot that is equal is served for comparison.
  const bytes = copyOf(uri);
  const image = running.workspace.path('copy.qcow2');
  execFileSync('qemu-img', ['convert', '-f', 'raw', '-O', 'qcow2', uri, image]);
  execFileSync('qemu-img', ['compare', '-f', 'raw', '-F', 'qcow2', uri, image]);
  execFileSync('rm', [image]);
  assert.match(execFileSync('nbdinfo', [uri], { encoding: 'utf8' }), /is_read_only: true/);
  const ended = await stop();
  assert.deepEqual([ended.code, ended.signal], [0, null], ended.stderr);
  assert.match(ended.stderr, /serving \d+ ranges, 2 MiB of 64 MiB/);
  const other = await serving(t, history.third);
  assert.ok(bytes.equals(copyOf(other.uri)));
  await other.stop();
});

test('an export with a base has what changed as data, and a copy of the data turns the base into the target', async (t) => {
  const copy = running.workspace.path('base.raw');
  const first = await serving(t, history.first);
  execFileSync('nbdcopy', [first.uri, copy]);
  await first.stop();
  const delta = await serving(t, history.second, '--base', history.first);
  assert.equal(total(delta.uri, 'data'), 4 * BLOCK);
  const how = ['--destination-is-zero', '--sparse=0', '--request-size=4096', '--'];
  // By a server: nbdcopy itself empties a file before it writes to it.
  execFileSync('nbdcopy', [...how, delta.uri, '[', 'nbdkit', 'file', copy, ']']);
  // A client that does not ask for holes reads the whole snapshot.
  assert.ok(readFileSync(copy).equals(copyOf(delta.uri, '--no-extents')));
  await delta.stop();
  execFileSync('rm', [copy]);
});

for (const [title, target, base, options, data] of [
  ['a grain rounds what is data outwards', 'second', 'first', ['--grain', '1Mi'], 2 * MIB],
  ['an empty delta is one hole', 'third', 'second', [], 0],
] as const) {
  test(title, async (t) => {
    const { uri, stop } = await serving(t, history[target], '--base', history[base], ...options);
    assert.equal(total(uri, 'data'), data);
    assert.equal(total(uri, 'hole,zero'), SIZE - data);
    await stop();
  });
}

test('what a killed command has left is removed by the next one', async (t) => {
  const killed = await serving(t, history.second);
  killed.child.kill('SIGKILL');
  await killed.ended;
  assert.ok(existsSync(killed.socket));
  // nbdkit is killed with it, so that the device is free again.
  const next = await serving(t, history.second);
  assert.equal(total(next.uri, 'data'), 2 * MIB + 2 * BLOCK);
  await next.stop();
});

test('the end of nbdkit ends the command, which says so', async (t) => {
  const { child, ended } = await serving(t, history.second);
  const children = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8');
  process.kill(Number(children.trim()), 'SIGKILL');
  const { code, stderr } = await ended;
  assert.equal(code, 1);
  assert.match(stderr, /nbdkit, started to serve .*, was ended by SIGKILL/);
});

test('a base that is gone, an unknown snapshot and a taken socket are refused', async (t) => {
  const socket = running.workspace.path('export.sock');
  const refused = async (code: number, ...args: string[]): Promise<string> => {
    const ended = await runCommand(t, ['nbd', ...args], running.settings);
    assert.equal(ended.code, code, ended.stderr);
    return ended.stderr;
  };
  await refused(4, 'no-such-snapshot', '--socket', socket);
  await refused(4, history.second, '--base', 'no-such-snapshot', '--socket', socket);
  await refused(2, history.second);
  writeFileSync(socket, '');
  const file = /cannot serve on .*: there is a file of that name; give another --socket/;
  assert.match(await refused(3, history.second, '--socket', socket), file);
  assert.ok(existsSync(socket));
  assert.match(
    await refused(4, history.second, '--socket', `${socket}/x`),
    /there is no directory .*export\.sock for /,
  );
  execFileSync('rm', [socket]);
  const directory = /cannot serve on \/etc: there is a directory of that name/;
  assert.match(await refused(3, history.second, '--socket', '/etc'), directory);
  assert.match(await refused(2, history.second, '--socket', `/tmp/${'x'.repeat(103)}`), /It is 108 bytes long/);
  const server = createServer().listen(socket);
  await once(server, 'listening');
  const taken = /cannot serve on .*: another program serves there/;
  assert.match(await refused(3, history.second, '--socket', socket), taken);
  server.close();
  await once(server, 'close');
});
