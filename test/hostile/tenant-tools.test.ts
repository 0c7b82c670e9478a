/** Tools that read what a tenant has written, and may be exploited by it: what they can do, cost and leave. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import { ExecError, type RunOptions, run } from '../../src/base/process/exec.js';
import type { Rights } from '../../src/base/process/sandbox.js';
import { checkFileSystem } from '../../src/driver/host/filesystem.js';
import { SIZE, useNode } from '../integration/node/node-fixture.js';
import { end } from '../support/child-processes.js';
import { mountCapability } from '../support/csi-client.js';
import { eventually } from '../support/eventually.js';
import { writeHostileExt4 } from '../support/hostile-ext4.js';
import { attachLoop, sparseFile } from '../support/loops.js';
import { refused } from '../support/refusal.js';
import { NOTHING, test } from '../support/running-plugin.js';

const FIRST_USER = 0x7000_0000;
const MOUNT_RIGHTS = (1n << 21n) | (1n << 2n);

const node = useNode('tenant-tools');
const { workspace } = node;

let made = 0;
function device(): string {
  made += 1;
  return attachLoop(sparseFile(workspace.path(`image-${made}`), 64 << 20));
}

/** A device whose check does not end. */
function endless(): string {
  const path = device();
  writeHostileExt4(path, 'time');
  return path;
}

const check = (path: string, options: RunOptions): Promise<unknown> =>
  run('fsck.ext4', ['-p', path], { device: path, ...options });

/** Fields of /proc/PID/status. */
function statusOf(text: string): Map<string, string> {
  const lines = text.split('\n').filter((line) => line.includes(':'));
  return new Map(lines.map((line) => line.split(':\t').map((part) => part.trim()) as [string, string]));
}

const ownStatus = async (options: RunOptions): Promise<Map<string, string>> =>
  statusOf((await run('cat', ['/proc/self/status'], options)).stdout);

const capabilities = (status: Map<string, string>): bigint[] =>
  ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'].map((name) => BigInt(`0x${status.get(name)}`));

/** The processes of that name with such an argument, mostly a device. */
function toolsOn(argument: string, name: string): number[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .filter((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
        return words[0]?.endsWith(`/${name}`) === true && words.includes(argument);
      } catch {
        return false;
      }
    })
    .map(Number);
}

const tryShell = async (script: string, devicePath: string): Promise<string> => {
  const { stdout, stderr } = await run('sh', ['-c', `{ ${script}; } 2>&1; true`], {
    device: devicePath,
    // dash ends with 2 where it cannot fork.
    accept: [0, 2],
  });
  return stdout + stderr;
};

test('H2: no program has capabilities but mount, which has two', async () => {
  const plain = await ownStatus({});
  assert.deepEqual(capabilities(plain), [0n, 0n, 0n, 0n, 0n]);
  assert.equal(plain.get('NoNewPrivs'), '1');
  const mounting = await ownStatus({ mounts: true });
  assert.deepEqual(capabilities(mounting), [0n, MOUNT_RIGHTS, MOUNT_RIGHTS, MOUNT_RIGHTS, 0n]);
});

test('H2: fsck.ext4 runs as a separate user, without privileges, and with limits', async () => {
  const path = endless();
  const checked = check(path, { cpuSeconds: 2 }).catch((thrown) => thrown);
  await eventually('fsck.ext4 runs', () => toolsOn(path, 'fsck.ext4').length === 1);
  const [pid] = toolsOn(path, 'fsck.ext4');
  const read = (name: string): string => readFileSync(`/proc/${pid}/${name}`, 'utf8');
  const status = statusOf(read('status'));
  const users = status.get('Uid')?.split('\t').map(Number) ?? [];
  assert.equal(new Set(users).size, 1);
  assert.ok((users[0] ?? 0) >= FIRST_USER, `${users[0]} is a user that others are`);
  assert.equal(status.get('Groups'), '');
  assert.deepEqual(capabilities(status), [0n, 0n, 0n, 0n, 0n]);
  assert.equal(status.get('NoNewPrivs'), '1');
  assert.equal(status.get('Seccomp'), '2');
  const limits = read('limits');
  assert.match(limits, /^Max cpu time +2 /m);
  assert.match(limits, /^Max file size +0 +0 /m);
  assert.match(limits, /^Max core file size +0 +0 /m);
  assert.match(limits, /^Max open files +64 +64 /m);
  assert.match(limits, /^Max address space +\d+ /m);
  assert.equal(read('oom_score_adj').trim(), '1000');
  await checked;
});

test('H2: an exploited tool has access to its own device, and to nothing else on the node', async () => {
  const [path, other] = [device(), device()];
  assert.match(await tryShell(`echo x > ${workspace.path('file')}`, path), /nonexistent/);
  assert.match(await tryShell('cat < /etc/shadow', path), /Permission denied/);
  assert.match(await tryShell('echo x > /etc/cron.d/x', path), /Read-only|Permission denied/);
  assert.match(await tryShell(`echo x > ${other}`, path), /Permission denied|Read-only/);
  assert.match(await tryShell('ls /', path), /Cannot fork/);
  const { stdout } = await run('ls', ['-A', '/dev', '/'], { device: path });
  const seen = stdout.split('\n').filter((line) => line !== '');
  const wanted = ['null', 'random', 'urandom', 'zero', path.slice('/dev/'.length)];
  assert.deepEqual(seen.slice(seen.indexOf('/dev:') + 1).sort(), wanted.sort());
  assert.equal(seen.includes('var') || seen.includes('run') || seen.includes('tmp'), false);
  assert.equal(existsSync('/etc/cron.d/x'), false);
  const { stdout: mounts } = await run('cat', ['/proc/self/mounts'], { device: path });
  for (const line of mounts.trim().split('\n')) assert.match(line, / ro,/);
});

test('H2: two concurrent tools run as two users, so that neither can reach the other', async () => {
  const [one, two] = [device(), device()];
  const users = await Promise.all([one, two].map(async (path) => (await ownStatus({ device: path })).get('Uid')));
  assert.notEqual(users[0], users[1]);
});

test('H2: a tool in an endless loop is killed, with an error that names the tool and the limit', async () => {
  const path = endless();
  const failure = await check(path, { cpuSeconds: 1 }).catch((thrown) => thrown);
  assert.ok(failure instanceof ExecError, String(failure));
  assert.equal(failure.code, 'SIGNAL');
  assert.equal(failure.signal, 'SIGXCPU');
  assert.match(failure.message, /^fsck.ext4 was ended by SIGXCPU.* 1 s of processor time$/s);
  assert.deepEqual(toolsOn(path, 'fsck.ext4'), []);
});

test('H2: a tool that takes too long is killed at its timeout', async () => {
  const path = endless();
  const checked = check(path, { timeoutMs: 500 });
  await assert.rejects(checked, /^ExecError: fsck.ext4 was killed after 500 ms/);
  assert.deepEqual(toolsOn(path, 'fsck.ext4'), []);
});

test('H2: a volume whose check exceeds the memory limit is not staged, and nothing is left behind', async () => {
  const volume = await node.used(mountCapability('ext4'), SIZE);
  const { devicePath } = await node.backend.attachments.attach(volume.volumeId, { readOnly: false });
  writeHostileExt4(devicePath, 'memory');
  await node.backend.attachments.detach(volume.volumeId);
  const staged = node.stage(volume, mountCapability('ext4'));
  const told = new RegExp(`^volume ${volume.volumeId}: .*fsck.ext4 .* MiB of memory and 1\\d\\d s of`, 's');
  await refused(staged, 'FAILED_PRECONDITION', told);
  assert.deepEqual(node.held(), NOTHING);
  assert.deepEqual(await node.catalogue.stagings(volume.volumeId), []);
});

test('H2: a plugin that is killed leaves no check of a volume behind', async () => {
  const path = endless();
  const script = fileURLToPath(new URL('./tenant-tools-process.js', import.meta.url));
  const plugin = spawn(process.execPath, [script, path], { stdio: 'inherit' });
  await eventually('fsck.ext4 runs', () => toolsOn(path, 'fsck.ext4').length === 1);
  await end(plugin);
  await eventually('fsck.ext4 is gone', () => toolsOn(path, 'fsck.ext4').length === 0);
});

test('H2: a tool that must not stop half way has no privileges, a day of time and ample memory', async () => {
  const path = device();
  const options = { device: path, outlivesLocking: path, cpuSeconds: 1 };
  const { stdout } = await run('cat', ['/proc/self/status', '/proc/self/limits'], options);
  assert.deepEqual(capabilities(statusOf(stdout)), [0n, 0n, 0n, 0n, 0n]);
  assert.match(stdout, /^Max cpu time +86400 /m);
  const [, memory] = /^Max address space +(\d+) /m.exec(stdout) ?? [];
  assert.ok(Number(memory) >= Math.max(2 ** 30, totalmem() / 2 - 1));
  const { stdout: score } = await run('cat', ['/proc/self/oom_score_adj'], options);
  assert.equal(score, readFileSync('/proc/self/oom_score_adj', 'utf8'));
});

test('H2: a running tool does not keep the devices of other volumes busy', async () => {
  const [path, other] = [device(), device()];
  execFileSync('mkfs.ext4', ['-q', other]);
  const target = workspace.path('mounted');
  mkdirSync(target);
  execFileSync('mount', [other, target]);
  const time = `600.${process.pid}`;
  const sleeping = run('sleep', [time], { device: path, timeoutMs: 60_000 }).catch(() => undefined);
  const asleep = (): number[] => toolsOn(time, 'sleep');
  await eventually('the tool runs', () => asleep().length === 1);
  execFileSync('umount', [target]);
  await (await open(other, constants.O_RDONLY | constants.O_EXCL)).close();
  for (const pid of asleep()) process.kill(pid, 'SIGKILL');
  await sleeping;
});

test('H2: a program that carries a device to another node reaches one port, or serves one socket, and makes no other', async () => {
  const path = device();
  const [wanted, other] = [createServer((socket) => socket.end()), createServer((socket) => socket.end())];
  const ports = await Promise.all(
    [wanted, other].map(async (server) => {
      await once(server.listen(0, '127.0.0.1'), 'listening');
      return (server.address() as AddressInfo).port;
    }),
  );
  const [port = 0, second = 0] = ports;
  const ask = async (to: number, network: Rights['network']): Promise<string> =>
    (await run('nbdinfo', [`nbd://127.0.0.1:${to}`], { device: path, accept: [1], ...(network && { network }) }))
      .stderr;
  try {
    // Whoever connects reaches the server, which says nothing and leaves.
    assert.match(await ask(port, { connect: port }), /disconnected|reset/);
    if (await restrictsTcp()) assert.match(await ask(second, { connect: port }), /Permission denied/);
    else console.log('# not tested: this kernel has no Landlock for TCP, so a program may connect to any port');
    assert.match(await ask(port, { listen: '127.0.0.1:0' }), /could not connect to remote host$/);
    assert.match(await ask(port, undefined), /could not connect to remote host$/);
    // A directory that it may not see stays out of sight beside a file that it is given.
    const [given, hidden] = [workspace.path('given'), workspace.path('hidden')];
    for (const file of [given, hidden]) writeFileSync(file, 'content', { mode: 0o444 });
    const seen = await run('cat', [given, hidden], { device: path, gives: [given], accept: [1] });
    assert.equal(seen.stdout, 'content');
    assert.match(seen.stderr, /hidden: No such file/);
  } finally {
    for (const server of [wanted, other]) server.close();
  }
});

/** Landlock has rules of TCP ports since version 4. */
async function restrictsTcp(): Promise<boolean> {
  const version = 'import ctypes; print(ctypes.CDLL(None).syscall(444, None, 0, 1))';
  return Number(execFileSync('python3', ['-c', version], { encoding: 'utf8' })) >= 4;
}

test('H2: a file that is not a block device is not given to a tool', async () => {
  await refused(checkFileSystem('ext4', '/etc/passwd'), 'FAILED_PRECONDITION', /not started/);
});
