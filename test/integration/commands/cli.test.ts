/** The commands `allocated` and `delta` as processes, with a scripted server, and sockets that they cannot use. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { CsiError, StatusCode, type StatusName } from '../../../src/base/errors.js';
import { runCommand, startCommand } from '../../support/command.js';
import { eventually } from '../../support/eventually.js';
import { oneOfEach } from '../../support/nightly.js';
import { PROGRAM } from '../../support/program.js';
import {
  type FakeStream,
  frame,
  makeServer,
  metadataService,
  type Row,
  startMetadata,
  untilCutOff,
} from '../../support/server-fixture.js';
import { temporaryDirectory } from '../../support/temporary.js';
import { skipUnlessRoot } from '../../support/workspace.js';

const CAPACITY = 2n ** 40n;

const ROWS: readonly Row[] = [
  [0, 4096],
  [2n ** 39n, 1536],
];
const sendRows: FakeStream = async (_request, _context, writer) => {
  await writer.send(frame(CAPACITY, ROWS));
};

test('allocated requests one snapshot and prints its ranges as a table', async (t) => {
  const { endpoint, seen } = await startMetadata(t, sendRows);
  const ended = await runCommand(t, ['allocated', 'snap-1', '--endpoint', endpoint]);
  const stdout = [
    '       OFFSET           SIZE',
    '            0           4096  4 KiB',
    ' 549755813888           1536  1.5 KiB',
    '',
  ].join('\n');
  assert.deepEqual(ended, { code: 0, signal: null, stdout, stderr: '' });
  const asked = { snapshot_id: 'snap-1', starting_offset: '0', max_results: 0, secrets: {} };
  assert.deepEqual(seen, [asked]);
});

test('delta requests two snapshots and passes its options on', async (t) => {
  const { endpoint, seen } = await startMetadata(t, sendRows);
  const args = ['delta', 'base', 'target', '--starting-offset', '4095', '--max-results', '7'];
  const ended = await runCommand(t, [...args, '--format', 'csv'], { CSI_ENDPOINT: endpoint });
  assert.equal(ended.code, 0, ended.stderr);
  assert.equal(ended.stdout, 'byte_offset,size_bytes\n0,4096\n549755813888,1536\n');
  const ids = { base_snapshot_id: 'base', target_snapshot_id: 'target' };
  assert.deepEqual(seen, [{ ...ids, starting_offset: '4095', max_results: 7, secrets: {} }]);
});

test('the summary replaces the list, in the requested format', async (t) => {
  const { endpoint } = await startMetadata(t, sendRows);
  const args = ['allocated', 's', '--endpoint', endpoint, '--summary', '--format', 'ndjson'];
  const ended = await runCommand(t, args);
  const summary = JSON.parse(ended.stdout) as Record<string, unknown>;
  const { ranges, size_bytes, volume_capacity_bytes, messages, resumes } = summary;
  assert.deepEqual([ranges, size_bytes, messages, resumes], [2, '5632', 1, 0]);
  assert.equal(volume_capacity_bytes, CAPACITY.toString());
});

const EXITS: readonly [StatusName, number][] = [
  ['INVALID_ARGUMENT', 3],
  ['OUT_OF_RANGE', 3],
  ['NOT_FOUND', 4],
  ['FAILED_PRECONDITION', 5],
  ['RESOURCE_EXHAUSTED', 1],
];

test("each status has its exit code, with the plugin's message on stderr", async (t) => {
  let name: StatusName;
  const { endpoint } = await startMetadata(t, async () => {
    throw new CsiError(StatusCode[name], 'words for the user');
  });
  for (const [status, code] of EXITS) {
    name = status;
    const ended = await runCommand(t, ['allocated', 's', '--endpoint', endpoint]);
    assert.deepEqual([ended.code, ended.stdout], [code, ''], status);
    assert.match(ended.stderr, new RegExp(`^blockdelta: .*${name}: words for the user\n$`));
  }
});

const MISUSES: readonly (readonly string[])[] = [
  [],
  ['nonsense'],
  ['allocated', 'a', 'b', '--endpoint', '/x.sock'],
  ['allocated', 'a'],
  ['allocated', 'a', '--endpoint', 'tcp://host:1'],
  ['allocated', 'a', '--endpoint', '/x.sock', '--format', 'xml'],
  ['allocated', 'a', '--endpoint', '/x.sock', '--starting-offset', '9223372036854775808'],
  ['allocated', 'a', '--endpoint', '/x.sock', '--max-results', '2147483648'],
  ['allocated', 'a', '--endpoint', '/x.sock', '--frobnicate'],
  ['serve', 'now'],
  ['thin-ls', 'a', '--metadata', 'b'],
  ['thin-ls', 'a', '--format', 'xml'],
  ['thin-delta', '--base', '1', '--target', '2'],
  ['thin-delta', 'a', '--base', '1'],
  ['thin-delta', 'a', '--base', '1', '--thin1', '1', '--target', '2'],
  ['thin-delta', 'a', '--base', '16777216', '--target', '2'],
  ['thin-delta', 'a', '--base', '0x1', '--target', '2'],
  ['thin-delta', 'a', '--base', '1', '--target', '2', '--format', 'xml', '--summary'],
];

test('wrong usage ends with exit code 2, a message on stderr and nothing on stdout', async (t) => {
  // Of each command one.
  for (const args of oneOfEach(MISUSES, ([command = '']) => command)) {
    const { code, stdout, stderr } = await runCommand(t, args);
    assert.deepEqual([code, stdout], [2, ''], `${args.join(' ')}: ${stderr}`);
    assert.notEqual(stderr, '');
  }
});

test('a path in the place of --to is told where it belongs', async (t) => {
  for (const [command, ...words] of [
    ['backup', 'snapshot', '/a b/backups'],
    ['restore', '/backups', '/a b/image'],
  ] as const) {
    const { code, stderr } = await runCommand(t, [command, ...words]);
    assert.deepEqual([code, stderr.split('\n')[0]?.endsWith(`: did you mean --to ${words[1]}?`)], [2, true], stderr);
  }
  for (const words of [['/no/snapshot'], ['snapshot', '/extra', '--to', '/backups'], ['snapshot', 'extra']]) {
    const { code, stderr } = await runCommand(t, ['backup', ...words]);
    assert.deepEqual([code, stderr.includes('did you mean')], [2, false], stderr);
  }
});

test('a report that cannot be written is told before anything is measured', async (t) => {
  const { code, stderr } = await runCommand(t, ['bench', 'driver', '--tiny', '--report', '/nowhere/report.json']);
  const found = 'there is no directory /nowhere for /nowhere/report.json';
  const said = `cannot write /nowhere/report.json (${found}): name a file in a directory that exists and has room`;
  assert.deepEqual([code, stderr], [1, `blockdelta: ${said}\n`]);
});

test('a report that is not there is told without an errno', async (t) => {
  const { code, stderr } = await runCommand(t, ['bench', 'compare', '/nowhere/a.json', '/nowhere/b.json']);
  assert.equal(code, 2);
  assert.match(stderr, /^error: there is no \/nowhere\/a\.json: give a file that bench --report has written\n/);
});

test('help and version exit with 0, and help lists every exit code', async (t) => {
  for (const word of ['--version', 'version', '-v']) {
    const version = await runCommand(t, [word]);
    assert.deepEqual([version.code, version.stdout, version.stderr], [0, '0.1.0\n', ''], word);
  }
  const thin = [[0, 1, 2, 4, 5, 130], /reserve_metadata_snap/] as const;
  for (const [command, codes, said] of [
    ['delta', [0, 1, 2, 3, 4, 5, 6, 130], /--starting-offset/],
    ['thin-ls', ...thin],
    ['thin-delta', ...thin],
  ] as const) {
    const help = await runCommand(t, [command, '--help']);
    assert.equal(help.code, 0);
    for (const code of codes) assert.match(help.stdout, new RegExp(`^ +${code} +\\w`, 'm'));
    assert.match(help.stdout, said);
  }
});

test('help about a command succeeds, and help about none says in a line what is wrong', async (t) => {
  for (const [words, said] of [
    [['help'], /^Usage: blockdelta \[options\]/],
    [['help', 'delta'], /^Usage: blockdelta delta /],
    [['bench', 'help', 'compare'], /^Usage: blockdelta bench compare /],
  ] as const) {
    const { code, stdout, stderr } = await runCommand(t, words);
    assert.deepEqual([code, stderr], [0, ''], words.join(' '));
    assert.match(stdout, said);
  }
  for (const [words, said] of [
    [['help', 'nosuch'], /^error: unknown command 'nosuch'\n/],
    [['bench', 'help', 'x'], /^error: .*'x' is invalid.*\n/],
  ] as const) {
    const { code, stderr } = await runCommand(t, words);
    assert.equal(code, 2);
    assert.match(stderr, said);
  }
});

/** An endless list, in messages of 1000 entries. */
const endless: FakeStream = async (request, context, writer) => {
  let at = BigInt(String(request['starting_offset']));
  try {
    for (;;) {
      const rows = Array.from({ length: 1000 }, (_, index): Row => [at + BigInt(index * 2), 1]);
      await writer.send(frame(2n ** 62n, rows));
      at += 2000n;
    }
  } finally {
    context.note({ ended: true });
  }
};

test('a closed pipe is not an error, and ends the stream in the plugin', async (t) => {
  const made = await startMetadata(t, endless);
  const { child, ended } = startCommand(t, ['allocated', 's', '--endpoint', made.endpoint]);
  child.stdout.once('data', () => child.stdout.destroy());
  const { code, signal, stderr } = await ended;
  assert.deepEqual([code, signal, stderr], [0, null, '']);
  await eventually('the stream ends', () => made.log.some((line) => line['ended'] === true));
});

test('help that nobody reads is no error', async (t) => {
  const { child, ended } = startCommand(t, ['--help']);
  child.stdout.destroy();
  const { code, stderr } = await ended;
  assert.deepEqual([code, stderr], [0, '']);
});

test('an unread pipe pauses the stream instead of filling memory', async (t) => {
  let sent = 0;
  const { endpoint } = await startMetadata(t, (request, context, writer) =>
    endless(request, context, {
      send: async (chunk) => {
        await writer.send(chunk);
        sent += 1;
      },
    }),
  );
  const { child } = startCommand(t, ['allocated', 's', '--endpoint', endpoint]);
  child.stdout.pause();
  await eventually('the stream starts', () => sent > 0);
  await delay(1500);
  // The pipe, the client's queue, both windows and gRPC's own queue.
  assert.ok(sent < 200, `${sent} messages were taken`);
  child.kill('SIGKILL');
});

test('SIGINT ends the command with exit code 130, and the stream in the plugin', async (t) => {
  const made = await startMetadata(t, async (_request, context, writer) => {
    await writer.send(frame(CAPACITY, ROWS));
    await untilCutOff(context);
  });
  const { child, ended } = startCommand(t, ['allocated', 's', '--endpoint', made.endpoint]);
  await eventually('the call starts', () => made.log.length > 0);
  await delay(200);
  child.kill('SIGINT');
  const { code, stderr } = await ended;
  assert.deepEqual([code, stderr], [130, '']);
  await eventually('the stream ends', () => made.log.some((line) => 'code' in line));
});

test('a list survives a kill and restart of the plugin', async (t) => {
  const directory = temporaryDirectory();
  const total = 300;
  const rowAt = (index: number): Row => [index * 8192, 4096];
  const handlerUntil = (stopAt: number): FakeStream => {
    return async (request, context, writer) => {
      const first = Math.ceil(Number(request['starting_offset']) / 8192);
      for (let index = first; index < total; index += 1) {
        await writer.send(frame(CAPACITY, [rowAt(index)]));
        if (index === stopAt) await untilCutOff(context);
      }
    };
  };
  const first = makeServer(directory, { services: [metadataService(handlerUntil(100))] });
  await first.server.start();
  const args = ['delta', 'a', 'b', '--endpoint', first.endpoint, '--format', 'csv'];
  const ended = runCommand(t, args);
  await eventually('the call starts', () => first.log.length > 0);
  await delay(300);
  first.server.force();
  await first.server.stop();
  const second = makeServer(directory, { services: [metadataService(handlerUntil(total))] });
  await second.server.start();
  t.after(() => second.server.stop());
  const { code, stdout, stderr } = await ended;
  assert.equal(code, 0, stderr);
  assert.match(stderr, /interrupted .*resuming at byte/);
  const rows = Array.from({ length: total }, (_, index) => rowAt(index).join(','));
  assert.equal(stdout, `byte_offset,size_bytes\n${rows.join('\n')}\n`);
  first.client.close();
  second.client.close();
});

async function assertUnreachable(t: TestContext, path: string, said: RegExp): Promise<void> {
  const ended = await runCommand(t, ['allocated', 's', '--endpoint', `unix://${path}`]);
  assert.equal(ended.code, 6);
  assert.match(ended.stderr, said);
}

test('a socket that is missing is named as that, with exit code 6', (t) => {
  const said = /there is no socket at .*no\.sock: start the plugin, or correct the endpoint/;
  return assertUnreachable(t, join(temporaryDirectory(), 'no.sock'), said);
});

test('a socket that its plugin has left is named as that, with exit code 6', async (t) => {
  const path = join(temporaryDirectory(), 'dead.sock');
  const server = createServer().listen(`${path}.made`);
  await once(server, 'listening');
  // A server removes its own path when it closes.
  renameSync(`${path}.made`, path);
  await new Promise((done) => server.close(done));
  await assertUnreachable(t, path, /^[^\n]*nothing listens on the socket .*: the plugin that made it has[^\n]*\n$/);
});

test('a file or a directory in place of the socket is named as that in one line, with exit code 6', async (t) => {
  const directory = temporaryDirectory();
  const file = join(directory, 'file');
  writeFileSync(file, '');
  for (const path of [file, directory]) {
    await assertUnreachable(t, path, /^[^\n]* is not a socket: correct the endpoint[^\n]*\n$/);
  }
});

test('a socket without permission is named as that', { skip: skipUnlessRoot }, async (t) => {
  const directory = temporaryDirectory();
  const path = join(directory, 'closed.sock');
  const server = createServer().listen(path);
  await once(server, 'listening');
  t.after(() => server.close());
  execFileSync('chmod', ['755', directory]);
  chmodSync(path, 0o600);
  const user = ['--reuid=65534', '--regid=65534', '--clear-groups', process.execPath, PROGRAM];
  for (const command of [['allocated', 's'], ['conformance']]) {
    const ended = spawnSync('setpriv', [...user, ...command, '--endpoint', `unix://${path}`], { encoding: 'utf8' });
    assert.match(ended.stderr, /permission denied for the socket .*: run the command as root, or/);
    assert.notEqual(ended.status, 0);
  }
});
