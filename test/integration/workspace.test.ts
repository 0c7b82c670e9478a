/** The tests' own clean-up, where a test file does not reach its end. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { loopsBelow, mountsBelow, skipUnlessRoot } from '../support/workspace.js';

const PROGRAM = packagePath('.test-build/test/support/waiting-workspace.js');

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  test(`a test file that ${signal} ends leaves no mount, device, process or file`, {
    skip: skipUnlessRoot,
  }, async () => {
    const child = spawn(process.execPath, [PROGRAM], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [printed] = (await once(child.stdout, 'data')) as [Buffer];
    const directory = printed.toString().trim();
    assert.notDeepEqual([mountsBelow(directory), loopsBelow(directory)], [[], []]);
    child.kill(signal);
    await once(child, 'exit');
    assert.deepEqual([mountsBelow(directory), loopsBelow(directory)], [[], []]);
    // A process that had its directory there would keep the mount.
    assert.equal(existsSync(directory), false);
  });
}
