import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { assertPrograms, ExecError, run } from '../../../src/base/process/exec.js';
import { isToolAtWork } from '../../../src/driver/host/device-holders.js';
import { end } from '../../support/child-processes.js';
import { eventually } from '../../support/eventually.js';
import { refused } from '../../support/refusal.js';
import { temporaryDirectory } from '../../support/temporary.js';
import { makePoolFileSystem, skipUnlessRoot, Workspace } from '../../support/workspace.js';

/** The process's children, by the kernel. */
function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return text === '' ? [] : text.split(' ').map(Number);
}

function isAlive(pid: number): boolean {
  if (!existsSync(`/proc/${pid}/stat`)) return false;
  // A zombie waits for its parent only.
  return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
}

async function failureOf(promise: Promise<unknown>): Promise<ExecError> {
  try {
    await promise;
  } catch (thrown) {
    assert.ok(thrown instanceof ExecError, String(thrown));
    return thrown;
  }
  assert.fail('the command did not fail');
}

test('a program gets its arguments as they are, an empty stdin, the C locale and a fixed PATH', async () => {
  const hostile = ['$HOME', '`id`', '; touch /tmp/x', '*', 'a b', "it's"];
  const { stdout } = await run('printf', ['%s\\n', ...hostile]);
  assert.deepEqual(stdout.split('\n').slice(0, -1), hostile);
  assert.equal((await run('cat', [])).stdout, '');
  const environment = (await run('env', [])).stdout.split('\n').filter((line) => line !== '');
  assert.deepEqual(environment.map((line) => line.split('=')[0]).sort(), ['LC_ALL', 'PATH']);
  assert.ok(environment.includes('LC_ALL=C'));
});

const SHELL = (script: string, options = {}) => run('sh', ['-c', script], options);
const FAILURES: readonly [what: string, run: () => Promise<unknown>, is: Partial<ExecError>][] = [
  ['its exit code', () => SHELL('exit 3'), { code: 'EXIT', command: 'sh', exitCode: 3 }],
  ['the signal that ended it', () => SHELL('kill -TERM $$'), { code: 'SIGNAL', signal: 'SIGTERM' }],
  [
    'its last output without secrets',
    () => SHELL('echo option password=tiger is bad >&2; exit 1', { secrets: ['password=tiger'] }),
    { stderr: 'option *** is bad' },
  ],
  ['that it took too long', () => run('sleep', ['600'], { timeoutMs: 200 }), { code: 'ETIMEDOUT', signal: 'SIGKILL' }],
  // Instead of filling the memory.
  ['that its output does not end', () => run('yes', []), { code: 'EOVERFLOW' }],
];
for (const [what, command, wanted] of FAILURES) {
  test(`the failure of a program says ${what}`, async () => {
    const failure = await failureOf(command());
    for (const [key, value] of Object.entries(wanted)) {
      assert.equal(failure[key as keyof ExecError], value);
    }
    assert.doesNotMatch(failure.message, /tiger/);
    assert.deepEqual(childrenOf(process.pid), []);
  });
}

test('the end of what a failed program said is kept', async () => {
  const script = 'head -c 100000 /dev/zero | tr "\\0" x >&2; echo the end >&2; exit 3';
  const { stderr } = await failureOf(SHELL(script));
  assert.ok(stderr.length <= 4096);
  assert.match(stderr, /the end$/);
});

test('exit codes that the caller accepts are answers', async () => {
  const { exitCode } = await SHELL('exit 2', { accept: [0, 2] });
  assert.equal(exitCode, 2);
});

test('a background process that keeps the pipes does not keep the caller', async () => {
  const { stdout } = await SHELL('sleep 600 & echo "$!"');
  process.kill(Number(stdout), 'SIGKILL');
});

test('ID10: all programs are looked for at once, and a missing one is reported as a run would report it', async () => {
  await assertPrograms();
  const missing = /^the program no-such-program is not installed on this node$/;
  await refused(assertPrograms(['sh', 'no-such-program']), 'FAILED_PRECONDITION', missing);
  await refused(run('no-such-program', []), 'FAILED_PRECONDITION', missing);
  assert.deepEqual(childrenOf(process.pid), []);
});

/** A script that is begun, waits for a sign and ends, and the file it keeps locked meanwhile. */
class Waiting {
  readonly directory = temporaryDirectory();
  readonly locked = this.path('locked');
  // What it says finds a closed pipe; that must not end it either.
  readonly script =
    `touch ${this.path('begun')}; while [ ! -e ${this.path('go')} ]; do sleep 0.05; done; ` +
    `echo x; echo y >&2; touch ${this.path('ended')}`;

  /** A test that fails does not leave it waiting. */
  constructor(t: TestContext) {
    t.after(() => writeFileSync(this.path('go'), ''));
  }

  path(name: string): string {
    return join(this.directory, name);
  }

  async end(): Promise<void> {
    writeFileSync(this.path('go'), '');
    await eventually('the command ended by itself', () => existsSync(this.path('ended')));
    await eventually('no process is left', () => childrenOf(process.pid).length === 0);
    // Whoever inherited the lock has gone with it.
    while (await isToolAtWork(this.locked)) await delay(25);
  }
}

test('a command that must not stop half way ends although the plugin was killed, and is at work till then', async (t) => {
  const waiting = new Waiting(t);
  const script = fileURLToPath(new URL('./exec-process.js', import.meta.url));
  const plugin = spawn(process.execPath, [script, waiting.script, waiting.locked], { stdio: 'ignore' });
  await eventually('the command runs', () => existsSync(waiting.path('begun')));
  await end(plugin);
  assert.equal(await isToolAtWork(waiting.locked), true);
  await waiting.end();
});

test('a command that must not stop half way is not killed when its time is over', async (t) => {
  const waiting = new Waiting(t);
  const options = { outlivesLocking: waiting.locked, timeoutMs: 500 };
  const ran = run('sh', ['-c', waiting.script], options);
  await refused(ran, 'ABORTED', /^sh is still working on .*locked.*try again/);
  await eventually('the command runs', () => existsSync(waiting.path('begun')));
  assert.equal(await isToolAtWork(waiting.locked), true);
  await waiting.end();
});

test('a command that must not stop half way is not killed for what it says', async (t) => {
  const waiting = new Waiting(t);
  const options = { outlivesLocking: waiting.locked };
  const ran = run('sh', ['-c', `head -c 2000000 /dev/zero; ${waiting.script}`], options);
  await refused(ran, 'ABORTED', /still working/);
  await eventually('the command goes on', () => existsSync(waiting.path('begun')));
  await waiting.end();
});

test('two commands that lock one device do not run at once', async (t) => {
  const waiting = new Waiting(t);
  const options = { outlivesLocking: waiting.locked };
  const first = run('sh', ['-c', waiting.script], options);
  await eventually('the first one runs', () => existsSync(waiting.path('begun')));
  const second = run('ls', [waiting.directory], options);
  await eventually('the second one waits', () => childrenOf(process.pid).length === 2);
  await delay(200);
  writeFileSync(waiting.path('go'), '');
  assert.match((await second).stdout, /^ended$/m);
  await first;
  await waiting.end();
});

test('a device that another process keeps locked is ABORTED, and nothing was run', async (t) => {
  const directory = temporaryDirectory();
  const locked = join(directory, 'locked');
  const holder = spawn('flock', ['--no-fork', '-x', locked, 'sleep', '600'], { stdio: 'ignore' });
  t.after(() => holder.kill('SIGKILL'));
  while (!(await isToolAtWork(locked))) await delay(25);
  const options = { outlivesLocking: locked, lockTimeoutS: 1 };
  const ran = run('touch', [join(directory, 'run')], options);
  await refused(ran, 'ABORTED', /another program is still working on/);
  assert.equal(existsSync(join(directory, 'run')), false);
});

test('a command stuck in the kernel is given up after it could not be killed', {
  skip: skipUnlessRoot,
}, async () => {
  const workspace = new Workspace('exec');
  try {
    const mountPoint = makePoolFileSystem(workspace, 'ext4', 64);
    execFileSync('fsfreeze', ['-f', mountPoint]);
    // A write to a frozen file system waits uninterruptibly.
    const failure = await failureOf(run('touch', [`${mountPoint}/x`], { timeoutMs: 200, killGraceMs: 500 }));
    assert.equal(failure.code, 'ESTUCK');
    assert.match(failure.message, /stuck in the kernel/);
    const children = childrenOf(process.pid);
    spawnSync('fsfreeze', ['-u', mountPoint]);
    await eventually('touch ends', () => children.every((child) => !isAlive(child)));
  } finally {
    workspace.dispose();
  }
});
