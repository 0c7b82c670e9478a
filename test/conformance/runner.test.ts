import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { after, afterEach, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../../src/base/errors.js';
import { type Check, CheckSkipped, expect } from '../../src/conformance/check.js';
import type { SuiteOptions } from '../../src/conformance/options.js';
import type { CheckResult } from '../../src/conformance/report.js';
import { matches, runSuite } from '../../src/conformance/runner.js';
import { suiteOptions } from '../support/conformance-run.js';
import { RecordingDriver } from '../support/recording-driver.js';
import { Workspace } from '../support/workspace.js';

const workspace = new Workspace('conformance-runner');
let driver: RecordingDriver | undefined;

afterEach(() => driver?.stop());
after(() => workspace.dispose());

type Run = Check['run'];

const checkOf = (id: string, run: Run, needs: Check['needs'] = []): Check => ({
  id,
  section: 'Section',
  rule: 'X1',
  title: 'a title',
  level: 'must',
  needs,
  run,
});

async function runChecks(
  checks: readonly Check[],
  options: Partial<SuiteOptions> = {},
  signal?: AbortSignal,
): Promise<readonly CheckResult[]> {
  const { endpoint } = driver as RecordingDriver;
  const suite = suiteOptions(endpoint, workspace.path('work'), { seed: 1, ...options });
  const report = await runSuite(checks, suite, signal === undefined ? {} : { signal });
  return report.results;
}

/** Creates a volume, publishes it and takes a snapshot; deletes nothing. */
async function makeAll(context: Parameters<Run>[0]): Promise<void> {
  const { volumes } = context;
  const volume = await volumes.create({ access: 'block' });
  await volumes.publish(volume);
  await volumes.snapshot(volume);
}

test('the objects of a failed check are deleted, newest first', async () => {
  driver = await RecordingDriver.start(workspace);
  const [result] = await runChecks([
    checkOf('one.fails', async (context) => {
      await makeAll(context);
      expect(false, 'the subject', 'this', () => 'that');
    }),
  ]);
  assert.equal(result?.result, 'failed');
  assert.equal(result?.detail, 'the subject: expected this, found that');
  assert.deepEqual(driver.changes.slice(4), [
    'DeleteSnapshot snapshot-2',
    'NodeUnpublishVolume volume-1',
    'NodeUnstageVolume volume-1',
    'DeleteVolume volume-1',
  ]);
  const left = existsSync(workspace.path('work')) ? readdirSync(workspace.path('work')) : [];
  assert.deepEqual(left, [], 'no staging or target path is left');
});

test('a call that failed half way is cleaned up, too', async () => {
  driver = await RecordingDriver.start(workspace, {
    NodePublishVolume: () => {
      throw { code: StatusCode.INTERNAL, details: 'mounted, but the answer was lost' };
    },
  });
  const [result] = await runChecks([checkOf('one.fails', makeAll)]);
  assert.match(result?.detail ?? '', /NodePublishVolume: expected OK, found INTERNAL \(mounted/);
  assert.ok(driver.changes.includes('NodeUnpublishVolume volume-1'), driver.changes.join());
});

test('a check that times out fails, its calls are cancelled and its objects deleted', async () => {
  driver = await RecordingDriver.start(workspace, {
    CreateSnapshot: () => new Promise(() => undefined),
  });
  const [slow, next] = await runChecks(
    [
      checkOf('one.slow', makeAll),
      checkOf('two.next', async (context) => {
        await context.driver.call('Probe', {});
      }),
    ],
    { timeoutMs: 400 },
  );
  assert.equal(slow?.result, 'failed');
  assert.match(slow?.detail ?? '', /did not end within 0.4 s|DEADLINE_EXCEEDED|CANCELLED/);
  assert.equal(next?.result, 'passed');
  assert.ok(driver.changes.includes('DeleteVolume volume-1'), driver.changes.join());
});

test('an object whose create call timed out is found and deleted', async () => {
  let isFirst = true;
  driver = await RecordingDriver.start(workspace, {
    CreateVolume: async () => {
      const wasFirst = isFirst;
      isFirst = false;
      if (wasFirst) await new Promise((resolve) => setTimeout(resolve, 500));
      return { volume: { volume_id: 'volume-late' } };
    },
  });
  const [result] = await runChecks(
    [
      checkOf('one.slow', async ({ volumes }) => {
        await volumes.create({ access: 'block' });
      }),
    ],
    { timeoutMs: 200 },
  );
  assert.equal(result?.result, 'failed');
  assert.deepEqual(driver.changes, ['CreateVolume', 'CreateVolume', 'DeleteVolume volume-late']);
});

test('an object that a create call may have made is named if the repeated call does not tell', async () => {
  driver = await RecordingDriver.start(workspace, {
    CreateVolume: () => new Promise(() => undefined),
  });
  const [result] = await runChecks(
    [
      checkOf('one.hangs', async ({ volumes }) => {
        await volumes.create({ access: 'block' });
      }),
    ],
    { timeoutMs: 200 },
  );
  assert.match(
    result?.detail ?? '',
    /could not be cleaned up: CreateVolume conformance-\S+-one\.hangs-1 may have created something: .* DEADLINE_EXCEEDED/,
  );
});

test('a create call that is refused when it is repeated has left nothing to name', async () => {
  let isFirst = true;
  driver = await RecordingDriver.start(workspace, {
    CreateVolume: () => {
      const code = isFirst ? StatusCode.INTERNAL : StatusCode.RESOURCE_EXHAUSTED;
      isFirst = false;
      throw { code, details: 'no space' };
    },
  });
  const [result] = await runChecks([
    checkOf('one.refused', async ({ volumes }) => {
      await volumes.create({ access: 'block' });
    }),
  ]);
  assert.equal(result?.detail, 'CreateVolume: expected OK, found INTERNAL (no space)');
  assert.deepEqual(driver.changes, ['CreateVolume', 'CreateVolume']);
});

test('a check that ignores its signal is abandoned, and the next one runs', async () => {
  driver = await RecordingDriver.start(workspace);
  const [stuck, next] = await runChecks(
    [
      checkOf('one.stuck', (context) => new Promise((_, reject) => rejectLate(context, reject))),
      checkOf('two.next', async () => undefined),
    ],
    { timeoutMs: 200 },
  );
  assert.equal(stuck?.detail, 'did not end within 0.2 s');
  assert.equal(next?.result, 'passed');
});

/** Rejects some time after the abort. */
function rejectLate(context: Parameters<Run>[0], reject: (reason: Error) => void): void {
  context.signal.addEventListener('abort', () => setTimeout(() => reject(new Error('late')), 100));
}

test('a failed cleanup fails a check that had passed', async () => {
  driver = await RecordingDriver.start(workspace, {
    DeleteVolume: () => {
      throw { code: StatusCode.INTERNAL, details: 'stuck' };
    },
  });
  const [result] = await runChecks([checkOf('one.leaves', makeAll)]);
  assert.equal(result?.result, 'failed');
  const wanted = 'could not be cleaned up: DeleteVolume (volume volume-1): INTERNAL (stuck)';
  assert.equal(result?.detail, wanted);
});

test('the deletion of an object in use is retried', async () => {
  let refusals = 2;
  driver = await RecordingDriver.start(workspace, {
    DeleteVolume: () => {
      refusals -= 1;
      if (refusals >= 0) throw { code: StatusCode.FAILED_PRECONDITION, details: 'in use' };
      return {};
    },
  });
  const [result] = await runChecks([checkOf('one.waits', makeAll)]);
  assert.equal(result?.result, 'passed');
});

test('a check is skipped for a capability that is not advertised, with the reason', async () => {
  driver = await RecordingDriver.start(workspace);
  const never: Run = () => assert.fail('it ran');
  const results = await runChecks(
    [
      checkOf('a', never, ['volumes', 'metadata']),
      checkOf('b', never, ['clone']),
      checkOf('c', never, ['groups']),
      checkOf('d', never, ['mount']),
      checkOf('e', async () => {
        throw new CheckSkipped('nothing to see');
      }),
      checkOf('f', never),
    ],
    { access: ['block'], skip: ['f'] },
  );
  assert.deepEqual(
    results.map(({ result, detail }) => [result, detail]),
    [
      ['skipped', 'SNAPSHOT_METADATA_SERVICE is not advertised'],
      ['skipped', 'CLONE_VOLUME is not advertised'],
      ['skipped', 'CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT is not advertised'],
      ['skipped', '--access leaves out mount volumes'],
      ['skipped', 'nothing to see'],
      ['skipped', 'excluded by --skip f'],
    ],
  );
});

test('only the selected checks run', async () => {
  driver = await RecordingDriver.start(workspace);
  const run: Run = async () => undefined;
  const checks = ['metadata.order', 'metadata.same', 'groups.get'].map((id) => checkOf(id, run));
  const ids = (results: readonly CheckResult[]): string[] => results.map(({ id }) => id);
  assert.deepEqual(ids(await runChecks(checks, { only: ['metadata.*'] })), [
    'metadata.order',
    'metadata.same',
  ]);
  assert.ok(matches('delta.content', 'delta.content'));
  assert.ok(!matches('delta.content-mount', 'delta.content'), 'a pattern is the whole id');
  assert.ok(!matches('deltaXcontent', 'delta.content'), 'a dot is a dot');
});

test('an interrupted run stops and deletes what it has created', async () => {
  driver = await RecordingDriver.start(workspace);
  const interrupt = new AbortController();
  const results = await runChecks(
    [
      checkOf('one.interrupted', async (context) => {
        await makeAll(context);
        interrupt.abort();
        await context.driver.call('Probe', {});
      }),
      checkOf('two.never', () => assert.fail('it ran')),
    ],
    {},
    interrupt.signal,
  );
  assert.deepEqual(
    results.map(({ id, result }) => [id, result]),
    [['one.interrupted', 'skipped']],
  );
  assert.ok(driver.changes.includes('DeleteVolume volume-1'), driver.changes.join());
});

test('a call that is answered ABORTED is retried, as a conforming caller does', async () => {
  let refusals = 2;
  driver = await RecordingDriver.start(workspace, {
    CreateVolume: () => {
      refusals -= 1;
      if (refusals >= 0) throw { code: StatusCode.ABORTED, details: 'pending' };
      return { volume: { volume_id: 'volume-1' } };
    },
  });
  const [result] = await runChecks([
    checkOf('one.busy', async ({ volumes }) => {
      await volumes.create({ access: 'block' });
    }),
  ]);
  assert.equal(result?.result, 'passed');
});

test('a call that is retried gets one timeout for all attempts', async () => {
  const HELD_MS = 2000;
  const remaining: number[] = [];
  driver = await RecordingDriver.start(workspace, {
    CreateVolume: async (_request, remainingMs) => {
      remaining.push(remainingMs);
      if (remaining.length > 1) return { volume: { volume_id: 'volume-1' } };
      await new Promise((resolve) => setTimeout(resolve, HELD_MS));
      throw { code: StatusCode.ABORTED, details: 'pending' };
    },
  });
  const timeoutMs = 60_000;
  const [result] = await runChecks(
    [
      checkOf('one.busy', async ({ volumes }) => {
        await volumes.create({ access: 'block' });
      }),
    ],
    { timeoutMs },
  );
  assert.equal(result?.detail, null);
  const [first, second] = remaining as [number, number];
  assert.ok(first <= timeoutMs, `${first} ms for the first attempt`);
  // A timer may fire a millisecond early.
  assert.ok(second <= timeoutMs - HELD_MS + 2, `${second} ms left for the second attempt`);
});

test('secrets are sent to the RPCs they are given for, and only where the request has the field', async () => {
  driver = await RecordingDriver.start(workspace);
  await runChecks([checkOf('one', makeAll)], {
    secrets: { CreateVolume: { key: 'own' }, '*': { key: 'shared' } },
  });
  const secretOf = (rpc: string): unknown =>
    driver?.calls.find((call) => call.rpc === rpc)?.request['secrets']?.key;
  assert.equal(secretOf('CreateVolume'), 'own');
  assert.equal(secretOf('CreateSnapshot'), 'shared');
  assert.equal(secretOf('NodeUnpublishVolume'), undefined);
});

test('a driver that dies is reported once, and the run ends without waiting for each call', async () => {
  driver = await RecordingDriver.start(workspace);
  const results = await runChecks(
    [
      checkOf('one.dies', async (context) => {
        await makeAll(context);
        driver?.stop();
        await context.driver.call('Probe', {});
      }),
      checkOf('two.never', () => assert.fail('it ran')),
      checkOf('three.never', () => assert.fail('it ran'), ['volumes']),
    ],
    { timeoutMs: 1000 },
  );
  assert.deepEqual(
    results.map(({ id, result }) => [id, result]),
    [
      ['one.dies', 'skipped'],
      ['suite.driver-present', 'failed'],
      ['two.never', 'skipped'],
      ['three.never', 'skipped'],
    ],
  );
  const [dies, gone, never] = results;
  assert.match(dies?.detail ?? '', /^cut off: nothing has served .*recorder\.sock/);
  assert.match(gone?.detail ?? '', /ended during one\.dies.* conformance-\S+, are left/);
  assert.equal(never?.detail, 'not reached: see suite.driver-present');
});

test('a driver that is started again within a moment is waited for', async () => {
  driver = await RecordingDriver.start(workspace);
  const [result] = await runChecks([
    checkOf('one.restarts', async (context) => {
      driver?.stop();
      const again = delay(500).then(() => RecordingDriver.start(workspace));
      await context.driver.call('Probe', {});
      driver = await again;
    }),
  ]);
  assert.equal(result?.detail, null);
});

test('a run that is interrupted does not wait for a check that ignores it', async () => {
  driver = await RecordingDriver.start(workspace, {
    DeleteVolume: () => new Promise(() => undefined),
  });
  const interrupt = new AbortController();
  const [result] = await runChecks(
    [
      checkOf('one.ignores', async ({ volumes }) => {
        await volumes.create({ access: 'block' });
        interrupt.abort();
        await new Promise(() => undefined);
      }),
    ],
    { timeoutMs: 1000 },
    interrupt.signal,
  );
  assert.match(result?.detail ?? '', /could not be cleaned up: DeleteVolume/);
});

test('an interrupt limits the time of deletions that are under way', async () => {
  const interrupt = new AbortController();
  driver = await RecordingDriver.start(workspace, {
    DeleteVolume: () => {
      interrupt.abort();
      throw { code: StatusCode.FAILED_PRECONDITION, details: 'in use' };
    },
  });
  const suite = suiteOptions(driver.endpoint, workspace.path('work'), { seed: 1 });
  const check = checkOf('one.leaves', async ({ volumes }) => {
    await volumes.create({ access: 'block' });
  });
  const { results } = await runSuite([check], suite, {
    signal: interrupt.signal,
    interruptedCleanUpMs: 500,
  });
  assert.match(results[0]?.detail ?? '', /DeleteVolume \(volume .*\): CANCELLED/);
});
