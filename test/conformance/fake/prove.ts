/** Runs the conformance suite, in this process, against fake drivers on a real socket. */
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { after } from 'node:test';
import { CHECKS } from '../../../src/tools/conformance/all-checks.js';
import type { Check } from '../../../src/tools/conformance/check.js';
import type { CheckResult } from '../../../src/tools/conformance/report.js';
import { matches, runSuite } from '../../../src/tools/conformance/runner.js';
import { suiteOptions } from '../../support/conformance-run.js';
import { isNightly, oneOfEach } from '../../support/nightly.js';
import { test } from '../../support/running-plugin.js';
import { Workspace } from '../../support/workspace.js';
import { CONFORMING_DRIVERS } from './conforming.js';
import type { Defects, Deviation } from './defect.js';
import { FakeDriver } from './driver.js';

const VOLUME_BYTES = 8 << 20;
/** For one check: only what hangs takes so long. */
const TIMEOUT_MS = 300_000;
/** Of a driver that needs a machine that does not stand still. */
const MAX_ATTEMPTS = 20;
/** Checks that run in every proof of a nightly run and must pass, unless the table names them. */
const CONTROLS = ['identity.*', 'capability.*', 'node.info', 'volume.create-missing-fields'];
const METADATA_CONTROLS = [...CONTROLS, 'metadata.order', 'metadata.id-missing'];

const workspace = new Workspace('conformance-fake');
let judged = 0;
after(() => workspace.dispose());

interface Judged {
  checks?: readonly Check[];
  seed?: number;
  volumeSizeBytes?: number;
  timeoutMs?: number | undefined;
}

export async function judge(
  deviation: Deviation,
  only: readonly string[],
  { checks = CHECKS, seed = 1, volumeSizeBytes = VOLUME_BYTES, timeoutMs = TIMEOUT_MS }: Judged = {},
): Promise<readonly CheckResult[]> {
  judged += 1;
  const driver = await FakeDriver.start(workspace.path(`driver-${judged}`), deviation);
  const workDirectory = workspace.path(`work-${judged}`);
  await mkdir(workDirectory);
  try {
    const options = { access: ['block'] as const, volumeSizeBytes, only, timeoutMs, seed };
    const endpoint = `unix://${driver.socketPath}`;
    return (await runSuite(checks, suiteOptions(endpoint, workDirectory, options))).results;
  } finally {
    await driver.stop();
  }
}

const failuresOf = (results: readonly CheckResult[]): CheckResult[] =>
  results.filter(({ result }) => result === 'failed');
const detailsOf = (results: readonly CheckResult[]): string[] =>
  results.map(({ id, result, detail }) => `${id} ${result}: ${detail}`);

/** Each defect once, with the checks that must catch it. */
export function listOf(...tables: readonly Defects[]) {
  return tables.flatMap((table) =>
    Object.entries(table).flatMap(([checks, defects]) =>
      Object.entries(defects).map(([does, defect]) => ({ does, defect, caughtBy: checks.split(', ') })),
    ),
  );
}

const classOf = ({ caughtBy }: { caughtBy: readonly string[] }): string => caughtBy.join();

/** In a plain run, one of those that the same checks catch. */
export const proveDefects = (...tables: readonly Defects[]): void => proveEvery(oneOfEach(listOf(...tables), classOf));

/** A driver with a defect must fail the checks that the table names, and no others. */
export function proveEvery(defects: readonly ReturnType<typeof listOf>[number][]): void {
  for (const { does, defect, caughtBy } of defects) {
    test(`a driver that ${does} fails ${caughtBy.join(', ')}`, async () => {
      const { mayAlsoFail = [], timeoutMs, seeds = [1] } = defect;
      const isOfMetadata = caughtBy.some((id) => id.startsWith('metadata.'));
      const isOfLosses = caughtBy.some((id) => id.startsWith('loss.'));
      const controls = isOfLosses ? ['loss.*'] : isOfMetadata ? METADATA_CONTROLS : CONTROLS;
      const others = isNightly ? [...mayAlsoFail, ...controls] : [];
      const only = isOfLosses && isNightly ? controls : [...new Set([...caughtBy, ...others])];
      for (const seed of seeds) {
        const results = await judge(defect, only, { seed, timeoutMs });
        const ids = failuresOf(results).map(({ id }) => id);
        const unseen = caughtBy.filter((id) => !ids.includes(id));
        const wrong = ids.filter((id) => ![...caughtBy, ...mayAlsoFail].includes(id));
        const told = results.filter(({ id, result }) => result === 'failed' || unseen.includes(id));
        const what = `seed ${seed}:\n${detailsOf(told).join('\n')}`;
        assert.deepEqual({ unseen, wrong }, { unseen: [], wrong: [] }, what);
      }
    });
  }
}

/** The correct driver must run and pass all of these checks. */
export function provePasses(pattern: string): void {
  test(`the correct driver passes every check ${pattern}`, async () => {
    const results = await judge({}, [pattern]);
    assertAll(
      results,
      CHECKS.map(({ id }) => id).filter((id) => matches(id, pattern)),
      'passed',
    );
  });
}

/** A driver that conforms in its own way must not fail any check. The plugin itself has all checks in a plain run. */
export function proveConforming(): void {
  for (const [does, driver] of Object.entries(CONFORMING_DRIVERS)) {
    if (!isNightly && driver.only === undefined) continue;
    test(`a driver that ${does} passes`, async () => {
      const results = await judge(driver, driver.only ?? []);
      assert.deepEqual(detailsOf(failuresOf(results)), []);
      assert.ok(results.some(({ result }) => result === 'passed'));
    });
  }
}

/** All these checks and no others have the result. */
function assertAll(results: readonly CheckResult[], ids: readonly string[], wanted: CheckResult['result']): void {
  assert.deepEqual(
    results.map(({ id, result }) => `${id} ${result}`).sort(),
    ids.map((id) => `${id} ${wanted}`).sort(),
  );
}

/** Checks of volumes that are too small for every write of the suite pass, and their notes say so. */
export function proveNotedAsSmall(ids: readonly string[]): void {
  test(`${ids.join(', ')} note what they leave out of volumes of 1 MiB`, async () => {
    const results = await judge({}, ids, { volumeSizeBytes: 1 << 20 });
    assertAll(results, ids, 'passed');
    for (const { id, notes } of results) {
      assert.match(notes.join('\n'), /^a volume of \d+ bytes has no room .*$/, id);
    }
  });
}

/** Where a check can judge nothing, it is skipped with the reason instead of passing. */
export function proveSkipped(
  does: string,
  deviation: Deviation,
  ids: readonly string[],
  {
    detail,
    notes = [],
    isOwnWay = () => true,
  }: {
    detail: RegExp;
    notes?: readonly string[];
    /** Whether the driver could do what it does; on a machine that stood still it is judged again. */
    isOwnWay?: () => boolean;
  },
): void {
  test(`the suite skips ${ids.join(', ')} for a driver that ${does}`, async () => {
    let seed = 1;
    let results = await judge(deviation, ids);
    while (!isOwnWay()) {
      seed += 1;
      assert.ok(seed <= MAX_ATTEMPTS, 'the driver could never go its own way');
      results = await judge(deviation, ids, { seed });
    }
    assertAll(results, ids, 'skipped');
    for (const result of results) assert.match(result.detail ?? '', detail, result.id);
    assert.deepEqual(
      results.flatMap((result) => result.notes),
      notes,
    );
  });
}

/** Of all checks that meet one cause, only those fail that the table names, each with its detail; the rest are skipped. */
export function proveFailsOnce(
  does: string,
  deviation: Deviation,
  only: readonly string[],
  failures: Readonly<Record<string, RegExp>>,
): void {
  const ids = Object.keys(failures);
  test(`a driver that ${does} fails ${ids.join(' and ')}, and other checks say that they are not reached`, async () => {
    const results = await judge(deviation, only);
    for (const { id, result, detail } of results) {
      const failure = failures[id];
      assert.equal(result, failure === undefined ? 'skipped' : 'failed', `${id}: ${detail}`);
      if (failure !== undefined) assert.match(detail ?? '', failure);
    }
    const reached = results.flatMap(({ detail }) => /^not reached: see (.*)$/.exec(detail ?? '')?.[1] ?? []);
    assert.deepEqual([...new Set(reached)].sort(), [...ids].sort());
  });
}
