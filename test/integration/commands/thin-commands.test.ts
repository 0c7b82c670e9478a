/** `thin-delta` and `thin-ls` as processes on metadata files, compared with the tools they replace. */
import assert from 'node:assert/strict';
import { copyFileSync, writeFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { runCommand, startCommand } from '../../support/command.js';
import { kernelMetadata, makeThinMetadata, skipWithoutThinTools, thinTool } from '../../support/thin-tools.js';
import { Workspace } from '../../support/workspace.js';

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

const KERNEL = 'metadata that a kernel wrote';
const LARGE_BLOCKS = '--mapped 5000 --changed 0.4 --new 0.3 --discard 0.3 --empty-device --data-block-sectors 1024';

// thin-oracle.test.ts compares many more lists, and unit/cli/formats.test.ts has the other formats.
for (const [options, isHeld, ...pairs] of [
  [LARGE_BLOCKS, false, '3 2', '1 4', '4 4'],
  [HELD, true, '1 3'],
  [KERNEL, true, '1 2', '4 1'],
] as const) {
  test(`the format xml prints what thin_delta prints: ${options}`, { skip: skipWithoutThinTools }, async (t) => {
    const fromKernel = options === KERNEL ? kernelMetadata(workspace.path('kernel')) : null;
    const metadata = await (fromKernel ?? metadataOf(options));
    for (const snap of isHeld ? [[], ['-m']] : [[]]) {
      for (const pair of pairs) {
        const [left = '', right = ''] = pair.split(' ');
        const words = [...snap, '--thin1', left, '--thin2', right, metadata];
        const ended = await runCommand(t, ['thin-delta', ...words]);
        assert.deepEqual([ended.code, ended.stderr], [0, '']);
        const expected = await thinTool('thin_delta', words);
        assert.ok(ended.stdout === expected, `${words.join(' ')}: not what thin_delta prints`);
      }
    }
  });
}

const rowsOf = (text: string, separator: string | RegExp): string[][] =>
  text
    .trim()
    .split('\n')
    .map((line) => line.trim().split(separator));

test('devices are listed as by thin_ls', { skip: skipWithoutThinTools }, async (t) => {
  const metadata = await metadataOf(HELD);
  const fields = 'DEV,MAPPED_BLOCKS,TRANSACTION,CREATE_TIME,SNAP_TIME';
  for (const snap of [[], ['-m']]) {
    const words = [...snap, '--no-headers', '-o', fields, metadata];
    const expected = rowsOf(await thinTool('thin_ls', words), / +/);
    const { code, stdout } = await runCommand(t, ['thin-ls', ...snap, '--format', 'csv', metadata]);
    assert.equal(code, 0);
    const [, ...found] = rowsOf(stdout, ',');
    const withoutBytes = found.map(([id, blocks, , ...rest]) => [id, blocks, ...rest]);
    assert.deepEqual(withoutBytes, expected);
    for (const [, blocks = '', bytes] of found) {
      assert.equal(bytes, String(BigInt(blocks) * DATA_BLOCK_BYTES));
    }
  }
});

// What else is refused, and with which message, is in unit/cli/thin-trees.test.ts.
test('metadata that cannot be read gives an exit code, and a message on stderr only', async (t) => {
  const damaged = workspace.path('damaged');
  copyFileSync(await metadataOf(SMALL), damaged);
  writeFileSync(damaged, Buffer.alloc(4096), { flag: 'r+' });
  for (const [words, code, message] of [
    [['thin-delta', '--base', '2', '--target', '3', damaged], 5, /block 0 .*thin_check/],
    [['thin-ls', damaged], 5, /block 0 .*thin_check/],
    [['thin-ls', workspace.path('missing')], 4, /there is no .*missing: name the metadata device/],
    [['thin-ls', '/etc/hostname'], 5, /smaller than a block of metadata/],
  ] as const) {
    const ended = await runCommand(t, words);
    assert.deepEqual([ended.code, ended.stdout], [code, ''], `${words.join(' ')}: ${ended.stderr}`);
    assert.match(ended.stderr, message);
  }
});

test('an unread stderr does not change the exit code', async (t) => {
  const words = ['thin-delta', '--thin1', '2', '--thin2', '9', await metadataOf(SMALL)];
  const { child, ended } = startCommand(t, words);
  child.stderr.destroy();
  assert.equal((await ended).code, 4);
});
