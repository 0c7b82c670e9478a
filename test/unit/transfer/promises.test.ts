/** Holds the table of docs/engineering/transfers.md: each promise names a test that exists, in the words of its title. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkoutText } from '../../support/checkout-text.js';

const ROW = /^\| ([^|]+) \| `([^`]+\.test\.ts)`: (.+) \|$/gm;

test('each promise of a transfer has a test with that title', () => {
  const document = checkoutText('docs/engineering/transfers.md');
  const [, table = ''] = document.split('<!-- a test holds this table');
  const rows = [...table.matchAll(ROW)];
  const lines = table.split('\n').filter((line) => line.startsWith('| ')).length - 1;
  assert.equal(rows.length, lines, 'a row without a test');
  assert.ok(rows.length > 20);
  for (const [, promise, file = '', title = ''] of rows) {
    const text = checkoutText(`test/${file}`);
    assert.ok(text.includes(`'${title}'`) || text.includes(`\`${title}\``), `${promise}: ${file} has no '${title}'`);
  }
});
