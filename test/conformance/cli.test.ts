import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, test as plainTest } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { CHECKS } from '../../src/conformance/suite.js';
import { RecordingDriver } from '../support/recording-driver.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { Workspace } from '../support/workspace.js';
import { readXml } from '../support/xml.js';

const workspace = new Workspace('conformance-cli');
after(() => workspace.dispose());
const running = runPlugin('conformance-cli');

interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

function conformance(...options: string[]): Promise<Ended> {
  const main = packagePath('.test-build/src/main.js');
  const { CSI_ENDPOINT: _endpoint, ...env } = process.env;
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [main, 'conformance', ...options],
      { env },
      (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

plainTest('--list prints every check with its rule and its part of the specification', async () => {
  const { code, stdout } = await conformance('--list');
  assert.equal(code, 0);
  const lines = stdout.trimEnd().split('\n');
  assert.equal(lines.length, CHECKS.length);
  assert.match(stdout, /^metadata\.order +SM13 +must .*\[SnapshotMetadata: Metadata Format\]$/m);
});

plainTest('wrong usage: exit code 2 and a message that names the mistake', async () => {
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
    [[...socket, '--secrets', workspace.path('none.json')], /none.json/],
    [[...socket, '--secrets', list], /CreateVolume/],
  ];
  for (const [options, message] of rows) {
    const { code, stderr } = await conformance(...options);
    assert.equal(code, 2, `${options.join(' ')}: ${stderr}`);
    assert.match(stderr, message);
  }
});

plainTest('a driver that cannot be reached: exit code 1', async () => {
  const { code, stderr } = await conformance('--endpoint', `unix://${workspace.path('no.sock')}`);
  assert.equal(code, 1);
  assert.match(stderr, /there is no socket at/);
});

test('a run reports as table, JSON and JUnit, and exits with 0', async () => {
  const [json, junit] = [workspace.path('report.json'), workspace.path('report.xml')];
  const { code, stdout, stderr } = await conformance(
    ...['--endpoint', running.plugin.endpoint, '--work-directory', workspace.path('work')],
    ...['--access', 'block', '--only', 'metadata.s*', '--only', 'identity.*'],
    ...['--skip', 'metadata.slow-reader', '--seed', '7', '--verbose'],
    ...['--json', json, '--junit', junit],
  );
  assert.equal(code, 0, stdout + stderr);
  assert.match(stdout, /, seed 7$/m);
  assert.match(stdout, /^metadata\.same .* ok /m);
  assert.match(stdout, /metadata\.slow-reader: excluded by --skip metadata\.slow-reader/);
  assert.match(stdout, /^4 passed, 0 failed, 1 skipped in /m);
  assert.match(stderr, /^metadata\.same passed/m);
  const report = JSON.parse(readFileSync(json, 'utf8'));
  assert.deepEqual([report.passed, report.failed, report.skipped], [4, 0, 1]);
  assert.equal(readXml(readFileSync(junit, 'utf8')).attributes['tests'], '5');
});

test('a run with a failed check exits with 1, and stdout holds only JSON with --json -', async () => {
  const { code, stdout } = await conformance(
    ...['--endpoint', running.plugin.endpoint, '--work-directory', workspace.path('work')],
    // An unknown parameter.
    ...['--access', 'block', '--only', 'volume.delete', '--parameters', 'no-such-parameter=1'],
    ...['--json', '-'],
  );
  assert.equal(code, 1, stdout);
  const report = JSON.parse(stdout);
  assert.equal(report.failed, 1);
  assert.match(report.checks[0].detail, /CreateVolume: expected OK, found INVALID_ARGUMENT/);
});

plainTest(
  'SIGINT before the first check ends a run with 130 and a report without checks',
  async () => {
    let interrupt = (): void => undefined;
    const silent = await RecordingDriver.start(workspace, {
      GetPluginCapabilities: () => {
        interrupt();
        return new Promise(() => undefined);
      },
    });
    try {
      const main = packagePath('.test-build/src/main.js');
      const inside = ['--work-directory', workspace.path('work')];
      const child = spawn(
        process.execPath,
        [main, 'conformance', '--endpoint', silent.endpoint, '--json', '-', ...inside],
        { stdio: ['ignore', 'pipe', 'pipe'] },
      );
      interrupt = () => child.kill('SIGINT');
      const output = { stdout: '', stderr: '' };
      for (const name of ['stdout', 'stderr'] as const) {
        child[name].setEncoding('utf8').on('data', (text: string) => {
          output[name] += text;
        });
      }
      const [code] = await once(child, 'close');
      assert.equal(code, 130, output.stderr);
      assert.deepEqual(JSON.parse(output.stdout).checks, []);
      assert.equal(output.stderr, '');
    } finally {
      silent.stop();
    }
  },
);

plainTest('a second signal of another kind ends a run that is still deleting', async () => {
  const signals = ['SIGINT', 'SIGTERM'] as const;
  let calls = 0;
  let send = (_signal: NodeJS.Signals): void => undefined;
  const silent = await RecordingDriver.start(workspace, {
    // The suite repeats the call that the first signal cancels, to find out what it has created.
    CreateVolume: () => {
      const signal = signals[calls];
      calls += 1;
      if (signal !== undefined) send(signal);
      return new Promise(() => undefined);
    },
  });
  try {
    const main = packagePath('.test-build/src/main.js');
    const options = ['--work-directory', workspace.path('work'), '--access', 'block'];
    options.push('--only', 'volume.validate');
    const child = spawn(
      process.execPath,
      [main, 'conformance', '--endpoint', silent.endpoint, ...options],
      { stdio: 'ignore' },
    );
    send = (signal) => child.kill(signal);
    const [code, signal] = await once(child, 'close');
    assert.deepEqual([code, signal], [null, 'SIGTERM']);
  } finally {
    silent.stop();
  }
});

test('SIGINT ends a run with 130 and leaves nothing behind', async () => {
  const main = packagePath('.test-build/src/main.js');
  const options = ['--work-directory', workspace.path('work'), '--access', 'block', '--verbose'];
  options.push('--only', 'delta.content', '--only', 'delta.chain');
  const child = spawn(
    process.execPath,
    [main, 'conformance', '--endpoint', running.plugin.endpoint, ...options],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  child.stderr.setEncoding('utf8');
  let stderr = '';
  let isInterrupted = false;
  child.stderr.on('data', (text: string) => {
    stderr += text;
    if (isInterrupted || !/^delta\.content \.\.\.$/m.test(stderr)) return;
    isInterrupted = child.kill('SIGINT');
  });
  const [code] = await once(child, 'close');
  assert.equal(code, 130, stderr);
  assert.doesNotMatch(stderr, /^delta\.chain/m, 'no check began after the signal');
  assert.deepEqual(await running.orchestrator.volumeIds(), []);
  assert.deepEqual(await running.orchestrator.snapshotIds(), []);
});
