/** The table of broken drivers in docs/conformance-tool.md matches the tests. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { CHECKS } from '../../src/conformance/suite.js';
import { DEFECTS, defectTable } from './fake/defects.js';

test('the documentation lists every broken driver and the checks that catch it', () => {
  const text = readFileSync(packagePath('docs/conformance-tool.md'), 'utf8');
  const [, section = ''] = text.split('## Proved against broken drivers\n');
  const rows = section
    .split('\n## ')[0]
    ?.split('\n')
    .filter((line) => line.startsWith('|'));
  assert.equal(rows?.join('\n'), defectTable());
});

test('broken drivers have unique names and refer to existing checks', () => {
  const names = DEFECTS.map(({ name }) => name);
  assert.equal(new Set(names).size, names.length);
  const ids = new Set(CHECKS.map(({ id }) => id));
  const named = DEFECTS.flatMap(({ caughtBy, mayAlsoFail = [] }) => [...caughtBy, ...mayAlsoFail]);
  assert.deepEqual(
    [...new Set(named)].filter((id) => !ids.has(id)),
    [],
  );
});

test('a broken driver covers every check except those of mounted volumes', () => {
  const caught = new Set(DEFECTS.flatMap(({ caughtBy }) => caughtBy));
  const unproved = CHECKS.map(({ id }) => id).filter((id) => !caught.has(id));
  assert.deepEqual(unproved, ['delta.content-mount', 'allocated.content-mount']);
});
