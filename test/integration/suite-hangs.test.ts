/** What the test suite says of a test file that does not end, and that it ends it (scripts/suite/queue.mjs). */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { eventually } from '../support/eventually.js';
import { loopsBelow, mountsBelow, skipUnlessRoot, Workspace } from '../support/workspace.js';

interface Job {
  name: string;
  command: string[];
}

interface Outcome {
  status: number | null;
  output: string;
}

interface JobQueue {
  run(): Promise<void>;
  giveUp(job: Job, reason: string): void;
}

type Ended = (outcome: Outcome, directory: string, enter: string[]) => Promise<void>;

interface Queue {
  JobQueue: new (
    jobs: Job[],
    options: { slots: number; directory: string; ended: Ended },
  ) => JobQueue;
}

interface CleanUp {
  leftBy(directory: string, enter: string[], endingMs: number): Promise<string[]>;
}

/**
 * A test file whose second test never ends. Meanwhile there are a process that is stopped, one that waits for a
 * frozen file system and cannot be killed, and one that has left the session and holds the pipes.
 */
const HANGING = `
  import { execFileSync, spawn } from 'node:child_process';
  import { mkdirSync } from 'node:fs';
  import { tmpdir } from 'node:os';
  import { test } from 'node:test';

  test('ends', () => {});
  test('never ends', async () => {
    const [image, frozen] = [tmpdir() + '/image', tmpdir() + '/frozen'];
    execFileSync('truncate', ['--size', '64M', image]);
    execFileSync('mkfs.ext4', ['-q', image]);
    mkdirSync(frozen);
    execFileSync('mount', ['-o', 'loop', image, frozen]);
    execFileSync('fsfreeze', ['--freeze', frozen]);
    spawn('dd', ['if=/dev/zero', 'of=' + frozen + '/file', 'count=1'], { stdio: 'ignore' });
    spawn('sleep', ['1001']).kill('SIGSTOP');
    spawn('sleep', ['1002'], { detached: true, stdio: 'inherit' }).unref();
    await new Promise(() => setInterval(() => {}, 1000));
  });`;

test('a test file that hangs is ended, with what it was at, and what it has left can be removed', {
  skip: skipUnlessRoot,
}, async (t) => {
  const workspace = new Workspace('suite-hangs');
  t.after(() => workspace.dispose());
  const queueModule: string = packagePath('scripts/suite/queue.mjs');
  const { JobQueue } = (await import(queueModule)) as Queue;
  const cleanUpModule: string = packagePath('scripts/suite/clean-up.mjs');
  const { leftBy } = (await import(cleanUpModule)) as CleanUp;
  writeFileSync(workspace.path('hanging.mjs'), HANGING);
  const runs = workspace.path('runs');
  mkdirSync(runs);
  const reporter = `--test-reporter=${packagePath('scripts/suite/reporter.mjs')}`;
  const job = {
    name: 'hanging',
    command: [process.execPath, reporter, workspace.path('hanging.mjs')],
  };

  let outcome: Outcome | undefined;
  let left: string[] = [];
  const queue = new JobQueue([job], {
    slots: 1,
    directory: runs,
    ended: async (ended, directory, enter) => {
      outcome = ended;
      left = await leftBy(directory, enter, 0);
    },
  });
  const over = queue.run();
  const states = (): string[] => statesOf(`${runs}/1`);
  const begun = (): string =>
    existsSync(`${runs}/1.running`) ? readFileSync(`${runs}/1.running`, 'utf8') : '';
  await eventually('all processes wait', () =>
    ['D dd', 'T sleep 1001', 'S sleep 1002'].every(
      (each) =>
        states().some((state) => state.startsWith(each)) && /has begun: never ends/.test(begun()),
    ),
  );
  queue.giveUp(job, 'ended after all');
  await over;

  assert.equal(outcome?.status, null);
  const output = outcome?.output ?? '';
  assert.match(output, /^✔ ends .*\nended after all\n {2}has begun: never ends\n {2}process /);
  assert.match(output, /, state D, waits in .*\n +dd if=\/dev\/zero of=.*frozen\/file/);
  assert.match(output, /, state T.*\n +sleep 1001\n/);
  assert.match(output, /, state S.*\n +sleep 1002\n/);
  const kinds = ['loop device', 'mount at', 'process'];
  for (const kind of kinds)
    assert.ok(
      left.some((line) => line.startsWith(kind)),
      left.join('\n'),
    );
  assert.ok(left.some((line) => line.endsWith(': sleep 1002')));
  assert.deepEqual([statesOf(runs), mountsBelow(runs), loopsBelow(runs)], [[], [], []]);
  assert.ok(!existsSync(`${runs}/1`));
});

/** State and words of each process with that directory in its environment. */
function statesOf(directory: string): string[] {
  return readdirSync('/proc').flatMap((pid) => {
    try {
      if (!readFileSync(`/proc/${pid}/environ`, 'utf8').includes(directory)) return [];
      const state = /^State:\t(.)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
      const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      return [`${state} ${words}`];
    } catch {
      return [];
    }
  });
}
