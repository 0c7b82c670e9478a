/** `thin-delta` and `thin-ls` as processes on metadata files, compared with the tools they replace. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, copyFileSync, openSync, writeSync } from 'node:fs';
import { after, type TestContext, test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { endOf, runCommand, startCommand } from '../support/command.js';
import { makeThinMetadata, skipWithoutThinTools, thinTool } from '../support/thin-tools.js';
import { Workspace } from '../support/workspace.js';

const BLOCK_BYTES = 4096;
const DATA_BLOCK_BYTES = 65536n;

const workspace = new Workspace('thin-commands');
after(() => workspace.dispose());

/** Created once for each set of options. */
const made = new Map<string, Promise<string>>();
function metadataOf(options: string): Promise<string> {
  const known = made.get(options);
  if (known !== undefined) return known;
  const path = workspace.path(`metadata-${made.size}`);
  const making = makeThinMetadata(path, options.split(' ')).then(() => path);
  made.set(options, making);
  return making;
}

const SMALL = '--mapped 5000 --changed 0.1 --new 0.2 --discard 0.2';
const HELD = '--mapped 5000 --changed 0.1 --metadata-snap --after 500';

type Pair = readonly [left: number, right: number];

// thin-oracle.test.ts compares many more lists, and unit/cli/thin-formats.test.ts has the other formats.
const SCENARIOS: readonly [title: string, options: string, pairs: readonly Pair[]][] = [
  [
    'new blocks, discards, holes and a device without mappings',
    '--mapped 30000 --changed 0.4 --new 0.3 --discard 0.3 --density 0.6 --empty-device',
    [
      [2, 3],
      [3, 2],
      [1, 4],
      [4, 4],
    ],
  ],
  [
    'data blocks of another size',
    '--mapped 5000 --changed 0.1 --data-block-sectors 1024',
    [[2, 3]],
  ],
  ['a metadata snapshot that is held', HELD, [[1, 3]]],
];

/** Runs both commands with the same arguments; also with `-m` if a metadata snapshot is held. */
async function assertSameXml(
  t: TestContext,
  metadata: string,
  pairs: readonly Pair[],
  isHeld: boolean,
): Promise<void> {
  for (const snap of isHeld ? [[], ['-m']] : [[]]) {
    for (const [left, right] of pairs) {
      const words = [...snap, '--thin1', String(left), '--thin2', String(right), metadata];
      const ended = await runCommand(t, ['thin-delta', ...words]);
      assert.deepEqual([ended.code, ended.stderr], [0, '']);
      const expected = await thinTool('thin_delta', words);
      assert.ok(ended.stdout === expected, `${words.join(' ')}: another output than thin_delta's`);
    }
  }
}

for (const [title, options, pairs] of SCENARIOS) {
  test(`xml is what thin_delta prints: ${title}`, { skip: skipWithoutThinTools }, async (t) => {
    const metadata = await metadataOf(options);
    await assertSameXml(t, metadata, pairs, options.includes('--metadata-snap'));
  });
}

test('xml is what thin_delta prints: metadata that a kernel wrote', {
  skip: skipWithoutThinTools,
}, async (t) => {
  const packed = packagePath('test/fixtures/thin-metadata-kernel-6.1.bin.zst');
  const metadata = workspace.path('kernel');
  execFileSync('zstd', ['-q', '-d', '--sparse', packed, '-o', metadata]);
  await assertSameXml(
    t,
    metadata,
    [
      [1, 2],
      [4, 1],
    ],
    true,
  );
});

test('devices are listed as by thin_ls', { skip: skipWithoutThinTools }, async (t) => {
  const metadata = await metadataOf(HELD);
  const fields = 'DEV,MAPPED_BLOCKS,TRANSACTION,CREATE_TIME,SNAP_TIME';
  for (const snap of [[], ['-m']]) {
    const words = [...snap, '--no-headers', '-o', fields, metadata];
    const expected = (await thinTool('thin_ls', words))
      .trim()
      .split('\n')
      .map((line) => line.trim().split(/ +/));
    const { code, stdout } = await runCommand(t, ['thin-ls', ...snap, '--format', 'csv', metadata]);
    assert.equal(code, 0);
    const found = stdout
      .trimEnd()
      .split('\n')
      .slice(1)
      .map((line) => line.split(','));
    assert.deepEqual(
      found.map(([id, blocks, , ...rest]) => [id, blocks, ...rest]),
      expected,
    );
    for (const [, blocks = '', bytes] of found) {
      assert.equal(bytes, String(BigInt(blocks) * DATA_BLOCK_BYTES));
    }
  }
});

/** A copy with one block replaced. */
function copyWithBlock(metadata: string, block: number, content: Buffer): string {
  const copy = workspace.path('damaged');
  copyFileSync(metadata, copy);
  const file = openSync(copy, 'r+');
  writeSync(file, content, 0, BLOCK_BYTES, block * BLOCK_BYTES);
  closeSync(file);
  return copy;
}

test('metadata that cannot be listed: an exit code, with a message on stderr only', async (t) => {
  const small = await metadataOf(SMALL);
  const damaged = copyWithBlock(small, 0, Buffer.alloc(BLOCK_BYTES));
  const delta = (base: string, ...rest: string[]) => [
    'thin-delta',
    '--base',
    base,
    '--target',
    '3',
    ...rest,
  ];
  const cases: readonly [words: string[], code: number, message: RegExp][] = [
    [delta('9', small), 4, /there is no thin device 9 in .*thin-ls/],
    [
      delta('2', '-m', '--metadata', small),
      5,
      /no metadata snapshot is held.*reserve_metadata_snap/,
    ],
    [delta('2', '-m', '17', await metadataOf(HELD)), 5, /held in .* is at block \d+, not 17/],
    [delta('2', damaged), 5, /block 0 .*thin_check/],
    [['thin-ls', damaged], 5, /block 0 .*thin_check/],
    [['thin-ls', workspace.path('missing')], 1, /missing/],
  ];
  for (const [words, code, message] of cases) {
    const ended = await runCommand(t, words);
    assert.deepEqual([ended.code, ended.stdout], [code, ''], `${words.join(' ')}: ${ended.stderr}`);
    assert.match(ended.stderr, message);
  }
});

const MISUSES: readonly (readonly string[])[] = [
  ['thin-ls', 'a', '--metadata', 'b'],
  ['thin-ls', 'a', '--format', 'xml'],
  ['thin-delta', '--base', '1', '--target', '2'],
  ['thin-delta', 'a', '--base', '1'],
  ['thin-delta', 'a', '--base', '1', '--thin1', '1', '--target', '2'],
  ['thin-delta', 'a', '--base', '16777216', '--target', '2'],
  ['thin-delta', 'a', '--base', '0x1', '--target', '2'],
  ['thin-delta', 'a', '--base', '1', '--target', '2', '--format', 'xml', '--summary'],
];

test('wrong usage: exit code 2, with a message on stderr and nothing on stdout', async (t) => {
  for (const words of MISUSES) {
    const ended = await runCommand(t, words);
    assert.deepEqual([ended.code, ended.stdout], [2, ''], `${words.join(' ')}: ${ended.stderr}`);
    assert.notEqual(ended.stderr, '');
  }
});

test('help lists every exit code and how to reserve a metadata snapshot', async (t) => {
  for (const command of ['thin-ls', 'thin-delta']) {
    const { code, stdout } = await runCommand(t, [command, '--help']);
    assert.equal(code, 0);
    for (const exit of [0, 1, 2, 4, 5, 130])
      assert.match(stdout, new RegExp(`^ +${exit} +\\w`, 'm'));
    assert.match(stdout, /reserve_metadata_snap/);
  }
});

/** A delta from device 2 to the target with more ranges than a pipe holds. */
async function startLargeDelta(t: TestContext, target: string) {
  const metadata = await metadataOf('--mapped 200000 --changed 0.5');
  return startCommand(t, ['thin-delta', '--thin1', '2', '--thin2', target, metadata]);
}

test('an unread stderr changes neither the list nor the exit code', async (t) => {
  const { child, output } = await startLargeDelta(t, '9');
  child.stderr.destroy();
  assert.equal((await endOf(child, output)).code, 4);
});

test('a closed pipe is not an error', async (t) => {
  const { child, output } = await startLargeDelta(t, '3');
  child.stdout.once('data', () => child.stdout.destroy());
  const { code, signal, stderr } = await endOf(child, output);
  assert.deepEqual([code, signal, stderr], [0, null, '']);
});
