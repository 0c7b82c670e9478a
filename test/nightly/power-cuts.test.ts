/**
 * Power cuts of reflink pools. A guest lives a history on disks whose writes its kernel logs (test/power/record.ts);
 * this machine takes the disks to the moments at which a power cut could have come, and starts the plugin on
 * each (test/power/replay.ts). Thin pools have theirs in the guest.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import type { Figures } from '../power/power-cut.js';
import { skipUnlessRoot, Workspace } from '../support/workspace.js';

const FILE_SYSTEMS = [
  { name: 'xfs', mkfs: ['mkfs.xfs', '-q', '-m', 'reflink=1'], mountOptions: 'nouuid' },
  { name: 'btrfs', mkfs: ['mkfs.btrfs', '-q', '-m', 'single'], mountOptions: 'defaults' },
] as const;

const HISTORIES = [
  { length: 'short', what: 'at any flush of a short history', cuts: Number.MAX_SAFE_INTEGER },
  { length: '150', what: 'at 300 moments of a long history', cuts: 300 },
];

/** Why there is no guest; null: there is one. */
let reason: string | null = null;
before(() => {
  if (skipUnlessRoot !== false) return;
  const said = run(packagePath('scripts/test-guest'), '--prepare');
  reason = /^no guest tests: (.*)$/m.exec(said)?.[1] ?? null;
});

for (const { length, what, cuts } of HISTORIES) {
  let workspace: Workspace | undefined;
  after(() => workspace?.dispose());

  test(`a power cut ${what} loses and leaves nothing`, { skip: skipUnlessRoot }, async (t) => {
    if (reason !== null) {
      t.skip(reason);
      return;
    }
    workspace = new Workspace('power');
    record(workspace, length);
    for (const { name, mountOptions } of FILE_SYSTEMS) {
      await t.test(name, (each) => {
        assert.ok(workspace !== undefined);
        const figures = replay(workspace, { name, mountOptions, cuts });
        each.diagnostic(JSON.stringify(figures));
        assert.ok(figures.cuts > 100 && figures.fromDeleted > 0, 'nothing was tried');
      });
    }
  });
}

/** NAME.img, NAME.log and NAME.json of each file system, in the workspace. */
function record(workspace: Workspace, length: string): void {
  const options: string[] = [];
  const disks: string[] = [];
  for (const [index, { name, mkfs }] of FILE_SYSTEMS.entries()) {
    const [image, log] = [workspace.path(`${name}.img`), workspace.path(`${name}.log`)];
    const written = workspace.path(`${name}.written`);
    run('truncate', '--size', '512M', image);
    run(...mkfs, image);
    run('cp', '--sparse=always', image, written);
    run('truncate', '--size', '8G', log);
    options.push('--disk', written, '--disk', log);
    const letters = ['ab', 'cd'][index] ?? '';
    disks.push(`${name}=${[...letters].map((letter) => `/dev/vd${letter}`).join()}`);
  }
  const { directory } = workspace;
  const guest = ['--smp', '1', ...options, '--rw', directory, '--'];
  const program = [process.execPath, packagePath('.test-build/test/power/record.js')];
  const words = [...guest, ...program, length, directory, ...disks];
  execFileSync(packagePath('scripts/run-in-guest'), words, { stdio: ['ignore', 'inherit', 'inherit'] });
}

function replay(
  { directory }: Workspace,
  { name, mountOptions, cuts }: { name: string; mountOptions: string; cuts: number },
): Figures {
  const found = run(
    'unshare',
    '--mount',
    '--propagation',
    'private',
    process.execPath,
    packagePath('.test-build/test/power/replay.js'),
    directory,
    name,
    mountOptions,
    `${cuts}`,
  );
  return JSON.parse(found) as Figures;
}

function run(...words: string[]): string {
  const [program = '', ...args] = words;
  return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
}
