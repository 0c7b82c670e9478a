import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { packagePath } from '../../../src/base/package-root.js';
import { CHECKS } from '../../../src/conformance/suite.js';

const document = readFileSync(packagePath('docs/conformance-tool.md'), 'utf8');

test('docs/conformance-tool.md has a row for every check, in order, as --list prints it', () => {
  const rows = [...document.matchAll(/^\| `([a-z.-]+)` \| (.*) \| (.*) \|$/gm)]
    .filter(([, id = '']) => id.includes('.'))
    .map(([, id, section, title]) => ({ id, section, title }));
  const wanted = CHECKS.map(({ id, section, title, level }) => ({
    id,
    section,
    title: level === 'should' ? `${title} (should)` : title,
  }));
  assert.deepEqual(rows, wanted);
});

test('ids of checks are unique', () => {
  assert.equal(new Set(CHECKS.map(({ id }) => id)).size, CHECKS.length);
});
