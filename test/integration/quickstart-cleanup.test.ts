/** The quickstart's clean-up beside a mount that stayed. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { skipUnlessRoot, Workspace } from '../support/workspace.js';

interface CleanUp {
  removePlace(place: string): Promise<void>;
  removalCommand(place: string): string;
}

test('the directory is removed only when nothing is mounted below it', {
  skip: skipUnlessRoot,
}, async (t) => {
  const workspace = new Workspace('quickstart');
  t.after(() => workspace.dispose());
  const module: string = packagePath('scripts/quickstart-job/clean-up.mjs');
  const { removePlace, removalCommand } = (await import(module)) as CleanUp;
  const place = workspace.path('place');
  const mounted = workspace.path('place', 'state', 'mount');
  mkdirSync(mounted, { recursive: true });
  execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', mounted]);
  writeFileSync(`${mounted}/volume`, 'data');
  await assert.rejects(removePlace(place), /state\/mount is still mounted; nothing was removed/);
  const said = execFileSync('sh', ['-c', removalCommand(place)], { encoding: 'utf8' });
  assert.equal(said, 'still mounted: nothing removed\n');
  assert.ok(existsSync(`${mounted}/volume`));
  execFileSync('umount', [mounted]);
  await removePlace(place);
  assert.ok(!existsSync(place));
});
