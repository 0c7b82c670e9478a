/** The command `map` as a process, with a scripted server. */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify, stripVTControlCharacters } from 'node:util';
import { CsiError, StatusCode } from '../../../src/base/errors.js';
import { runCommand } from '../../support/command.js';
import { PROGRAM } from '../../support/program.js';
import { type FakeStream, frame, startMetadata } from '../../support/server-fixture.js';
import { temporaryDirectory } from '../../support/temporary.js';

const MIB = 2 ** 20;
const CAPACITY = BigInt(64 * MIB);
const UTF8 = { LANG: 'C.UTF-8' };

const sendRows: FakeStream = async (_request, _context, writer) => {
  await writer.send(frame(CAPACITY, [[0, MIB]]));
  await writer.send(frame(CAPACITY, [[63 * MIB, MIB]]));
};

test('map draws the data of a snapshot, or what changed since a base, with totals and a legend', async (t) => {
  const { endpoint, seen } = await startMetadata(t, sendRows);
  const { stdout } = await runCommand(t, ['map', 'snap-1', '--endpoint', endpoint], UTF8);
  const lines = stdout.split('\n');
  assert.deepEqual(lines.slice(0, 5), [
    'Data of snapshot snap-1',
    'volume         67108864 (64 MiB)',
    'data           2097152 (2 MiB), 3.13 % of the volume, in 2 ranges',
    'smallest cell  4 KiB',
    '',
  ]);
  assert.match(lines[5] ?? '', /^ {7}0 B █+·+$/);
  assert.match(stdout, /█\n\none cell is 128 KiB {3}· none/);
  const ended = await runCommand(t, ['map', 'new', '--base', 'old'], { CSI_ENDPOINT: endpoint });
  assert.equal(ended.code, 0, ended.stderr);
  assert.match(ended.stdout, /^Changes from old to new\n[\s\S]*\nchanged +2097152 /);
  assert.match(ended.stdout, /^[\n -~]*$/, 'ASCII, because no locale says UTF-8');
  const [all, changed] = seen;
  assert.equal(all?.['snapshot_id'], 'snap-1');
  assert.equal(changed?.['base_snapshot_id'], 'old');
  assert.equal(changed?.['target_snapshot_id'], 'new');
});

test('map --json has the totals and the bytes of each cell, as strings', async (t) => {
  const { endpoint } = await startMetadata(t, sendRows);
  const ended = await runCommand(t, ['map', 's', '--json', '--endpoint', endpoint]);
  assert.equal(ended.code, 0, ended.stderr);
  const { cells, ...rest } = JSON.parse(ended.stdout) as { cells: string[] };
  assert.deepEqual(rest, {
    snapshot_id: 's',
    base_snapshot_id: null,
    volume_capacity_bytes: '67108864',
    grain_bytes: null,
    ranges: 2,
    size_bytes: '2097152',
    cell_bytes: '16384',
  });
  assert.equal(cells.length, 4096);
  assert.deepEqual([cells[0], cells[63], cells[64], cells[4095]], ['16384', '16384', '0', '16384']);
});

test('map --grain draws the chunks that a tool would read, and says what they cost', async (t) => {
  const { endpoint } = await startMetadata(t, async (_request, _context, writer) => {
    await writer.send(frame(CAPACITY, [[0, 4096]]));
    await writer.send(frame(CAPACITY, [[5 * MIB + 4096, 4096]]));
  });
  const args = ['map', 's', '--endpoint', endpoint, '--grain', '1Mi'];
  const { stdout, stderr } = await runCommand(t, args, UTF8);
  assert.equal(stderr, '');
  assert.match(stdout, /^data +2097152 \(2 MiB\), 3.13 % of the volume, in 2 ranges$/m);
  assert.match(stdout, /^grain +1 MiB, 256 times as many bytes as without it$/m);
  assert.match(stdout, /^without grain +8192 \(8 KiB\) in 2 ranges$/m);
  assert.match(stdout, /^ +0 B █{8}·{32}█{8}·+$/m);
  const ended = await runCommand(t, [...args.slice(0, -1), '1000']);
  assert.equal(ended.code, 2);
  assert.match(ended.stderr, /multiple of 512/);
});

test('map --html writes one page and prints the totals, or says at once which file it cannot write', async (t) => {
  const { endpoint, seen } = await startMetadata(t, sendRows);
  const directory = temporaryDirectory();
  const write = (file: string) => runCommand(t, ['map', 's', '--html', file, '--endpoint', endpoint]);
  const { stdout } = await write(join(directory, 'map.html'));
  assert.match(stdout, /^Data of snapshot s\n([^\n]+\n){3}$/);
  const page = readFileSync(join(directory, 'map.html'), 'utf8');
  assert.match(page, /^<!doctype html>[\s\S]*<\/html>\n$/);
  assert.deepEqual(readdirSync(directory), ['map.html']);
  const { code, stderr } = await write('/nowhere/map.html');
  assert.equal(code, 1);
  assert.equal(seen.length, 1);
  assert.match(stderr, /^blockdelta: cannot write \/nowhere\/map\.html \(there is no directory \/nowhere .*\): name/);
});

test('a list that is refused gives no picture and the exit code of delta', async (t) => {
  const { endpoint } = await startMetadata(t, async () => {
    throw new CsiError(StatusCode.FAILED_PRECONDITION, 'the base is too old');
  });
  const directory = temporaryDirectory();
  const html = ['--html', join(directory, 'map.html')];
  const args = ['map', 's', '--base', 'b', '--endpoint', endpoint, ...html];
  const ended = await runCommand(t, args);
  assert.equal(ended.code, 5);
  assert.equal(ended.stdout, '');
  assert.match(ended.stderr, /the base is too old/);
  assert.deepEqual(readdirSync(directory), []);
});

const hasScript = spawnSync('script', ['--version']).status === 0;

/** On a terminal of 100 columns and 30 lines, of the program `script`; without the progress on stderr. */
async function onTerminal(endpoint: string, env: Record<string, string>): Promise<string> {
  const command = `stty cols 100 rows 30; exec "${process.execPath}" "${PROGRAM}" map s --endpoint "${endpoint}" 2>/dev/null`;
  const args = ['-qec', command, '/dev/null'];
  const given = { PATH: process.env['PATH'] ?? '', TERM: 'xterm-256color', ...UTF8, ...env };
  const { stdout } = await promisify(execFile)('script', args, { env: given });
  return stdout.replaceAll('\r\n', '\n');
}

test('the picture on a terminal is coloured and as wide as the window; NO_COLOR switches colours off', {
  skip: hasScript ? false : 'script is not installed: install the package bsdutils',
}, async (t) => {
  const { endpoint } = await startMetadata(t, sendRows);
  const coloured = await onTerminal(endpoint, {});
  const plain = await onTerminal(endpoint, { NO_COLOR: '1' });
  assert.ok(coloured.includes('\x1b[38;5;196m█'), coloured);
  assert.equal(stripVTControlCharacters(plain), plain);
  assert.equal(stripVTControlCharacters(coloured), plain);
  const [, grid = ''] = plain.split('\n\n');
  assert.equal(Math.max(...grid.split('\n').map((line) => line.length)), 11 + 88);
  assert.equal(stripVTControlCharacters(await onTerminal(endpoint, { TERM: 'dumb' })), plain);
});
