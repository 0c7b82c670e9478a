/** Every path that a command takes is absolute behind the command line, and no program gets another one. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { Command } from 'commander';
import { run } from '../../../src/base/process/exec.js';
import { nodeSettings } from '../../../src/driver/inspection/node-view.js';
import { runProgram } from '../../../src/tools/nbd/program.js';
import { refused } from '../../support/refusal.js';

const CLI = new URL('../../../src/cli/', import.meta.url);
/** What help calls a value that is a path. */
const PATH = /<(?:file|directory|path|device|socket|target)/;
const PATH_ARGUMENTS = ['directory', 'metadata', 'before', 'after', 'report'];
/** Read where it is parsed. */
const READ_AT_ONCE = ['--secrets'];

/** Of all files of src/cli. */
async function commands(): Promise<Command[]> {
  const program = new Command();
  const files = readdirSync(CLI, { recursive: true, encoding: 'utf8' });
  for (const file of files.filter((name) => name.endsWith('.js'))) {
    const exported = Object.entries((await import(`${CLI.href}${file}`)) as Record<string, never>);
    for (const [name, add] of exported) {
      if (/^add\w+Command$/.test(name)) (add as (program: Command) => void)(program);
    }
  }
  return program.commands.flatMap((command) => [command, ...command.commands]);
}

test('the command line makes every path absolute', async () => {
  let paths = 0;
  for (const command of await commands()) {
    const options = command.options.filter(({ flags }) => PATH.test(flags));
    const taken = command.registeredArguments.filter((each) => PATH_ARGUMENTS.includes(each.name()));
    for (const each of [...options, ...taken]) {
      const what = `${command.name()} ${'flags' in each ? each.flags : each.name()}`;
      if (READ_AT_ONCE.some((flag) => what.includes(flag))) continue;
      assert.equal(each.parseArg?.('some/path', undefined), resolve('some/path'), what);
      assert.throws(() => each.parseArg?.('', undefined), /must be a path/, what);
      paths += 1;
    }
  }
  assert.ok(paths >= 20, `${paths} paths`);
});

test('a relative state directory of the environment is refused', () => {
  assert.throws(
    () => nodeSettings(undefined, { BLOCKDELTA_STATE_DIR: 'state' }),
    /BLOCKDELTA_STATE_DIR is 'state': it must be an absolute path/,
  );
});

test('no program is started with a relative path', async () => {
  const args = ['--', { path: 'file' }];
  await refused(run('cat', args), 'INTERNAL', /^cat .*relative path 'file'/);
  const checked = runProgram('qemu-img', ['check', ...args], { purpose: 'check' });
  await refused(checked, 'INTERNAL', /^qemu-img .*relative path 'file'/);
  await refused(run('cat', [], { outlivesLocking: 'file' }), 'INTERNAL', /relative path 'file'/);
  const { stdout } = await run('echo', [{ prefix: 'file=', path: '/a b' }]);
  assert.equal(stdout, 'file=/a b\n');
});
