/** The options of the list commands match docs/command-line.md. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Command } from 'commander';
import { packagePath } from '../../../src/base/package-root.js';
import { addBenchCommand } from '../../../src/cli/bench.js';
import { addMapCommand } from '../../../src/cli/map.js';
import { addAllocatedCommand, addDeltaCommand } from '../../../src/cli/metadata/commands.js';
import { addNbdCommand } from '../../../src/cli/nbd.js';
import { addThinDeltaCommand } from '../../../src/cli/thin/delta-command.js';
import { addThinLsCommand } from '../../../src/cli/thin/ls-command.js';

const text = readFileSync(packagePath('docs/command-line.md'), 'utf8');

/** What stands below that heading, or above the first one. */
function section(title: string | null): string {
  const sections = text.split('\n## ');
  return (
    sections.find((each, index) =>
      title === null ? index === 0 : each.startsWith(`${title}\n`),
    ) ?? ''
  );
}

/** Option names in the first column of the table. */
function documented(text: string): Set<string> {
  const rows = [...text.matchAll(/^\| (.*?) \|.*$/gm)].map(([row]) => row);
  return new Set(rows.flatMap((row) => row.match(/(?<=`)--[a-z0-9-]+(?=`)/g) ?? []));
}

function optionsOf(...add: readonly ((program: Command) => void)[]): Set<string> {
  const program = new Command();
  for (const each of add) each(program);
  return new Set(program.commands.flatMap(({ options }) => options.map(({ long }) => long ?? '')));
}

const COMMANDS = [
  [section(null), addAllocatedCommand, addDeltaCommand],
  [section('thin-delta and thin-ls'), addThinDeltaCommand, addThinLsCommand],
  [section('bench'), addBenchCommand],
  [section('nbd'), addNbdCommand],
  [readFileSync(packagePath('docs/map.md'), 'utf8'), addMapCommand],
] as const;

test('the documents have every option of the commands, aliases included, and no other', () => {
  for (const [text, ...add] of COMMANDS) {
    assert.deepEqual([...documented(text)].sort(), [...optionsOf(...add)].sort());
  }
});
