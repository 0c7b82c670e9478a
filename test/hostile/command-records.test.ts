/**
 * What commands find in the temporary directory and in their runtime directory: root obeys it only if a command of its
 * own has left it, and one bad record stops no other from being undone.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { type Ended, runCommand, startCommand } from '../support/command.js';
import { blockCapability } from '../support/csi-client.js';
import { createRequest, type HeldVolume, MIB } from '../support/orchestrator.js';
import { runPlugin, test } from '../support/running-plugin.js';

const NOBODY = 65_534;
let source: HeldVolume;
const running = runPlugin('command-records', {
  pools: { pool: 'xfs' },
  async prepare({ orchestrator }) {
    source = await orchestrator.create('source', spec);
  },
});
const spec = { capability: blockCapability(), sizeBytes: 16 * MIB };

const temporary = (...names: string[]): string => running.workspace.path('temporary', ...names);
const runtime = (...names: string[]): string => running.workspace.path('runtime', ...names);
const repository = (): string => running.workspace.path('backups');
const socketPath = (): string => running.plugin.endpoint.slice('unix://'.length);

function environment(): Record<string, string> {
  mkdirSync(temporary(), { recursive: true });
  return { CSI_ENDPOINT: running.plugin.endpoint, TMPDIR: temporary(), BLOCKDELTA_RUNTIME_DIR: runtime() };
}

let taken = 0;
async function backUp(t: TestContext): Promise<Ended> {
  taken += 1;
  const snapshot = await running.orchestrator.snapshot(source, `snapshot-${taken}`);
  const ended = await runCommand(t, ['backup', snapshot, '--to', repository()], environment());
  assert.equal(ended.code, 0, ended.stderr);
  return ended;
}

const volumes = async (): Promise<string[]> => (await running.orchestrator.volumeIds()).sort();

test('a record that anybody has put into the temporary directory deletes no volume, and no foreign file goes', async (t) => {
  const victim = await running.orchestrator.create('victim', spec);
  environment();
  const planted = temporary('blockdelta-volume-x');
  const record = {
    user: { pid: 1, started: 'never' },
    socketPath: socketPath(),
    createRequest: createRequest('victim', spec),
    volumeId: victim.id,
    isTemporary: true,
  };
  mkdirSync(planted);
  writeFileSync(join(planted, 'record.json'), JSON.stringify(record));
  const sockets = temporary('blockdelta-nbd-1-1-x');
  mkdirSync(join(sockets, 'foreign'), { recursive: true });
  for (const path of [planted, join(planted, 'record.json'), sockets, join(sockets, 'foreign')]) {
    chownSync(path, NOBODY, NOBODY);
  }
  const before = await volumes();
  const snapshot = await running.orchestrator.snapshot(source, 'against');
  await runCommand(t, ['backup', snapshot, '--to', repository()], environment());
  const verify = ['verify', repository(), '--against', snapshot];
  assert.equal((await runCommand(t, verify, environment())).code, 0);
  assert.deepEqual(await volumes(), before, 'no volume was deleted');
  assert.ok(existsSync(join(sockets, 'foreign')), 'no foreign file was removed');
  rmSync(temporary(), { recursive: true });
});

/** Kills a `blockdelta nbd` that serves a snapshot. Resolves to the names that it leaves in the runtime directory. */
async function killedServer(t: TestContext, name: string): Promise<{ volume: string }> {
  const before = existsSync(runtime()) ? readdirSync(runtime()) : [];
  const snapshot = await running.orchestrator.snapshot(source, name);
  const socket = running.workspace.path('export.sock');
  const command = ['nbd', snapshot, '--socket', socket];
  const { child, output, ended } = startCommand(t, command, environment());
  await Promise.race([once(child.stdout, 'data'), ended]);
  assert.equal(child.exitCode, null, output.stderr);
  child.kill('SIGKILL');
  await ended;
  const left = readdirSync(runtime()).filter((each) => !before.includes(each));
  const volume = left.find((each) => each.startsWith('volume-')) ?? '';
  assert.equal(left.length, 2, left.join());
  return { volume };
}

/** What stands in the way of a record, by what the report says of it. For other files see unit/base/runtime-directory. */
const ODD_RECORDS: readonly { found: RegExp; make(record: string): void }[] = [
  { found: /record\.json is not used: it is not a regular/, make: (record) => symlinkSync('/x', record) },
  {
    found: /record\.json has version 2, and this program reads version 1/,
    make: (record) => writeFileSync(record, '{"version":2}'),
  },
  ...['', 'null', '[]', '7', '"text"', '{"version":1}', '{"version":', '\0'].map((text) => ({
    found: /record\.json is no record of a volume: remove the directory/,
    make: (record: string) => writeFileSync(record, text),
  })),
];

test('an odd record is reported, and stops no removal of what killed commands have left', async (t) => {
  const before = await volumes();
  const { volume } = await killedServer(t, 'of-the-killed');
  assert.equal((await volumes()).length, before.length + 1);
  // Before and behind the good one.
  const digits = ['0', 'f'].flatMap((first) =>
    ODD_RECORDS.map((_, n) => `${first}${n.toString(16).padStart(15, '0')}`),
  );
  for (const [index, { make }] of [...ODD_RECORDS, ...ODD_RECORDS].entries()) {
    mkdirSync(runtime(`volume-${digits[index]}`));
    make(runtime(`volume-${digits[index]}`, 'record.json'));
  }
  const { stderr } = await backUp(t);
  const lines = stderr.split('\n');
  for (const [index, { found }] of [...ODD_RECORDS, ...ODD_RECORDS].entries()) {
    const line = lines.find((each) => each.includes(`volume-${digits[index]}`)) ?? '';
    assert.match(line, /is no longer used by a command, but was not removed: /);
    assert.match(line, found);
    rmSync(runtime(`volume-${digits[index]}`), { recursive: true });
  }
  assert.ok(!existsSync(runtime(volume)));
  assert.deepEqual(await volumes(), before);
  assert.deepEqual(readdirSync(runtime()), []);
});

test('a record can name no volume but the one that the driver gives for its own name', async (t) => {
  const victim = await running.orchestrator.create('blockdelta-volume-1234', spec);
  const before = await volumes();
  const { volume } = await killedServer(t, 'forged');
  const path = runtime(volume, 'record.json');
  const record = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
  const own = record['volumeId'];
  for (const change of [{ volumeId: victim.id }, { namePrefix: 'blockdelta-volume-1234' }]) {
    mkdirSync(runtime('volume-0000000000000000'));
    const forged = JSON.stringify({ ...record, ...change });
    writeFileSync(runtime('volume-0000000000000000', 'record.json'), forged);
    await backUp(t);
    assert.ok((await volumes()).includes(victim.id), JSON.stringify(change));
  }
  assert.equal((await volumes()).includes(String(own)), false, 'what the killed command had left');
  assert.deepEqual(await volumes(), before);
  assert.deepEqual(readdirSync(runtime()), []);
});

test('a record of another driver stays for its own commands', async (t) => {
  const { volume } = await killedServer(t, 'of-another');
  const path = runtime(volume, 'record.json');
  const text = readFileSync(path, 'utf8');
  writeFileSync(path, text.replace(socketPath(), '/run/another.sock'));
  const held = await volumes();
  await backUp(t);
  assert.deepEqual(await volumes(), held);
  writeFileSync(path, text);
  assert.match((await backUp(t)).stderr, /removed volume \S+, which an interrupted command had left/);
  assert.equal((await volumes()).length, held.length - 1);
  assert.deepEqual(readdirSync(runtime()), []);
});
