/** The checks of a thin pool whose threads all wait for a dead disk. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ThinBackend } from '../../../../src/backends/thin/thin-backend.js';
import type { NativeRunner } from '../../../../src/native/pool.js';
import { rejectsWith } from '../../../support/expect-status.js';

test('the check of the node ends although no thread answers, and asks once', async () => {
  const asked: string[] = [];
  const run = (task: string) => {
    asked.push(task);
    return new Promise(() => undefined);
  };
  const options = { pool: 'p', directory: '/nowhere', devices: null, embeddedPoolBytes: null };
  const backend = new ThinBackend({ run } as unknown as NativeRunner, options as never);
  const refused = () =>
    rejectsWith(backend.checkNode(), 'FAILED_PRECONDITION', /pool 'p' does not answer/);
  await Promise.all([refused(), refused()]);
  assert.deepEqual(asked, ['dmVersion']);
});
