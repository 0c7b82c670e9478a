/** What is found wrong with an output file before a long run, and that looking changes nothing. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { checkOutputs, writeOutput } from '../../../src/cli/output-file.js';
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
