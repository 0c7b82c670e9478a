/** `blockdelta conformance`: its options, reports, exit codes, and what it does at a signal. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, test as plainTest } from 'node:test';
import { CHECKS } from '../../src/tools/conformance/all-checks.js';
import { type Ended, startCommand } from '../support/command.js';
import { RecordingDriver } from '../support/recording-driver.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { Workspace } from '../support/workspace.js';

const workspace = new Workspace('conformance-cli');
after(() => workspace.dispose());
const running = runPlugin('conformance-cli');

const started = (options: readonly string[]) => startCommand({ after: () => undefined }, ['conformance', ...options]);
const conformance = (options: readonly string[]): Promise<Ended> => started(options).ended;

const inside = (endpoint: string): string[] => [
  '--endpoint',
  endpoint,
  '--work-directory',
  workspace.path('work'),
  '--access',
  'block',
];

plainTest('--list prints every check with its part of the specification, or those that --only selects', async () => {
  const { code, stdout } = await conformance(['--list']);
  assert.equal(code, 0);
  const lines = stdout.trimEnd().split('\n');
  assert.equal(lines.length, CHECKS.length);
  assert.match(stdout, /^metadata\.order +must .*\[SnapshotMetadata: Metadata Format\]$/m);
  const some = await conformance(['--list', '--only', 'identity.*', '--seed', '2147483647']);
  assert.ok(some.stdout.split('\n').every((line) => line === '' || line.startsWith('identity.')));
  const soak = await conformance(['--list', '--soak', '3', '--only', 'soak.*']);
  assert.deepEqual(soak.stdout.match(/^\S+/gm), ['soak.block', 'soak.mount']);
});

test('the work directory that a run has made is gone after it, and one that was there stays', async () => {
  const only = (place: string) => [
    ...['--endpoint', running.plugin.endpoint, '--access', 'block', '--only', 'identity.*'],
    ...['--work-directory', place],
  ];
  const there = workspace.path('there');
  mkdirSync(there);
  for (const place of [workspace.path('new', 'below'), there]) {
    const { code, stderr } = await conformance(only(place));
    assert.equal(code, 0, stderr);
  }
  assert.deepEqual([existsSync(workspace.path('new')), existsSync(there)], [false, true]);
});

plainTest('wrong usage ends with exit code 2 and a message that names the mistake', async () => {
  const socket = ['--endpoint', 'unix:///nowhere/csi.sock'];
  const list = workspace.path('list.json');
  writeFileSync(list, '["a"]');
  const rows: [string[], RegExp][] = [
    [[], /no endpoint/],
    [['--endpoint', 'relative.sock'], /it must be like unix:/],
    [[...socket, '--only', 'metadata.nothing'], /no check matches 'metadata.nothing'/],
    [[...socket, '--skip', 'x*'], /no check matches 'x\*'/],
    [[...socket, '--parameters', 'novalue'], /key=value/],
    [[...socket, '--access', 'file'], /Allowed choices/],
    [[...socket, '--volume-size', '1.5Gi'], /like 64Mi/],
    [[...socket, '--timeout', '0'], /above 0/],
    [[...socket, '--soak', '0'], /above 0/],
    [[...socket, '--only', 'soak.*'], /no check matches 'soak.*'/],
    [[...socket, '--secrets', workspace.path('none.json')], /none.json/],
    [[...socket, '--secrets', list], /CreateVolume/],
  ];
  for (const [options, message] of rows) {
    const { code, stderr } = await conformance(options);
    assert.equal(code, 2, `${options.join(' ')}: ${stderr}`);
    assert.match(stderr, message);
  }
});

plainTest('a run against a driver that cannot be reached ends with exit code 6', async () => {
  const { code, stderr } = await conformance(['--endpoint', `unix://${workspace.path('no.sock')}`]);
  assert.equal(code, 6);
  assert.match(stderr, /there is no socket at/);
});

plainTest('a work directory or a report that cannot be made ends a run at once', async () => {
  const server = createServer().listen(workspace.path('idle.sock')).unref();
  await once(server, 'listening');
  const file = workspace.path('file');
  writeFileSync(file, '');
  const places = [
    ['/proc/x/y', 'ENOENT'],
    [file, 'ENOTDIR'],
    [join(file, 'x'), 'ENOTDIR'],
  ] as const;
  for (const [place, reason] of places) {
    const given = ['--endpoint', workspace.path('idle.sock'), '--work-directory', place];
    const { code, stderr } = await conformance(given);
    const said = `cannot make the work directory ${place} (${reason}): give another --work-directory`;
    assert.deepEqual([code, stderr], [1, `blockdelta: ${said}\n`]);
  }
  for (const option of ['--junit', '--report']) {
    const { code, stderr } = await conformance([...inside(workspace.path('idle.sock')), option, '/nowhere/report']);
    assert.equal(code, 1);
    assert.match(stderr, /^blockdelta: cannot write \/nowhere\/report /);
  }
});

test('a run reports as table, JSON and JUnit, and exits with 0', async () => {
  const [json, junit] = [workspace.path('report.json'), workspace.path('report.xml')];
  const { code, stdout, stderr } = await conformance([
    ...inside(running.plugin.endpoint),
    '--only',
    'metadata.s*',
    '--only',
    'identity.*',
    '--skip',
    'metadata.slow-reader',
    '--seed',
    '7',
    '--verbose',
    '--report',
    json,
    '--junit',
    junit,
  ]);
  assert.equal(code, 0, stdout + stderr);
  assert.match(stdout, /, seed 7$/m);
  assert.match(stdout, /^metadata\.same .* ok /m);
  assert.match(stdout, /metadata\.slow-reader: excluded by --skip metadata\.slow-reader/);
  assert.match(stdout, /^4 passed, 0 failed, 1 skipped in /m);
  assert.match(stderr, /^metadata\.same passed/m);
  const report = JSON.parse(readFileSync(json, 'utf8'));
  assert.deepEqual([report.passed, report.failed, report.skipped], [4, 0, 1]);
  assert.match(readFileSync(junit, 'utf8'), /<testsuites [^>]*tests="5"/);
});

test('a run with a failed check exits with 1, and stdout holds only JSON with --json', async () => {
  const { code, stdout } = await conformance([
    ...inside(running.plugin.endpoint),
    // An unknown parameter.
    '--only',
    'volume.delete',
    '--parameters',
    'no-such-parameter=1',
    '--json',
  ]);
  assert.equal(code, 1, stdout);
  const report = JSON.parse(stdout);
  assert.equal(report.failed, 1);
  assert.match(report.checks[0].detail, /CreateVolume: expected OK, found INVALID_ARGUMENT/);
});

/** The command against a driver that never answers an RPC; at each call of that the next signal is sent. */
async function interrupted(
  rpc: string,
  signals: readonly NodeJS.Signals[],
  options: readonly string[],
): Promise<Ended> {
  const left = [...signals];
  const silent = await RecordingDriver.start(workspace, {
    [rpc]: () => {
      const signal = left.shift();
      if (signal !== undefined) child.kill(signal);
      return new Promise(() => undefined);
    },
  });
  const { child, ended } = started([...inside(silent.endpoint), ...options]);
  return ended.finally(() => silent.stop());
}

plainTest('SIGINT before the first check ends a run with 130 and a report without checks', async () => {
  const ended = await interrupted('GetPluginCapabilities', ['SIGINT'], ['--json']);
  assert.deepEqual([ended.code, ended.stderr], [130, '']);
  assert.deepEqual(JSON.parse(ended.stdout).checks, []);
});

plainTest('a second signal of another kind ends a run that is still deleting', async () => {
  // The suite repeats the call that the first signal cancels, to find out what it has created.
  const only = ['--only', 'volume.validate'];
  const { code, signal } = await interrupted('CreateVolume', ['SIGINT', 'SIGTERM'], only);
  assert.deepEqual([code, signal], [null, 'SIGTERM']);
});

test('SIGINT ends a run with 130 and leaves nothing behind', async () => {
  const only = ['--verbose', '--only', 'delta.content', '--only', 'delta.chain'];
  const { child, output, ended } = started([...inside(running.plugin.endpoint), ...only]);
  child.stderr.on('data', () => {
    if (!child.killed && /^delta\.content \.\.\.$/m.test(output.stderr)) child.kill('SIGINT');
  });
  const { code, stderr } = await ended;
  assert.equal(code, 130, stderr);
  assert.doesNotMatch(stderr, /^delta\.chain/m, 'no check began after the signal');
  assert.deepEqual(await running.orchestrator.volumeIds(), []);
  assert.deepEqual(await running.orchestrator.snapshotIds(), []);
});
