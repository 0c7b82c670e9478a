/** The man pages as groff sets them: every command, argument and option of --help, and no warning. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import type { Command } from 'commander';
import { packagePath } from '../../../src/base/package-root.js';
import { loadProgram } from '../../../src/cli/program.js';
import { checkoutText } from '../../support/checkout-text.js';
import { temporaryDirectory } from '../../support/temporary.js';

const hasGroff = spawnSync('groff', ['--version']).status === 0;
const directory = temporaryDirectory();

before(() => {
  execFileSync(process.execPath, [packagePath('scripts/package/man.mjs'), directory]);
});

test('package.json lists every page, so that npm puts it in place', () => {
  const { man } = JSON.parse(checkoutText('package.json')) as {
    man: string[];
  };
  assert.deepEqual(
    man,
    readdirSync(directory)
      .sort()
      .map((name) => `man/${name}`),
  );
});

const skip = hasGroff ? false : 'groff is not installed: install the package groff-base';

test('each command has a page with all that --help says', { skip }, async () => {
  const program = await loadProgram(null);
  const pages = [...everyCommand(program, ['blockdelta'])];
  assert.equal(pages.length, readdirSync(directory).length);
  for (const { name, command } of pages) {
    const text = rendered(`${name}.1`);
    assert.ok(text.includes(words(command.description())), name);
    for (const argument of command.registeredArguments) {
      assert.ok(text.includes(` ${argument.name()} ${words(argument.description)}`), name);
    }
    for (const option of command.options.filter(({ hidden }) => !hidden)) {
      assert.ok(text.includes(` ${option.flags} ${words(option.description)}`), option.flags);
    }
    for (const each of command.commands) assert.ok(text.includes(` ${name}-${each.name()}(1) `));
    const below = belowOptions(command);
    const missing = below
      .replaceAll(/^[A-Z][a-z ]+:$/gm, '')
      .split(/\s+/)
      .filter((word) => !text.includes(word));
    assert.deepEqual(missing, [], name);
  }
});

function* everyCommand(command: Command, path: string[]): Generator<{ name: string; command: Command }> {
  yield { name: path.join('-'), command };
  for (const each of command.commands) yield* everyCommand(each, [...path, each.name()]);
}

/** What a command prints below its own help: exit codes, settings, hints. */
function belowOptions(command: Command): string {
  let all = '';
  command.configureOutput({
    writeOut: (text) => {
      all += text;
    },
  });
  command.outputHelp();
  return all.slice(command.helpInformation().length);
}

/** The words of a page on lines that break nowhere. */
function rendered(page: string): string {
  const options = ['-man', '-ww', '-Tutf8', '-P-bcou', '-rLL=2000n', '-rHY=0'];
  const { stdout, stderr } = spawnSync('groff', [...options, join(directory, page)], { encoding: 'utf8' });
  assert.equal(stderr, '', page);
  return words(stdout);
}

const words = (text: string): string => text.replaceAll(/\s+/g, ' ');
