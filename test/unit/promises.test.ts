/** Holds the tables of promises in the documentation: each promise names a test that exists, in the words of its title. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkoutText } from '../support/checkout-text.js';

const ROW = /^\| ([^|]+) \| `([^`]+\.test\.ts)`: (.+) \|$/gm;

for (const page of ['docs/engineering/transfers.md', 'docs/engineering/backups.md']) {
  test(`each promise of ${page} has a test with that title`, () => {
    const [, table = ''] = checkoutText(page).split('<!-- a test holds this table');
    const rows = [...table.matchAll(ROW)];
    const lines = table.split('\n').filter((line) => line.startsWith('| ')).length - 1;
    assert.equal(rows.length, lines, 'a row without a test');
    assert.ok(rows.length > 20);
    for (const [, promise, file = '', title = ''] of rows) {
      const text = checkoutText(`test/${file}`);
      assert.ok(text.includes(`'${title}'`) || text.includes(`\`${title}\``), `${promise}: ${file} has no '${title}'`);
    }
  });
}
