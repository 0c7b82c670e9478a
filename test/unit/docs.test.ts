import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { SETTINGS } from '../../src/config.js';
import { StatusCode } from '../../src/errors.js';
import { packagePath } from '../../src/package-root.js';

const read = (path: string): string => readFileSync(packagePath(path), 'utf8');

test('docs/configuration.md has a row for every setting and no other', () => {
  const rows = [...read('docs/configuration.md').matchAll(/^\| `([A-Z_]+)` \|/gm)].map(
    ([, name]) => name,
  );
  assert.deepEqual(rows.sort(), Object.keys(SETTINGS).sort());
});

test('docs/errors.md explains every status code a client can get from a handler', () => {
  const text = read('docs/errors.md');
  const unexplained = ['OK', 'UNKNOWN', 'CANCELLED', 'DEADLINE_EXCEEDED', 'UNAUTHENTICATED'];
  for (const name of Object.keys(StatusCode)) {
    if (unexplained.includes(name) || name === 'PERMISSION_DENIED') continue;
    assert.match(text, new RegExp(`\\| ${name} \\||## ${name}`), name);
  }
});

test('every link between the documents leads somewhere', () => {
  for (const file of ['README.md', 'docs/architecture.md', 'docs/limits.md']) {
    for (const [, target] of read(file).matchAll(/\]\(([^):#]+)\)/g)) {
      assert.doesNotThrow(() => read(target ?? ''), `${file} links to ${target}`);
    }
  }
});
