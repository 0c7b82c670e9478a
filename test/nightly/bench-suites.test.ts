/**
 * Each suite of `blockdelta bench` and of `scripts/bench` at tiny sizes, through the command: it ends, its report matches the schema, each of
 * its rows is measured or says why not, and nothing is left behind. The first run compiles the C++ peers, which takes
 * half a minute.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { Ajv } from 'ajv';
import { packagePath } from '../../src/base/package-root.js';
import { formatJson, parseDocument } from '../../src/tools/bench/report/document.js';
import { SUITES } from '../../src/tools/bench/suites/index.js';
import { ALL_SUITES } from '../bench/suites/index.js';
import { SPEED_TABLE } from '../bench/targets.js';
import { fullReport } from '../support/bench-report.js';
import { checkoutText } from '../support/checkout-text.js';
import { runCommand, startCommand } from '../support/command.js';
import { Plugin } from '../support/plugin.js';
import { loopsBelow, makePoolFileSystem, mountsBelow, skipUnlessRoot, Workspace } from '../support/workspace.js';

/** What scripts/bench runs. */
const BENCH = packagePath('.test-build/test/bench/main.js');
/** They need neither root nor a pool. */
const WITHOUT_ROOT = ['stream', 'hostile'];
/** How many curves a suite has. */
const CURVES: Readonly<Record<string, number>> = { stream: 1, driver: 3 };
const OWN_CURVES: Readonly<Record<string, number>> = { stream: 3, lifecycle: 1, reflink: 1, driver: 3 };
const OWN = mkdtempSync(join(tmpdir(), 'bench-suites-'));
const ENV = { HOME: process.env['HOME'] ?? '/root', TMPDIR: OWN };

after(() => rmSync(OWN, { recursive: true }));

const validate = new Ajv({ strictTypes: false }).compile(JSON.parse(checkoutText('docs/bench-report.schema.json')));

async function reportOf(t: TestContext, isOwn: boolean, ...args: string[]) {
  const { code, stdout, stderr } = isOwn
    ? await runCommand(t, [...args, '--json'], ENV, [], BENCH)
    : await runCommand(t, ['bench', ...args, '--json'], ENV);
  assert.equal(code, 0, stderr);
  const document = parseDocument(stdout);
  assert.equal(validate(document), true, JSON.stringify(validate.errors));
  assert.deepEqual(readdirSync(OWN), [], 'left behind');
  return document;
}

for (const [isOwn, name] of [
  ...Object.keys(SUITES).map((each) => [false, each] as const),
  ...Object.keys(ALL_SUITES).map((each) => [true, each] as const),
]) {
  const skip = isOwn && WITHOUT_ROOT.includes(name) ? false : skipUnlessRoot;
  const command = isOwn ? 'scripts/bench' : 'blockdelta bench';
  test(`${command} ${name} runs at tiny sizes and measures each of its targets and curves`, {
    skip,
  }, async (t) => {
    const args = [name, '--tiny', '--rounds', '2', '--curves'];
    const { rows, curves } = await reportOf(t, isOwn, ...args);
    const names = rows.map((row) => row.name);
    const wanted = isOwn ? SPEED_TABLE.filter(({ suite }) => suite === name) : [];
    for (const { name: row } of wanted) assert.ok(names.includes(row), row);
    assert.ok(rows.length > 0);
    for (const { name: row, ours } of rows) {
      assert.ok(row.startsWith(`${name}-`), row);
      if (ours.rounds.length === 0) t.diagnostic(`${row}: ${ours.missing}`);
    }
    assert.equal(curves.length, (isOwn ? OWN_CURVES : CURVES)[name] ?? 0);
    for (const { name: curve, lines } of curves) {
      assert.ok(curve.startsWith(`${name}-`), curve);
      for (const { points } of lines) {
        assert.ok(points.length > 1 && points.every(({ rounds }) => rounds.length === 2), curve);
      }
    }
  });
}

test('a driver of another process is measured, and keeps no object of the run', {
  skip: skipUnlessRoot,
}, async (t) => {
  const workspace = new Workspace('bench-driver');
  t.after(() => workspace.dispose());
  const pool = makePoolFileSystem(workspace, 'xfs');
  const plugin = await Plugin.start(workspace, { pools: `main=${pool}` });
  t.after(() => plugin.kill());
  const driver = ['--endpoint', plugin.endpoint, '--volume-size', '16Mi', '--rounds', '2'];
  const { rows } = await reportOf(t, false, ...driver);
  assert.ok(rows.every(({ facts }) => facts['driver'] === plugin.endpoint));
  const objects = async (): Promise<unknown[]> => {
    const { entries: volumes } = await plugin.client.controller.ListVolumes({});
    const { entries: snapshots } = await plugin.client.controller.ListSnapshots({});
    return [...volumes, ...snapshots];
  };
  assert.deepEqual(await objects(), []);

  const rounds = ['--rounds', '100000'];
  const { child, output, ended } = startCommand(t, ['bench', ...driver, ...rounds], ENV);
  await new Promise<void>((resolve) => {
    child.stderr.on('data', () => {
      if (output.stderr.includes('no written block is missing')) resolve();
    });
  });
  child.kill('SIGTERM');
  const { code } = await ended;
  assert.equal(code, 130, output.stderr);
  assert.deepEqual(await objects(), []);
  assert.deepEqual(mountsBelow(workspace.path('published')), []);
  assert.deepEqual(loopsBelow(workspace.path('published')), []);
});

test('a report is printed again, as Markdown and as a page, and compares with itself', async (t) => {
  const directory = mkdtempSync(join(OWN, 'bench-report-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const [report, page] = [join(directory, 'report.json'), join(directory, 'page.html')];
  writeFileSync(report, formatJson(fullReport()));
  const shown = await runCommand(t, ['bench', 'show', report, '--markdown', '--html', page], ENV);
  assert.equal(shown.code, 0, shown.stderr);
  assert.match(shown.stdout, /^\| `stream-cpu-8192` \|/m);
  assert.match(readFileSync(page, 'utf8'), /<svg /);
  const compared = await runCommand(t, ['bench', 'compare', report, report], ENV);
  assert.equal(compared.code, 0, compared.stdout);
  assert.match(compared.stdout, /worse: none/);
  const slower = fullReport();
  for (const { target } of slower.rows) {
    target?.rounds.splice(0, target.rounds.length, ...target.rounds.map((each) => 2 * (each ?? 0)));
  }
  const worse = join(directory, 'worse.json');
  writeFileSync(worse, formatJson(slower));
  assert.equal((await runCommand(t, ['bench', 'compare', report, worse], ENV)).code, 1);
});

test('wrong usage exits with 2, an endpoint that nothing serves with 6', async (t) => {
  const codeOf = async (...args: string[]): Promise<number | null> =>
    (await runCommand(t, ['bench', ...args], ENV)).code;
  assert.equal(await codeOf(), 2);
  assert.equal(await codeOf('no-such-suite'), 2);
  assert.equal(await codeOf('compare', '/nowhere/a.json', '/nowhere/b.json'), 2);
  assert.equal(await codeOf('--endpoint', 'unix:///nowhere/csi.sock'), 6);
});
