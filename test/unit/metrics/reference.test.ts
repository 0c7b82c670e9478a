/** Holds docs/metrics.md against the metrics that exist, in both directions. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { packagePath } from '../../../src/base/package-root.js';
import { MAX_VOLUMES } from '../../../src/metrics/storage-metrics.js';
import { existingMetrics } from '../../support/existing-metrics.js';

const text = readFileSync(packagePath('docs/metrics.md'), 'utf8');

interface Row {
  name: string;
  type: string;
  labels: string;
  unit: string;
  meaning: string;
}

function documented(): Row[] {
  return [...text.matchAll(/^\| `(\w+)` \|(.*)\|$/gm)].map(([, name = '', cells = '']) => {
    const [type = '', labels = '', unit = '', meaning = ''] = cells.split('|').map((c) => c.trim());
    return { name, type, labels, unit, meaning };
  });
}

function unitOf(name: string): string {
  if (/_seconds(_total)?$/.test(name)) return 's';
  return /_bytes(_total)?$/.test(name) ? 'bytes' : '';
}

/** The meaning of our own metrics is their help; others are explained in our words. */
function existing(rows: readonly Row[]): Row[] {
  return existingMetrics().map(({ name, type, labels, help }) => ({
    ...{ name, type, unit: unitOf(name) },
    labels: labels.map((label) => `\`${label}\``).join(', '),
    meaning: name.startsWith('blockdelta_')
      ? help
      : (rows.find((row) => row.name === name)?.meaning ?? ''),
  }));
}

const byName = (one: Row, other: Row): number => (one.name < other.name ? -1 : 1);

test('docs/metrics.md has a row for every metric, as it is, and no other', () => {
  const rows = documented();
  assert.ok(rows.length > 50);
  assert.deepEqual(rows.sort(byName), existing(rows).sort(byName));
  for (const { name, meaning } of rows) assert.notEqual(meaning, '', name);
});

test('docs/metrics.md names the number of volumes that have metrics of their own', () => {
  assert.ok(text.includes(`The ${MAX_VOLUMES} oldest volumes`));
});

test('names follow the conventions of Prometheus', () => {
  for (const { name, type } of documented()) {
    assert.match(name, /^(blockdelta|process|nodejs)_[a-z][a-z_]*$/);
    assert.equal(name.endsWith('_total'), type === 'counter', name);
    if (type === 'histogram') assert.match(name, /_seconds$/);
  }
});
