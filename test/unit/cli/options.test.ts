/** What every command says of its options, and the options that mean one thing in all of them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Command } from 'commander';
import { loadProgram } from '../../../src/cli/program.js';
import { runCommand } from '../../support/command.js';

async function everyCommand(): Promise<Command[]> {
  const { commands } = await loadProgram(null);
  return commands.flatMap((command) => [command, ...command.commands]);
}

test('help shows no default that is empty', async () => {
  for (const command of await everyCommand()) {
    assert.doesNotMatch(command.helpInformation(), /\(default: (""|\[\]|\{\}|false)\)/, command.name());
  }
});

test('--json is a flag in every command that has it, and a report goes to a file by --report', async () => {
  const options = (await everyCommand()).flatMap((command) => command.options);
  const found = options.filter(({ long }) => long === '--json');
  assert.ok(found.length > 15);
  for (const { flags } of found) assert.equal(flags, '--json');
  assert.equal(options.filter(({ flags }) => flags === '--report <file>').length, 2);
});

test('serve says where it takes its endpoint from when it is given as an option', async (t) => {
  const { code, stderr } = await runCommand(t, ['serve', '--endpoint', 'unix:///run/x.sock'], {});
  assert.equal(code, 2);
  assert.match(stderr, /takes its settings from the environment: set CSI_ENDPOINT=unix:\/\/\/run\/x\.sock/);
});
