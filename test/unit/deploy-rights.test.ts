/** The rights that the files of deploy/ give the plugin, held against docs/security.md. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { containerCapabilities } from '../support/container.js';
import { settingWords } from '../support/service-unit.js';

const read = (path: string): string => readFileSync(packagePath(path), 'utf8');

/** The capabilities in the first cells of the table. */
function documented(): string[] {
  const [, section = ''] = read('docs/security.md').split('## Capabilities\n');
  const rows = [...section.matchAll(/^\| (CAP_.*?) \|/gm)];
  return rows.flatMap(([, cell = '']) => cell.split(', ')).sort();
}

test('the unit gives the capabilities of docs/security.md and no others', () => {
  assert.deepEqual(settingWords('CapabilityBoundingSet').sort(), documented());
});

test('deploy/container/run gives the capabilities of docs/security.md and no others', () => {
  assert.deepEqual(containerCapabilities().sort(), documented());
});
