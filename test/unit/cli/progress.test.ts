/** The line on a terminal that shows how far a command is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { ProgressLine, progressText } from '../../../src/cli/progress.js';
import { eventually } from '../../support/eventually.js';

function terminal(isTTY: boolean) {
  const written: string[] = [];
  const write = (text: string | Uint8Array): boolean => written.push(String(text)) > 0;
  return { written, stream: { isTTY, columns: 60, write } as never };
}

const state = () => ({ share: 0.5, text: '3 of 6 checks' });

test('nothing is written where stderr is no terminal, or the command ends before the line appears', async () => {
  for (const [isTTY, appearsAfterMs] of [
    [false, 0],
    [true, 60_000],
  ] as const) {
    const { written, stream } = terminal(isTTY);
    const line = new ProgressLine(state, { stream, appearsAfterMs });
    await delay(20);
    line.end();
    assert.deepEqual(written, []);
  }
});

test('the line appears, is erased before other output, and at the end', async () => {
  const { written, stream } = terminal(true);
  const line = new ProgressLine(state, { stream, appearsAfterMs: 0 });
  await eventually('the line appears', () => written.length > 0);
  assert.equal(written[0], `\r[${'#'.repeat(15)}${'.'.repeat(15)}]  50 % 3 of 6 checks\x1b[K`);
  line.clear();
  assert.equal(written.at(-1), '\r\x1b[K');
  line.end();
  const count = written.length;
  line.end();
  assert.equal(written.length, count);
});

test('the line never wraps, and its share stays within bounds', () => {
  assert.equal(progressText({ share: 7, text: 'x'.repeat(100) }, 50).length, 49);
  assert.match(progressText({ share: 7, text: '' }, 80), /100 %/);
  assert.match(progressText({ share: -1, text: '' }, 80), / 0 %/);
  assert.equal(progressText({ share: null, text: 'unknown' }, 80), 'unknown');
});
