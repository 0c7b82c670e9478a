/**
 * scripts/quickstart --nodes 2, in a copy of the checkout that it builds: both volumes are what was on the other node, and
 * nothing stays behind, also after a signal. test/nightly/package.test.ts does the job of one node.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { copyCheckout } from '../support/checkout-copy.js';
import { skipUnlessRoot, Workspace } from '../support/workspace.js';

const workspace = new Workspace('two-nodes');
const checkout = workspace.path('checkout');
const env = { ...process.env, TMPDIR: workspace.directory };

before(() => copyCheckout(checkout));
after(() => workspace.dispose());

/** Directories of the job, mounts in them, and processes of the checkout. */
function leftBehind(): string[] {
  const directories = readdirSync(workspace.directory).filter((name) => name.startsWith('blockdelta-quickstart-'));
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
  const processes = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(commandLine);
  return [...directories, ...[...mounts, ...processes].filter((line) => line.includes(workspace.directory))];
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}

test('volumes on one node are the same as their snapshots on another, the second costs what changed, and one comes back when its node is lost', {
  skip: skipUnlessRoot,
}, (t) => {
  const command = join(checkout, 'scripts/quickstart');
  const { status, stdout, stderr } = spawnSync(command, ['--nodes', '2', '--small'], { env, encoding: 'utf8' });
  assert.equal(status, 0, stdout + stderr);
  const travelled = [...stdout.matchAll(/^ +(\d+) bytes .* have travelled to node b, in .* s$/gm)];
  const copied = [...stdout.matchAll(/^ +(\d+) bytes .* have travelled to node b until the snapshot was ready$/gm)];
  for (const [line] of [...travelled, ...copied]) t.diagnostic(line.trim());
  assert.deepEqual([travelled.length, copied.length], [2, 2], stdout);
  assert.match(
    stdout,
    /NodeStageVolume of the old volume on node a: volume \S+ is superseded: \S+ has taken its place/,
  );
  const pulled = [...stdout.matchAll(/^ +node b has pulled (\S+) MiB of a snapshot of 128\.0 MiB: (.*)$/gm)];
  assert.deepEqual(
    pulled.map(([, , what]) => what),
    ['all data', 'the changes since snapshot 1'],
  );
  for (const [index, [, mib]] of pulled.entries()) {
    assert.ok(Number(travelled[index]?.[1]) > Number(mib) * 1_000_000, 'what travelled has all that was pulled in it');
  }
  assert.match(stdout, /\nVERDICT: all volumes on node b are identical to their snapshots on node a, .*\n$/);
  assert.deepEqual(leftBehind(), []);
});

test('a signal in the middle ends the job with its step, and everything is undone', {
  skip: skipUnlessRoot,
}, async () => {
  const script = join(checkout, 'scripts/quickstart.mjs');
  const options = { env, stdio: ['ignore', 'pipe', 'pipe'] as ['ignore', 'pipe', 'pipe'] };
  const job = spawn(process.execPath, [script, '--nodes', '2', '--small'], options);
  let output = '';
  const take = (text: string): void => {
    const before = output;
    output += text;
    const isSecond = /making a raw block volume on node b from snapshot 2/;
    if (isSecond.test(output) && !isSecond.test(before)) job.kill('SIGINT');
  };
  for (const stream of [job.stdout, job.stderr]) stream.setEncoding('utf8').on('data', take);
  const [code] = await once(job, 'close');
  assert.equal(code, 1, output);
  assert.match(output, /SIGINT: cleaning up after this step\n/);
  assert.match(output, /\] cleaning up\n\nquickstart failed: interrupted by SIGINT\n$/);
  assert.deepEqual(leftBehind(), []);
});

test('options that do not fit together are refused before anything starts', () => {
  const script = join(checkout, 'scripts/quickstart.mjs');
  for (const [args, why] of [
    [['--nodes', '3'], '--nodes can only be 2'],
    [['--nodes', '2', '--backend', 'thin'], '--nodes and --backend thin exclude each other: .*'],
  ] as const) {
    const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], { env, encoding: 'utf8' });
    assert.deepEqual([status, stdout], [1, '']);
    assert.match(stderr, new RegExp(`^\nquickstart failed: ${why}\n$`));
  }
  assert.deepEqual(leftBehind(), []);
});
