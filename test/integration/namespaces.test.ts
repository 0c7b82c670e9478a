/** A plugin in mount and process namespaces of its own. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { packagePath } from '../../src/base/package-root.js';
import { test } from '../support/running-plugin.js';

test('E12: the plugin works fully in its own mount and process namespaces', async () => {
  const script = packagePath('.test-build/test/support/namespaced-lifecycle.js');
  const args = ['-m', '-p', '-f', '--mount-proc', process.execPath, script];
  const child = spawn('unshare', args, {
    stdio: ['ignore', 'inherit', 'pipe'],
  });
  let told = '';
  child.stderr.on('data', (chunk: Buffer) => {
    told += chunk.toString();
  });
  const [code] = await once(child, 'close');
  assert.equal(code, 0, told);
});
