/** docs/legacy.md: a row for every RPC of the old versions, and tests that exist and call it. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { packagePath } from '../../../src/base/package-root.js';
import type { Description } from '../csi/proto-description.js';

const text = readFileSync(packagePath('docs/legacy.md'), 'utf8');

interface Row {
  rpc: string;
  tests: string[];
}

function rowsOf(version: string): Row[] {
  const [, section = ''] = text.split(`\n## CSI ${version}\n`);
  const [table = ''] = section.split('\n## ');
  const lines = table.split('\n').filter((line) => /^\| [A-Z]\w*[a-z]\w* \|/.test(line));
  return lines.map((line) => {
    const cells = line.split(' | ').map((cell) => cell.replace(/^\| | \|$/g, '').trim());
    assert.equal(cells.length, 4, line);
    assert.ok(
      cells.every((cell) => cell !== ''),
      line,
    );
    const tests = [...(cells[3] ?? '').matchAll(/`([^`]+)`/g)].map(([, file = '']) => file);
    return { rpc: cells[0] ?? '', tests };
  });
}

function rpcsOf(version: string): string[] {
  const file = packagePath(`test/fixtures/csi-descriptor-${version}.json`);
  const { services } = JSON.parse(readFileSync(file, 'utf8')) as Description;
  return Object.values(services).flatMap(({ rpcs }) => Object.keys(rpcs));
}

for (const version of ['0.3', '0.1']) {
  test(`the table of CSI ${version} has rows for every RPC of the descriptor, in its order, and for no other`, () => {
    const rpcs = rowsOf(version).map(({ rpc }) => rpc);
    assert.deepEqual([...new Set(rpcs)], rpcsOf(version));
  });

  test(`every row of CSI ${version} names a test that exists and calls the RPC`, () => {
    for (const { rpc, tests } of rowsOf(version)) {
      assert.ok(tests.length > 0, rpc);
      for (const file of tests) {
        const path = packagePath(`test/${file}`);
        assert.ok(existsSync(path), `${rpc}: ${file}`);
        assert.match(readFileSync(path, 'utf8'), new RegExp(`\\b${rpc}\\b`), `${rpc}: ${file}`);
      }
    }
  });
}

test('every test file that the page names exists', () => {
  const files = [...text.matchAll(/`((?:unit|integration)\/[^`]+\.test\.ts)`/g)];
  assert.ok(files.length > 30);
  for (const [, file = ''] of files) assert.ok(existsSync(packagePath(`test/${file}`)), file);
});
