/** What the test suite finds at the end of a run that stems from its directory: it names and releases it. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, type SpawnOptions, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { packagePath } from '../../../src/base/package-root.js';
import { procText } from '../../support/child-processes.js';
import { freeze } from '../../support/freeze.js';
import { attachLoop, sparseFile } from '../../support/loops.js';
import { copyMountNamespace } from '../../support/mount-namespace.js';
import { temporaryDirectory } from '../../support/temporary.js';
import { loopsBelow, mountsBelow, removeLeftBehind, skipUnlessRoot } from '../../support/workspace.js';

interface Group {
  procs: string;
  processes(): string[];
  remove(): void;
}

const { leftBy, leftByRun } = (await import(packagePath('scripts/suite/clean-up.mjs'))) as {
  leftBy(job: { directory: string; enter: string[]; cgroup?: Group | undefined }, endingMs: number): Promise<string[]>;
  leftByRun(directory: string, endingMs: number): Promise<string[]>;
};
const { Cgroup } = (await import(packagePath('scripts/suite/cgroup.mjs'))) as {
  Cgroup: { make(name: string): Group | undefined };
};

describe('what a run has left at its end', { skip: skipUnlessRoot }, () => {
  let directory = '';
  const children: ChildProcess[] = [];
  beforeEach(() => {
    directory = temporaryDirectory();
  });
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
    removeLeftBehind(directory);
  });

  /** In a directory like that of a job. */
  function makeFile(): string {
    const file = join(directory, '26/fake-volume-1.img');
    mkdirSync(dirname(file));
    return sparseFile(file, 1 << 20);
  }

  function start(program: string, words: string[], options: SpawnOptions): ChildProcess {
    const child = spawn(program, words, { stdio: 'ignore', ...options });
    children.push(child);
    return child;
  }

  test('a run that has left nothing names nothing', async () => {
    makeFile();
    assert.deepEqual(await leftByRun(directory, 0), []);
  });

  test('a run names and detaches a loop device on a file that is deleted', async () => {
    const file = makeFile();
    const device = attachLoop(file);
    rmSync(dirname(file), { recursive: true });
    const left = await leftByRun(directory, 0);
    assert.deepEqual(left, [`loop device ${device} on ${file} (deleted)`]);
    assert.deepEqual(loopsBelow(directory), []);
  });

  test('a run detaches a loop device whose file system was frozen and unmounted', async () => {
    const file = makeFile();
    const device = attachLoop(file);
    const mountPoint = join(directory, 'mounted');
    mkdirSync(mountPoint);
    execFileSync('mkfs.ext4', ['-q', device]);
    execFileSync('mount', [device, mountPoint]);
    freeze(mountPoint);
    execFileSync('umount', [mountPoint]);
    assert.deepEqual(await leftByRun(directory, 0), [`loop device ${device} on ${file}`]);
    assert.deepEqual(loopsBelow(directory), []);
  });

  test('a run says of a device that somebody keeps open that it stays', async () => {
    const file = makeFile();
    const device = attachLoop(file);
    const holder = openSync(device, 'r');
    try {
      const name = `loop device ${device} on ${file}`;
      const stays = `${name} (deleted), which could not be removed`;
      assert.deepEqual(await leftByRun(directory, 0), [name, stays]);
    } finally {
      closeSync(holder);
    }
  });

  test('a run names and unmounts what is mounted in another namespace', async () => {
    const mountPoint = join(directory, 'mounted');
    mkdirSync(mountPoint);
    execFileSync('mount', ['-t', 'tmpfs', 'none', mountPoint]);
    const copy = await copyMountNamespace();
    children.push(copy);
    execFileSync('umount', [mountPoint]);
    assert.deepEqual(mountsBelow(directory), []);
    const left = await leftByRun(directory, 0);
    assert.deepEqual(left, [`mount at ${mountPoint} in another namespace`]);
    assert.doesNotMatch(procText(`/proc/${copy.pid}/mountinfo`), new RegExp(mountPoint));
  });

  test('a run names and ends a process that works in its directory, and has none of its variables', async () => {
    const child = start('sleep', ['infinity'], { cwd: directory, env: { PATH: '/usr/bin:/bin' } });
    const ended = new Promise((resolve) => child.once('exit', (_, signal) => resolve(signal)));
    assert.deepEqual(await leftByRun(directory, 0), [`process ${child.pid}: sleep infinity`]);
    assert.equal(await ended, 'SIGKILL');
  });

  const cgroup = Cgroup.make(`blockdelta-test-${process.pid}`);
  const skip = cgroup === undefined ? 'no cgroup can be made here' : false;
  test('a job names and ends a process of its cgroup that names nothing', { skip }, async () => {
    const env = { PATH: '/usr/bin:/bin' };
    const words = ['-c', `echo 0 >${cgroup?.procs}; echo; exec sleep infinity`];
    const child = start('bash', words, { cwd: '/', env, stdio: ['ignore', 'pipe', 'ignore'] });
    const ended = new Promise((resolve) => child.once('exit', (_, signal) => resolve(signal)));
    await new Promise((resolve) => child.stdout?.once('data', resolve));
    try {
      const [left, ...others] = await leftBy({ directory, enter: [], cgroup }, 0);
      assert.match(left ?? '', new RegExp(`^process ${child.pid}: `));
      assert.deepEqual(others, []);
      assert.equal(await ended, 'SIGKILL');
    } finally {
      cgroup?.remove();
    }
  });
});
