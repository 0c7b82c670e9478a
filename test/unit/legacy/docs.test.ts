/** docs/engineering/legacy.md: a row for every RPC of the old versions, and tests that exist and call it. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { packagePath } from '../../../src/base/package-root.js';
import { checkoutText } from '../../support/checkout-text.js';
import type { Description } from '../csi/proto-description.js';

const text = checkoutText('docs/engineering/legacy.md');

for (const version of ['0.3', '0.1']) {
  test(`the table of CSI ${version} has rows for every RPC, in the order of the descriptor, with tests that call it`, () => {
    const [, section = ''] = text.split(`\n## CSI ${version}\n`);
    const [table = ''] = section.split('\n## ');
    const rows = [...table.matchAll(/^\| ([A-Z]\w*[a-z]\w*) \| [^|]+ \| [^|]+ \| ([^|]+) \|$/gm)];
    const path = packagePath(`test/fixtures/csi-descriptor-${version}.json`);
    const { services } = JSON.parse(readFileSync(path, 'utf8')) as Description;
    const rpcs = Object.values(services).flatMap((service) => Object.keys(service.rpcs));
    assert.deepEqual([...new Set(rows.map(([, rpc]) => rpc))], rpcs);
    for (const [, rpc, tests = ''] of rows) {
      const files = [...tests.matchAll(/`([^`]+)`/g)];
      assert.ok(files.length > 0, rpc);
      for (const [, file] of files) {
        const source = checkoutText(`test/${file}`);
        assert.match(source, new RegExp(`\\b${rpc}\\b`), `${rpc}: ${file}`);
      }
    }
  });
}

test('every test file that the page names exists', () => {
  const files = [...text.matchAll(/`(\w+\/[^`]+\.test\.ts)`/g)];
  assert.ok(files.length > 30);
  for (const [, file] of files) assert.ok(existsSync(packagePath(`test/${file}`)), file);
});
