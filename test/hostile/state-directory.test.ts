/**
 * A state directory or a pool that somebody else has prepared or can change: root's commands and the plugin write to no
 * file elsewhere, wait for nobody, and show no file that is not the plugin's.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, type TestContext } from 'node:test';
import { formatPoolId } from '../../src/driver/backends/reflink/pool-layout.js';
import { runCommand } from '../support/command.js';
import { openCatalogueHere } from '../support/direct-database.js';
import { test } from '../support/running-plugin.js';
import { Workspace } from '../support/workspace.js';

const NOBODY = 65_534;
const POOL_UUID = '00000000-0000-4000-8000-000000000000';
const SECRET = 'root:$6$secret';
let workspace: Workspace;
let above: string;
let state: string;
let pool: string;
let secret: string;

before(() => {
  workspace = new Workspace('state-directory');
  above = workspace.path('above');
  state = join(above, 'state');
  pool = workspace.path('pool');
  secret = workspace.path('secret');
  for (const path of [above, state, pool]) mkdirSync(path, { mode: 0o700 });
  for (const name of ['volumes', 'snapshots', 'initialized']) mkdirSync(join(pool, name));
  writeFileSync(secret, SECRET, { mode: 0o600 });
  const catalogue = openCatalogueHere(join(state, 'catalogue.sqlite'));
  catalogue.registerPool('pool', POOL_UUID);
  writeFileSync(join(pool, 'pool-id'), formatPoolId(POOL_UUID));
  writeFileSync(join(pool, 'pool-owner'), `${catalogue.uuid()}\n`);
  writeFileSync(join(state, 'unknown-objects.json'), JSON.stringify([{ pool: 'pool', id: 'x' }]));
  catalogue.close();
});
after(() => workspace.dispose());

const settings = () => ({
  CSI_ENDPOINT: `unix://${workspace.path('csi.sock')}`,
  BLOCKDELTA_STATE_DIR: state,
  BLOCKDELTA_POOLS: `pool=${pool}`,
  BLOCKDELTA_NODE_ID: 'test-node',
  BLOCKDELTA_MOUNT_PROPAGATION: 'off',
});

const run = (t: TestContext, ...args: string[]) => runCommand(t, args, settings());

const WRITERS = [['gc', '--apply'], ['catalogue', 'confirm'], ['serve']];
const READERS = [['volumes'], ['snapshots'], ['pools'], ['gc']];

/** What each command says that refuses. */
async function refused(t: TestContext, commands: string[][], found: RegExp): Promise<void> {
  for (const args of commands) {
    const { code, signal, stderr, stdout } = await run(t, ...args);
    const label = `${args.join(' ')}: ${stdout}${stderr}`;
    assert.deepEqual([code, signal], [1, null], label);
    assert.match(stderr, found, label);
    assert.ok(!`${stdout}${stderr}`.includes(SECRET), label);
  }
  assert.equal(readFileSync(secret, 'utf8'), SECRET);
}

test('H36: a state directory that others can write to, or one below such a directory, is neither read nor changed', async (t) => {
  const shares: readonly [found: RegExp, share: () => void][] = [
    [/user 65534 owns .*state, so they can exchange/, () => chownSync(state, NOBODY, NOBODY)],
    [/others can write to .*state, so they can exchange/, () => chmodSync(state, 0o770)],
    [/others can write to .*above, so they can exchange/, () => chmodSync(above, 0o777)],
  ];
  const files = readdirSync(state).sort();
  for (const [index, [found, share]] of shares.entries()) {
    share();
    await refused(t, index === 0 ? [...READERS, ...WRITERS] : [['volumes'], ...WRITERS], found);
    assert.deepEqual(readdirSync(state).sort(), files);
    chownSync(state, 0, 0);
    for (const path of [state, above]) chmodSync(path, 0o700);
  }
  chmodSync(above, 0o1777);
  const { code, stderr } = await run(t, 'volumes');
  assert.equal(code, 0, stderr);
  chmodSync(above, 0o700);
});

/** Puts something else in the place of a file while `work` runs. */
async function replaced(path: string, make: (path: string) => void, work: () => Promise<void>): Promise<void> {
  const was = existsSync(path);
  if (was) renameSync(path, workspace.path('aside'));
  make(path);
  const type = lstatSync(path).mode;
  await work();
  assert.equal(lstatSync(path).mode, type, `${path} stays`);
  rmSync(path);
  if (was) renameSync(workspace.path('aside'), path);
}

test('H36: no link in the state directory leads a command or the plugin to a file elsewhere', async (t) => {
  const links: readonly [string, string[][]][] = [
    ['catalogue.sqlite-lock', WRITERS],
    ['catalogue.sqlite-commits', [['volumes'], ['serve']]],
    ['catalogue.sqlite', [['volumes'], ['serve']]],
  ];
  for (const [name, commands] of links) {
    const lead = (path: string) => symlinkSync(secret, path);
    await replaced(join(state, name), lead, () =>
      refused(t, commands, /catalogue\.sqlite.* is not used: it is not a regular file/),
    );
  }
  const lock = join(state, 'catalogue.sqlite-lock');
  const linked = (path: string) => linkSync(secret, path);
  await replaced(lock, linked, () => refused(t, WRITERS, /-lock is not used: it has 2 links/));
  // Each confirmation makes this one anew.
  symlinkSync(secret, join(state, 'confirmed-objects.json.tmp'));
  assert.equal((await run(t, 'catalogue', 'confirm')).code, 0);
  assert.equal(readFileSync(secret, 'utf8'), SECRET);
  assert.match(readFileSync(join(state, 'confirmed-objects.json'), 'utf8'), /"x"/);
});

/** What must not be waited for, or read to its end. */
const ENDLESS: readonly ((path: string) => void)[] = [
  (path) => execFileSync('mkfifo', [path]),
  (path) => symlinkSync('/dev/zero', path),
  (path) => execFileSync('mknod', [path, 'c', '1', '5']),
];

test('H36: a pipe, a device or a link as the catalogue ends each command at once', async (t) => {
  for (const make of ENDLESS) {
    await replaced(join(state, 'catalogue.sqlite'), make, () =>
      refused(t, [['volumes'], ['gc'], ['serve']], /it is not a regular file/),
    );
  }
});

test("H36: a pipe, a device, a link or a foreign text in a pool's records is named, and not shown", async (t) => {
  const odd: [RegExp, (path: string) => void][] = [
    ...ENDLESS.map((make): [RegExp, typeof make] => [/is not a regular file/, make]),
    [/is not a regular file/, (path) => symlinkSync(secret, path)],
    [/it has 5000 bytes/, (path) => writeFileSync(path, SECRET.padEnd(5000))],
    [/does not begin with a uuid/, (path) => linkSync(secret, path)],
    [
      /belongs to user 65534/,
      (path) => {
        writeFileSync(path, `${POOL_UUID}\n`);
        chownSync(path, NOBODY, NOBODY);
      },
    ],
  ];
  for (const name of ['pool-owner', 'pool-id']) {
    for (const [found, make] of odd) {
      await replaced(join(pool, name), make, async () => {
        const { stdout, stderr } = await run(t, 'pools', '--json');
        const [{ problem }] = JSON.parse(stdout || '[{}]') as [{ problem: string }];
        assert.match(problem, new RegExp(`${name}.*${found.source}`), stderr);
        assert.ok(!stdout.includes(SECRET), stdout);
      });
    }
  }
  const owner = join(pool, 'pool-owner');
  await replaced(
    owner,
    (path) => execFileSync('mkfifo', [path]),
    () => refused(t, [['serve']], /pool-owner is not used: it is not a regular file/),
  );
});
