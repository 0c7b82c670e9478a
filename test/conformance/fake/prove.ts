/** Runs the conformance suite, in this process, against fake drivers on a real socket. */
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { after, before } from 'node:test';
import type { CheckResult } from '../../../src/conformance/report.js';
import { runSuite } from '../../../src/conformance/runner.js';
import { CHECKS } from '../../../src/conformance/suite.js';
import { test } from '../../support/running-plugin.js';
import { skipUnlessRoot, Workspace } from '../../support/workspace.js';
import type { ConformingDriver } from './conforming.js';
import type { Defect } from './defect.js';
import { FakeDriver } from './driver.js';

const VOLUME_BYTES = 8 << 20;
/** For one check: only what hangs takes so long. */
const TIMEOUT_MS = 300_000;
/** Of a driver that needs a machine that does not stand still. */
const MAX_ATTEMPTS = 20;
/** Checks that run in every proof and must pass, unless the table names them. */
const CONTROLS = ['identity.*', 'capability.*', 'node.info', 'volume.create-missing-fields'];
const METADATA_CONTROLS = [...CONTROLS, 'metadata.order', 'metadata.id-missing'];

/** A driver with a defect must fail the checks that the table names, and no others. */
export function proveDefects(label: string, defects: readonly Defect[]): void {
  const workspace = workspaceOf(label);
  for (const defect of defects) {
    test(`a driver that ${defect.does} fails ${defect.caughtBy.join(', ')}`, async () => {
      const { caughtBy, mayAlsoFail = [], name } = defect;
      const isOfMetadata = caughtBy.some((id) => id.startsWith('metadata.'));
      const controls = isOfMetadata ? METADATA_CONTROLS : CONTROLS;
      const only = [...new Set([...caughtBy, ...mayAlsoFail, ...controls])];
      for (const seed of defect.seeds ?? [1]) {
        const results = await judge(workspace(), { ...defect, seed }, only, defect.timeoutMs);
        const failed = results.filter(({ result }) => result === 'failed');
        const details = failed.map(({ id, detail }) => `${id}: ${detail}`).join('\n');
        const ids = failed.map(({ id }) => id);
        const unseen = caughtBy.filter((id) => !ids.includes(id));
        assert.deepEqual(unseen, [], `seed ${seed}: ${name} was not caught; failed:\n${details}`);
        const wrong = ids.filter((id) => ![...caughtBy, ...mayAlsoFail].includes(id));
        assert.deepEqual(wrong, [], `seed ${seed}: ${name} also fails:\n${details}`);
      }
    });
  }
}

/** A driver that conforms in its own way must not fail any check. */
export function proveConforming(label: string, drivers: readonly ConformingDriver[]): void {
  const workspace = workspaceOf(label);
  for (const driver of drivers) {
    test(`a driver that ${driver.does} passes`, async () => {
      const results = await judge(workspace(), driver, driver.only ?? []);
      const failed = results.filter(({ result }) => result === 'failed');
      assert.deepEqual(
        failed.map(({ id, detail }) => `${id}: ${detail}`),
        [],
        `${driver.name} fails`,
      );
      assert.ok(results.some(({ result }) => result === 'passed'));
    });
  }
}

function workspaceOf(label: string): () => Workspace {
  let workspace: Workspace | undefined;
  before(() => {
    if (skipUnlessRoot === false) workspace = new Workspace(label);
  });
  after(() => workspace?.dispose());
  return () => {
    if (workspace === undefined) throw new Error('no workspace before the tests start');
    return workspace;
  };
}

async function judge(
  workspace: Workspace,
  {
    name,
    options = {},
    fault = {},
    seed = 1,
    volumeSizeBytes = VOLUME_BYTES,
  }: Pick<ConformingDriver, 'name' | 'options' | 'fault'> & {
    seed?: number;
    volumeSizeBytes?: number;
  },
  only: readonly string[],
  timeoutMs = TIMEOUT_MS,
): Promise<readonly CheckResult[]> {
  const driver = await FakeDriver.start(
    workspace.path(name, String(seed), 'driver'),
    options,
    fault,
  );
  const workDirectory = workspace.path(name, String(seed), 'work');
  await mkdir(workDirectory);
  try {
    const report = await runSuite(CHECKS, {
      socketPath: driver.socketPath,
      controllerSocketPath: driver.socketPath,
      parameters: {},
      snapshotParameters: {},
      secrets: {},
      access: ['block'],
      mountFileSystem: '',
      volumeSizeBytes,
      workDirectory,
      only,
      skip: [],
      timeoutMs,
      seed,
    });
    return report.results;
  } finally {
    await driver.stop();
  }
}

/** Checks of volumes that are too small for every write of the suite pass, and their notes say so. */
export function proveNotedAsSmall(label: string, ids: readonly string[]): void {
  const workspace = workspaceOf(label);
  test(`with volumes of 1 MiB, ${ids.join(', ')} note what they leave out`, async () => {
    const results = await judge(workspace(), { name: 'small', volumeSizeBytes: 1 << 20 }, ids);
    assert.deepEqual(
      results.map(({ id, result }) => `${id} ${result}`).sort(),
      ids.map((id) => `${id} passed`).sort(),
    );
    for (const { id, notes } of results) {
      assert.match(notes.join('\n'), /^a volume of \d+ bytes has no room .*$/, id);
    }
  });
}

/** Where a check can judge nothing, it is skipped with the reason instead of passing. */
export function proveSkipped(
  label: string,
  driver: Pick<Defect, 'name' | 'does' | 'fault'>,
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
  const workspace = workspaceOf(label);
  test(`for a driver that ${driver.does}, the suite skips ${ids.join(', ')}`, async () => {
    let seed = 1;
    let results = await judge(workspace(), driver, ids);
    while (!isOwnWay()) {
      seed += 1;
      assert.ok(seed <= MAX_ATTEMPTS, `${driver.name} could never go its own way`);
      results = await judge(workspace(), { ...driver, seed }, ids);
    }
    assert.deepEqual(
      results.map(({ id, result }) => `${id} ${result}`).sort(),
      ids.map((id) => `${id} skipped`).sort(),
    );
    for (const result of results) assert.match(result.detail ?? '', detail, result.id);
    assert.deepEqual(
      results.flatMap((result) => result.notes),
      notes,
    );
  });
}

/** Of all checks that meet one cause, only those fail that the table names, each with its detail; the rest are skipped. */
export function proveFailsOnce(
  label: string,
  driver: Pick<Defect, 'name' | 'does' | 'fault'>,
  only: readonly string[],
  failures: Readonly<Record<string, RegExp>>,
): void {
  const workspace = workspaceOf(label);
  const ids = Object.keys(failures);
  test(`a driver that ${driver.does} fails ${ids.join(' and ')}, and other checks say that they are not reached`, async () => {
    const results = await judge(workspace(), driver, only);
    for (const { id, result, detail } of results) {
      const failure = failures[id];
      assert.equal(result, failure === undefined ? 'skipped' : 'failed', `${id}: ${detail}`);
      if (failure !== undefined) assert.match(detail ?? '', failure);
    }
    const reached = results.flatMap(
      ({ detail }) => /^not reached: see (.*)$/.exec(detail ?? '')?.[1] ?? [],
    );
    assert.deepEqual([...new Set(reached)].sort(), [...ids].sort());
  });
}
