/** What the test suite removes after a run that was interrupted (scripts/left-behind.mjs). */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { loopsBelow, mountsBelow, skipUnlessRoot, Workspace } from '../support/workspace.js';

interface LeftBehind {
  leftUnder(directory: string): string[];
  removeUnder(directory: string): void;
}

test('a volume that is mounted from a mounted pool, and held by a process, is removed whole', {
  skip: skipUnlessRoot,
}, async (t) => {
  const workspace = new Workspace('left-behind');
  t.after(() => workspace.dispose());
  const module: string = packagePath('scripts/left-behind.mjs');
  const { leftUnder, removeUnder } = (await import(module)) as LeftBehind;
  const place = workspace.path('place');
  const [image, pool, staging] = [`${place}/pool.img`, `${place}/pool`, `${place}/staging`];
  for (const directory of [pool, staging]) mkdirSync(directory, { recursive: true });
  makeImage(image, 400);
  execFileSync('mkfs.xfs', ['-q', image]);
  execFileSync('mount', ['-o', 'loop', image, pool]);
  makeImage(`${pool}/volume`, 64);
  const found = execFileSync('losetup', ['--find', '--show', `${pool}/volume`], {
    encoding: 'utf8',
  });
  const device = found.trim();
  execFileSync('mkfs.ext4', ['-q', device]);
  execFileSync('mount', [device, staging]);
  const holder = spawn('sleep', ['1000'], { cwd: staging, env: { ...process.env, PLACE: place } });
  const ended = once(holder, 'exit');
  assert.equal(leftUnder(place).length, 5);

  removeUnder(place);
  await ended;
  assert.deepEqual(leftUnder(place), []);
  assert.deepEqual([mountsBelow(place), loopsBelow(place)], [[], []]);
  assert.ok(!existsSync(place));
  // Once its pool is unmounted, the path of a volume that is still attached begins at the pool's root.
  const options = ['--list', '--noheadings', '--output', 'NAME,BACK-FILE'];
  const devices = execFileSync('losetup', options, { encoding: 'utf8' }).split('\n');
  assert.ok(!devices.some((line) => line.startsWith(`${device} `) && line.includes(' /volume')));
});

function makeImage(path: string, mebibytes: number): void {
  writeFileSync(path, '');
  truncateSync(path, mebibytes << 20);
}
