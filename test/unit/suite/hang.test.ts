/** When the test suite ends a job: one that hangs, and none that is merely slow. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { packagePath } from '../../../src/base/package-root.js';
import { procText } from '../../support/child-processes.js';
import { eventually } from '../../support/eventually.js';
import { temporaryDirectory } from '../../support/temporary.js';
import { removeLeftBehind } from '../../support/workspace.js';

interface Group {
  procs: string;
  remove(): void;
}
interface Processes {
  leader: number;
  directory: string;
  cgroup?: Group | undefined;
}
interface Watch {
  look(seconds: number, mayBeQuiet: () => boolean): string | undefined;
}
interface Outcome {
  status: number | null;
  output: string;
  cpuSeconds: number;
}
interface Options {
  slots: number;
  directory: string;
  lookMs: number;
  cgroups: boolean;
  ended(outcome: Outcome): void;
}

const suite = (name: string) => import(packagePath(`scripts/suite/${name}`));
const { HangWatch, LOOK_MS } = (await suite('hang.mjs')) as {
  HangWatch: new (recordedSeconds?: number) => Watch;
  LOOK_MS: number;
};
const { Cgroup } = (await suite('cgroup.mjs')) as {
  Cgroup: { make(name: string, versions: number[]): Group | undefined };
};
const { ProcessorTime } = (await suite('processor-time.mjs')) as {
  ProcessorTime: new (processes: Processes) => { look(): number };
};
const { waitForLockOfOthers } = (await suite('waiting.mjs')) as {
  waitForLockOfOthers(processes: Processes): boolean;
};
const { JobQueue } = (await suite('queue.mjs')) as {
  JobQueue: new (jobs: object[], options: Options) => { run(): Promise<void> };
};

const SPIN = 'while :; do :; done';
/** For bash: it works until it has had so many hundredths of a second of processor time. */
const workFor = (ticks: number) => `until read -ra stat </proc/$$/stat; [ "\${stat[13]}" -ge ${ticks} ]; do :; done`;
const FIVE_MINUTES = 300_000 / LOOK_MS;

/** How many looks it takes until a job with so much processor time at each is ended; Infinity: none of a whole day. */
function looksUntilEnded(
  watch: Watch,
  secondsAt: (look: number) => number,
  mayBeQuiet: (look: number) => boolean = () => false,
): number {
  for (let look = 1; look <= 86_400_000 / LOOK_MS; look += 1) {
    if (watch.look(secondsAt(look), () => mayBeQuiet(look)) !== undefined) return look;
  }
  return Number.POSITIVE_INFINITY;
}

describe('a job', () => {
  test('a job that sleeps is ended after five minutes', () => {
    assert.equal(
      looksUntilEnded(new HangWatch(), () => 0),
      FIVE_MINUTES,
    );
    // It has worked for two minutes before, and its timers take a little.
    const seconds = (look: number) => Math.min(look * 10, 120) + look / 1000;
    const ended = looksUntilEnded(new HangWatch(), seconds);
    assert.equal(ended, 12 + FIVE_MINUTES);
  });

  test('a job that is starved, with one second of processor time in five minutes, is not ended', () => {
    const seconds = (look: number) => Math.floor(look / FIVE_MINUTES);
    assert.equal(looksUntilEnded(new HangWatch(), seconds), Number.POSITIVE_INFINITY);
  });

  test('a job that spins is ended after ten times the processor time that is recorded', () => {
    const seconds = (look: number) => (look * LOOK_MS) / 1000;
    assert.equal(looksUntilEnded(new HangWatch(300), seconds) * LOOK_MS, 3_000_000 + LOOK_MS);
  });

  test('a job without a record, or with a small one, counts as one of 120 seconds', () => {
    const seconds = (look: number) => (look * LOOK_MS) / 1000;
    for (const watch of [new HangWatch(), new HangWatch(0.3)]) {
      assert.equal(looksUntilEnded(watch, seconds) * LOOK_MS, 1_200_000 + LOOK_MS);
    }
  });

  test('a job that waits for others is not ended, and has five minutes from the end of its wait', () => {
    const ended = looksUntilEnded(
      new HangWatch(),
      () => 0,
      (look) => look <= 1000,
    );
    assert.equal(ended, 1000 + FIVE_MINUTES);
  });
});

describe('the queue', () => {
  /** The outcome of the only job, at which the queue looks every few milliseconds. */
  async function outcomeOf(command: string, job: object, cgroups: boolean): Promise<Outcome> {
    const outcomes: Outcome[] = [];
    const options = { slots: 1, directory: temporaryDirectory(), lookMs: 5, cgroups };
    const queue = new JobQueue([{ name: 'job', command: ['bash', '-c', command], ...job }], {
      ...options,
      ended: (outcome) => outcomes.push(outcome),
    });
    await queue.run();
    const [outcome] = outcomes;
    assert.ok(outcome !== undefined && outcomes.length === 1);
    return outcome;
  }

  for (const cgroups of [true, false]) {
    const where = cgroups ? 'with cgroups, if it may make them' : 'without cgroups';
    test(`the queue ends a job that sleeps, and says what waits: ${where}`, async () => {
      const { status, output } = await outcomeOf('sleep infinity; :', {}, cgroups);
      assert.notEqual(status, 0);
      assert.match(output, /ended: its processes had less than 1 s of processor time/);
      assert.match(output, /process \d+, child of \d+, state S.*\n +sleep infinity/);
    });
  }

  test('the queue leaves a job alone that gives up by itself', async () => {
    // More looks than there are in five minutes, of which each sees next to nothing of its work.
    const outcome = await outcomeOf(`${workFor(50)}; echo done`, { givesUp: true }, false);
    assert.deepEqual(outcome.output, 'done\n');
    assert.equal(outcome.status, 0);
  });
});

/** A job of that command, in a session of its own, as the queue starts it. */
async function whileRunning(command: string, work: (job: Processes) => Promise<void>, cgroup?: Group): Promise<void> {
  const directory = temporaryDirectory();
  const enter = cgroup === undefined ? '' : `echo 0 >${cgroup.procs}; `;
  const child = spawn('bash', ['-c', `${enter}${command}`], {
    detached: true,
    stdio: 'ignore',
    env: { ...process.env, TMPDIR: directory },
  });
  const exited = new Promise((resolve) => child.once('exit', resolve));
  try {
    await work({ leader: child.pid ?? 0, directory, cgroup });
  } finally {
    removeLeftBehind(directory);
    await exited;
  }
}

describe('the processor time of a job', () => {
  async function grows(job: Processes): Promise<void> {
    const time = new ProcessorTime(job);
    await eventually('it has had 0.2 s of processor time', () => time.look() > 0.2);
  }

  test('a job without a cgroup has the processor time of its process group', () => whileRunning(SPIN, grows));

  test('a job without a cgroup has the processor time of a daemon in a session of its own', () =>
    whileRunning(`setsid bash -c '${SPIN}' & sleep infinity`, grows));

  test('a job without a cgroup keeps the processor time of processes that have ended', async () => {
    const command = `bash -c '${workFor(30)}'; touch "$TMPDIR/ended"; sleep infinity`;
    await whileRunning(command, async (job) => {
      const time = new ProcessorTime(job);
      const looked: number[] = [];
      await eventually('its child has ended', () => {
        const hasEnded = existsSync(join(job.directory, 'ended'));
        looked.push(time.look());
        return hasEnded;
      });
      assert.ok((looked.at(-1) ?? 0) >= 0.3, `${looked.at(-1)} s`);
      assert.deepEqual(
        looked,
        [...looked].sort((a, b) => a - b),
      );
    });
  });

  for (const version of [2, 1]) {
    const cgroup = Cgroup.make(`blockdelta-test-${process.pid}-${version}`, [version]);
    const skip = cgroup === undefined ? `no cgroup of version ${version} can be made here` : false;
    after(() => cgroup?.remove());
    test(`a job in a cgroup of version ${version} has the processor time that the cgroup counts`, { skip }, () =>
      whileRunning(SPIN, grows, cgroup),
    );
  }
});

describe('a job that waits for a lock', () => {
  const file = join(temporaryDirectory(), 'lock');
  writeFileSync(file, '');
  // As scripts do it: the program that takes the lock ends, and its caller holds it.
  const lock = `exec 9<${file}; flock 9`;
  const isAwaited = () =>
    procText('/proc/locks')
      .split('\n')
      .some((line) => line.includes('->') && line.includes(`:${statSync(file).ino} `));

  test('a job that waits for a lock waits for others if one of them holds the lock', () =>
    whileRunning(`${lock}; touch "$TMPDIR/held"; sleep infinity`, async (holder) => {
      await eventually('the lock is held', () => existsSync(join(holder.directory, 'held')));
      assert.equal(waitForLockOfOthers(holder), false);
      await whileRunning(lock, async (waiter) => {
        await eventually('the lock is awaited', isAwaited);
        assert.equal(waitForLockOfOthers(waiter), true);
        assert.equal(waitForLockOfOthers(holder), false);
      });
    }));

  test('a job that waits for a lock that it holds itself waits for nobody else', () =>
    whileRunning(`${lock}; bash -c '${lock}'; :`, async (job) => {
      await eventually('the lock is awaited', isAwaited);
      assert.equal(waitForLockOfOthers(job), false);
    }));
});
