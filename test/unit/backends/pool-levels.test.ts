/** The levels of a pool's space, and the alert rules and documents that repeat them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parse } from 'yaml';
import { packagePath } from '../../../src/base/package-root.js';
import {
  FULL_BYTES,
  LISTS_FREE_PERCENT,
  lowWater,
  METADATA_SHORT_FREE_PERCENT,
  NEARLY_FULL_FREE_PERCENT,
  USED_PERCENT,
} from '../../../src/driver/backends/pool-levels.js';

const GIB = 1n << 30n;

const read = (path: string): string => readFileSync(packagePath(path), 'utf8');

interface Rules {
  groups: { rules: { alert: string; expr: string }[] }[];
}

const alerts = (parse(read('deploy/helm/blockdelta/files/alerts.yaml')) as Rules).groups.flatMap(({ rules }) => rules);

/** The alerts with this prefix and their expressions, in the order of the file. */
const rulesNamed = (prefix: string): [alert: string, expr: string][] =>
  alerts.filter(({ alert }) => alert.startsWith(prefix)).map(({ alert, expr }) => [alert, expr]);

const rulesAt = (levels: readonly bigint[], prefix: string, ratio: string): [alert: string, expr: string][] =>
  levels.map((percent) => [`${prefix}${percent}`, `${ratio} > ${Number(percent) / 100}`]);

test('the alerts of a pool that fills fire at the levels at which the log warns', () => {
  const used = 'blockdelta_pool_used_bytes / blockdelta_pool_size_bytes';
  const wanted = rulesAt(Object.values(USED_PERCENT), 'BlockdeltaPoolUsed', used);
  assert.deepEqual(rulesNamed('BlockdeltaPoolUsed'), wanted);
});

test('the alerts of thin metadata fire where it is short, and where its use is high', () => {
  const used = 'blockdelta_pool_thin_metadata_used_bytes / blockdelta_pool_thin_metadata_bytes';
  const levels = [100n - METADATA_SHORT_FREE_PERCENT, USED_PERCENT.high];
  assert.deepEqual(rulesNamed('BlockdeltaThinMetadataUsed'), rulesAt(levels, 'BlockdeltaThinMetadataUsed', used));
});

test('the documents name the levels', () => {
  const { filling, high, critical } = USED_PERCENT;
  const full = `less than ${FULL_BYTES >> 20n} MiB`;
  const named: readonly [document: string, phrase: string][] = [
    ['logs', `has used ${filling} % of its space\` (${high}, ${critical};`],
    ['logs', `(${full} are free)`],
    ['health', `has ${full} free`],
    ['errors', `with ${full} free`],
    ['health', `or than ${NEARLY_FULL_FREE_PERCENT} % of the pool`],
    ['command-line', `${high} % full`],
    ['retained-bases', `only while more than ${LISTS_FREE_PERCENT} % of the pool is free`],
    ['engineering/change-lists', `only while more than ${LISTS_FREE_PERCENT} % of`],
  ];
  for (const [document, phrase] of named) assert.ok(read(`docs/${document}.md`).includes(phrase), phrase);
});

test('low water is a tenth of a pool, from 1 to 16 GiB, and at most a quarter of it', () => {
  const marks = [1n, 4n, 8n, 100n, 160n, 1024n].map((size) => lowWater(size * GIB));
  assert.deepEqual(marks, [GIB / 4n, GIB, GIB, 10n * GIB, 16n * GIB, 16n * GIB]);
});
