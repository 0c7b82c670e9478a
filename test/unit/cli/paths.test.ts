/** Every path that a command takes is absolute behind the command line, and no program gets another one. */
import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { Command } from 'commander';
import { addBackupCommand } from '../../../src/cli/backup/backup-command.js';
import { addBackupsCommand } from '../../../src/cli/backup/list-command.js';
import { addPruneCommand } from '../../../src/cli/backup/prune-command.js';
import { addRestoreCommand } from '../../../src/cli/backup/restore-command.js';
import { addVerifyCommand } from '../../../src/cli/backup/verify-command.js';
import { addBenchCommand } from '../../../src/cli/bench.js';
import { addCatalogueCommand } from '../../../src/cli/catalogue.js';
import { addConformanceCommand } from '../../../src/cli/conformance.js';
import { addDoctorCommand } from '../../../src/cli/inspection/doctor-command.js';
import { addGcCommand } from '../../../src/cli/inspection/gc-command.js';
import { addPoolsCommand } from '../../../src/cli/inspection/list-commands.js';
import { nodeSettings } from '../../../src/cli/inspection/node.js';
import { addMapCommand } from '../../../src/cli/map.js';
import { addNbdCommand } from '../../../src/cli/nbd.js';
import { addThinDeltaCommand } from '../../../src/cli/thin/delta-command.js';
import { addThinLsCommand } from '../../../src/cli/thin/ls-command.js';
import { run } from '../../../src/host/exec.js';
import { runProgram } from '../../../src/nbd/program.js';
import { rejectsWith } from '../../support/expect-status.js';

/** What help calls a value that is a path. */
const PATH = /<(?:file|directory|path|device|socket|target)/;
const PATH_ARGUMENTS = ['directory', 'metadata', 'before', 'after', 'report'];
/** Read where it is parsed. */
const READ_AT_ONCE = ['--secrets'];

function commands(): Command[] {
  const program = new Command();
  for (const add of [
    ...[addBackupCommand, addBackupsCommand, addPruneCommand, addRestoreCommand, addVerifyCommand],
    ...[addBenchCommand, addCatalogueCommand, addConformanceCommand, addDoctorCommand],
    ...[addGcCommand, addPoolsCommand, addMapCommand, addNbdCommand],
    ...[addThinDeltaCommand, addThinLsCommand],
  ]) {
    add(program);
  }
  return program.commands.flatMap((command) => [command, ...command.commands]);
}

test('the command line makes every path absolute', () => {
  let paths = 0;
  for (const command of commands()) {
    const options = command.options.filter(({ flags }) => PATH.test(flags));
    const taken = command.registeredArguments.filter((each) =>
      PATH_ARGUMENTS.includes(each.name()),
    );
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
  await rejectsWith(run('cat', args), 'INTERNAL', /^cat .*relative path 'file'/);
  const checked = runProgram('qemu-img', ['check', ...args], { purpose: 'check' });
  await rejectsWith(checked, 'INTERNAL', /^qemu-img .*relative path 'file'/);
  await rejectsWith(
    run('cat', [], { outlivesLocking: 'file' }),
    'INTERNAL',
    /relative path 'file'/,
  );
  const { stdout } = await run('echo', [{ prefix: 'file=', path: '/a b' }]);
  assert.equal(stdout, 'file=/a b\n');
});
