/** What is found wrong with an output file before a long run, without a change, and how one is replaced. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { checkOutputs, replaceOutput, writeOutput } from '../../../src/cli/output-file.js';
import { temporaryDirectory } from '../../support/temporary.js';

test('an output that cannot be written is refused before as it is at the write', async () => {
  const directory = temporaryDirectory();
  const at = (name: string): string => join(directory, name);
  writeFileSync(at('file'), 'kept');
  mkdirSync(at('directory'));
  symlinkSync('nowhere', at('link'));
  for (const [path, found] of [
    ['/nowhere/x', 'there is no directory /nowhere for /nowhere/x'],
    [at('file/x'), `there is no directory ${at('file')} for ${at('file/x')}`],
    [at('directory'), 'it is a directory'],
    [at('link'), 'it is a link'],
  ] as const) {
    const message = `cannot write ${path} (${found}): name a file in a directory that exists and has room`;
    await assert.rejects(checkOutputs([path]), { message });
    await assert.rejects(writeOutput(path, 'text'), { message });
  }
  await checkOutputs([undefined, '-', at('file'), at('new')]);
  assert.deepEqual(readdirSync(directory).sort(), ['directory', 'file', 'link']);
  assert.equal(readFileSync(at('file'), 'utf8'), 'kept');
});

test('a replaced output has the new text for everybody, whatever a killed command has left beside it', async () => {
  const path = join(temporaryDirectory(), 'blockdelta.prom');
  writeFileSync(path, 'old', { mode: 0o600 });
  writeFileSync(`${path}.partial`, 'a part that is longer than the new text', { mode: 0o600 });
  await replaceOutput(path, 'new');
  assert.equal(readFileSync(path, 'utf8'), 'new');
  assert.equal(statSync(path).mode & 0o777, 0o644);
  assert.deepEqual(readdirSync(dirname(path)), ['blockdelta.prom']);
});
