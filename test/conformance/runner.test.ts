/** What the runner does around its checks: it cleans up after them, retries, skips, and ends when it must. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { after, afterEach, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode, type StatusName } from '../../src/base/errors.js';
import type { Check } from '../../src/tools/conformance/check.js';
import { CheckSkipped, expect } from '../../src/tools/conformance/failure.js';
import type { SuiteOptions } from '../../src/tools/conformance/options.js';
import type { CheckResult } from '../../src/tools/conformance/report.js';
import { matches, type RunOptions, runSuite } from '../../src/tools/conformance/runner.js';
import { suiteOptions } from '../support/conformance-run.js';
import { type Answers, RecordingDriver } from '../support/recording-driver.js';
import { Workspace } from '../support/workspace.js';

const workspace = new Workspace('conformance-runner');
let driver: RecordingDriver;

afterEach(() => driver?.stop());
after(() => workspace.dispose());

type Run = Check['run'];
type Context = Parameters<Run>[0];

const checkOf = (id: string, run: Run, needs: Check['needs'] = []): Check => ({
  id,
  section: 'Section',
  rule: 'X1',
  title: 'a title',
  level: 'must',
  needs,
  run,
});

/** Of checks by their ids, against a driver with these answers. */
async function judge(
  checks: Readonly<Record<string, Run>> | readonly Check[],
  answers: Answers = {},
  options: Partial<SuiteOptions> = {},
  control: RunOptions = {},
): Promise<readonly CheckResult[]> {
  driver = await RecordingDriver.start(workspace, answers);
  const all = Array.isArray(checks)
    ? checks
    : Object.entries(checks as Readonly<Record<string, Run>>).map(([id, run]) => checkOf(id, run));
  const suite = suiteOptions(driver.endpoint, workspace.path('work'), { seed: 1, ...options });
  return (await runSuite(all, suite, control)).results;
}

const outcomesOf = (results: readonly CheckResult[]): string[] => results.map(({ id, result }) => `${id} ${result}`);

const never = (): Promise<never> => new Promise(() => undefined);
const create = async ({ volumes }: Context): Promise<void> => {
  await volumes.create({ access: 'block' });
};
const probe = async ({ driver }: Context): Promise<void> => {
  await driver.call('Probe', {});
};
/** Creates a volume, publishes it and takes a snapshot; deletes nothing. */
async function makeAll({ volumes }: Context): Promise<void> {
  const volume = await volumes.create({ access: 'block' });
  await volumes.publish(volume);
  await volumes.snapshot(volume);
}

/** Refuses the first calls, one with each of these codes, and answers those after them. */
function refusing(codes: readonly StatusName[], details: string, answer = {}): Answers[string] {
  const left = [...codes];
  return () => {
    const code = left.shift();
    if (code === undefined) return answer;
    throw { code: StatusCode[code], details };
  };
}

interface Case {
  answers: Answers;
  run?: Run;
  timeoutMs?: number;
  /** Of the result; null of a check that passes. */
  detail: RegExp | null;
  /** Calls that change something: all of them, or some. */
  changes?: readonly string[];
  includes?: string;
}
const VOLUME = { volume: { volume_id: 'volume-1' } };
const CASES: Readonly<Record<string, Case>> = {
  'the objects of a failed check are deleted, newest first': {
    answers: {},
    run: async (context) => {
      await makeAll(context);
      expect(false, 'the subject', 'this', () => 'that');
    },
    detail: /^the subject: expected this, found that$/,
    changes: [
      'CreateVolume',
      'NodeStageVolume volume-1',
      'NodePublishVolume volume-1',
      'CreateSnapshot',
      'DeleteSnapshot snapshot-2',
      'NodeUnpublishVolume volume-1',
      'NodeUnstageVolume volume-1',
      'DeleteVolume volume-1',
    ],
  },
  'a call that failed half way is cleaned up, too': {
    answers: { NodePublishVolume: refusing(['INTERNAL'], 'mounted, but the answer was lost') },
    run: makeAll,
    detail: /NodePublishVolume: expected OK, found INTERNAL \(mounted/,
    includes: 'NodeUnpublishVolume volume-1',
  },
  'an object whose create call timed out is found and deleted': {
    answers: {
      CreateVolume: async () => {
        if (driver.changes.length === 1) await delay(500);
        return { volume: { volume_id: 'volume-late' } };
      },
    },
    timeoutMs: 200,
    detail: /./,
    changes: ['CreateVolume', 'CreateVolume', 'DeleteVolume volume-late'],
  },
  'an object that a create call may have made is named if the repeated call does not tell': {
    answers: { CreateVolume: never },
    timeoutMs: 200,
    detail:
      /could not be cleaned up: CreateVolume conformance-\S+-one-1 may have created something: .* DEADLINE_EXCEEDED/,
  },
  'a create call that is refused when it is repeated has left nothing to name': {
    answers: { CreateVolume: refusing(['INTERNAL', 'RESOURCE_EXHAUSTED'], 'no space') },
    detail: /^CreateVolume: expected OK, found INTERNAL \(no space\)$/,
    changes: ['CreateVolume', 'CreateVolume'],
  },
  'a failed cleanup fails a check that had passed': {
    answers: { DeleteVolume: refusing(Array(9).fill('INTERNAL'), 'stuck') },
    run: makeAll,
    detail: /^could not be cleaned up: DeleteVolume \(volume volume-1\): INTERNAL \(stuck\)$/,
  },
  'the deletion of an object in use is retried': {
    answers: { DeleteVolume: refusing(Array(2).fill('FAILED_PRECONDITION'), 'in use') },
    run: makeAll,
    detail: null,
  },
  'a call that is answered ABORTED is retried, as a conforming caller does': {
    answers: { CreateVolume: refusing(Array(2).fill('ABORTED'), 'pending', VOLUME) },
    detail: null,
  },
};
for (const [title, { answers, run, detail, changes, includes, ...options }] of Object.entries(CASES)) {
  test(title, async () => {
    const [result] = await judge({ one: run ?? create }, answers, options);
    assert.equal(result?.result, detail === null ? 'passed' : 'failed');
    if (detail !== null) assert.match(result?.detail ?? '', detail);
    if (changes !== undefined) assert.deepEqual(driver.changes, changes);
    if (includes !== undefined) assert.ok(driver.changes.includes(includes), `${driver.changes}`);
    const left = existsSync(workspace.path('work')) ? readdirSync(workspace.path('work')) : [];
    assert.deepEqual(left, [], 'no staging or target path is left');
  });
}

test('a check that times out fails, its calls are cancelled and its objects deleted', async () => {
  const checks = { slow: makeAll, next: probe };
  const [slow, next] = await judge(checks, { CreateSnapshot: never }, { timeoutMs: 400 });
  assert.equal(slow?.result, 'failed');
  assert.match(slow?.detail ?? '', /did not end within 0.4 s|DEADLINE_EXCEEDED|CANCELLED/);
  assert.equal(next?.result, 'passed');
  assert.ok(driver.changes.includes('DeleteVolume volume-1'), driver.changes.join());
});

test('a check that ignores its signal is abandoned, and the next one runs', async () => {
  /** Rejects some time after the abort. */
  const stuck = ({ signal }: Context): Promise<never> =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => setTimeout(() => reject(new Error('late')), 100));
    });
  const results = await judge({ stuck, next: async () => undefined }, {}, { timeoutMs: 200 });
  assert.deepEqual(outcomesOf(results), ['stuck failed', 'next passed']);
  assert.equal(results[0]?.detail, 'did not end within 0.2 s');
});

test('a check is skipped for a capability that is not advertised, with the reason', async () => {
  const fails: Run = () => assert.fail('it ran');
  const results = await judge(
    [
      checkOf('a', fails, ['volumes', 'metadata']),
      checkOf('b', fails, ['clone']),
      checkOf('c', fails, ['groups']),
      checkOf('d', fails, ['mount']),
      checkOf('e', async () => {
        throw new CheckSkipped('nothing to see');
      }),
      checkOf('f', fails),
    ],
    {},
    { access: ['block'], skip: ['f'] },
  );
  assert.deepEqual(
    results.map(({ result, detail }) => `${result}: ${detail}`),
    [
      ...['SNAPSHOT_METADATA_SERVICE', 'CLONE_VOLUME', 'CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT'].map(
        (capability) => `${capability} is not advertised`,
      ),
      '--access leaves out mount volumes',
      'nothing to see',
      'excluded by --skip f',
    ].map((reason) => `skipped: ${reason}`),
  );
});

test('only the selected checks run', async () => {
  const run: Run = async () => undefined;
  const checks = { 'metadata.order': run, 'metadata.same': run, 'groups.get': run };
  const results = await judge(checks, {}, { only: ['metadata.*'] });
  assert.deepEqual(outcomesOf(results), ['metadata.order passed', 'metadata.same passed']);
  assert.ok(matches('delta.content', 'delta.content'));
  assert.ok(!matches('delta.content-mount', 'delta.content'), 'a pattern is the whole id');
  assert.ok(!matches('deltaXcontent', 'delta.content'), 'a dot is a dot');
});

test('a call that is retried gets one timeout for all attempts', async () => {
  const HELD_MS = 2000;
  const remaining: number[] = [];
  const answers: Answers = {
    CreateVolume: async (_request, remainingMs) => {
      remaining.push(remainingMs);
      if (remaining.length > 1) return VOLUME;
      await delay(HELD_MS);
      throw { code: StatusCode.ABORTED, details: 'pending' };
    },
  };
  const timeoutMs = 60_000;
  const [result] = await judge({ busy: create }, answers, { timeoutMs });
  assert.equal(result?.detail, null);
  const [first, second] = remaining as [number, number];
  assert.ok(first <= timeoutMs, `${first} ms for the first attempt`);
  // A timer may fire a millisecond early.
  assert.ok(second <= timeoutMs - HELD_MS + 2, `${second} ms left for the second attempt`);
});

test('secrets are sent to the RPCs they are given for, and only where the request has the field', async () => {
  const secrets = { CreateVolume: { key: 'own' }, '*': { key: 'shared' } };
  await judge({ one: makeAll }, {}, { secrets });
  const secretOf = (rpc: string): unknown => driver.calls.find((call) => call.rpc === rpc)?.request['secrets']?.key;
  assert.equal(secretOf('CreateVolume'), 'own');
  assert.equal(secretOf('CreateSnapshot'), 'shared');
  assert.equal(secretOf('NodeUnpublishVolume'), undefined);
});

test('a driver that dies is reported once, and the run ends without waiting for each call', async () => {
  const dies: Run = async (context) => {
    await makeAll(context);
    driver.stop();
    await probe(context);
  };
  const fails: Run = () => assert.fail('it ran');
  const checks = [checkOf('dies', dies), checkOf('two', fails), checkOf('three', fails, ['volumes'])];
  const results = await judge(checks, {}, { timeoutMs: 1000 });
  assert.deepEqual(outcomesOf(results), [
    'dies skipped',
    'suite.driver-present failed',
    'two skipped',
    'three skipped',
  ]);
  const [cut, gone, unreached] = results.map(({ detail }) => detail ?? '');
  assert.match(cut ?? '', /^cut off: nothing has served .*recorder\.sock/);
  assert.match(gone ?? '', /ended during dies.* conformance-\S+, are left/);
  assert.equal(unreached, 'not reached: see suite.driver-present');
});

test('a driver that is started again within a moment is waited for', async () => {
  const [result] = await judge({
    restarts: async (context) => {
      driver.stop();
      const again = delay(500).then(() => RecordingDriver.start(workspace));
      await probe(context);
      driver = await again;
    },
  });
  assert.equal(result?.detail, null);
});

test('an interrupted run stops and deletes what it has created', async () => {
  const interrupt = new AbortController();
  const interrupted: Run = async (context) => {
    await makeAll(context);
    interrupt.abort();
    await probe(context);
  };
  const checks = { interrupted, unreached: () => assert.fail('it ran') };
  const results = await judge(checks, {}, {}, { signal: interrupt.signal });
  assert.deepEqual(outcomesOf(results), ['interrupted skipped']);
  assert.ok(driver.changes.includes('DeleteVolume volume-1'), driver.changes.join());
});

test('a run that is interrupted does not wait for a check that ignores it', async () => {
  const interrupt = new AbortController();
  const ignores: Run = async (context) => {
    await create(context);
    interrupt.abort();
    await never();
  };
  const control = { signal: interrupt.signal };
  const [result] = await judge({ ignores }, { DeleteVolume: never }, { timeoutMs: 1000 }, control);
  assert.match(result?.detail ?? '', /could not be cleaned up: DeleteVolume/);
});

test('an interrupt limits the time of deletions that are under way', async () => {
  const interrupt = new AbortController();
  const DeleteVolume = (): never => {
    interrupt.abort();
    throw { code: StatusCode.FAILED_PRECONDITION, details: 'in use' };
  };
  const control = { signal: interrupt.signal, interruptedCleanUpMs: 500 };
  const [result] = await judge({ leaves: create }, { DeleteVolume }, {}, control);
  assert.match(result?.detail ?? '', /DeleteVolume \(volume .*\): CANCELLED/);
});
