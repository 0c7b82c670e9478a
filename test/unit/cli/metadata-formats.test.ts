import assert from 'node:assert/strict';
import { test } from 'node:test';
import { humanSize } from '../../../src/base/human-size.js';
import { createListFormatter, formatSummary } from '../../../src/cli/metadata/formats.js';

const ENTRIES = [
  { offset: 0n, size: 4096n },
  { offset: 2n ** 60n, size: 3n * 2n ** 29n },
];

test('a table is aligned to the size of the volume', () => {
  const table = createListFormatter('table');
  assert.equal(
    table.head(2n ** 61n) + table.rows(ENTRIES),
    [
      '             OFFSET                 SIZE',
      '                  0                 4096  4 KiB',
      '1152921504606846976           1610612736  1.5 GiB',
      '',
    ].join('\n'),
  );
});

test('csv has a header even for an empty list', () => {
  const csv = createListFormatter('csv');
  assert.equal(csv.head(1n) + csv.rows([]), 'byte_offset,size_bytes\n');
  assert.equal(csv.rows(ENTRIES), '0,4096\n1152921504606846976,1610612736\n');
});

test('ndjson is one object per line, with exact numbers as strings', () => {
  const ndjson = createListFormatter('ndjson');
  const lines = (ndjson.head(1n) + ndjson.rows(ENTRIES)).trimEnd().split('\n');
  assert.deepEqual(
    lines.map((line) => JSON.parse(line)),
    [
      { byte_offset: '0', size_bytes: '4096' },
      { byte_offset: '1152921504606846976', size_bytes: '1610612736' },
    ],
  );
});

const SUMMARY = {
  ranges: 2,
  sizeBytes: 1024n,
  capacityBytes: 4096n,
  seconds: 1.23456,
  firstMessageMs: 2.345,
  messages: 1,
  resumes: 0,
};

test('every format of a summary has the same values', () => {
  const json = JSON.parse(formatSummary('ndjson', SUMMARY)) as Record<string, unknown>;
  assert.deepEqual(json, {
    ranges: 2,
    size_bytes: '1024',
    volume_capacity_bytes: '4096',
    share: 0.25,
    seconds: 1.235,
    first_message_ms: 2.3,
    messages: 1,
    resumes: 0,
  });
  const [names, values] = formatSummary('csv', SUMMARY).trimEnd().split('\n');
  assert.deepEqual(names?.split(','), Object.keys(json));
  assert.deepEqual(values?.split(','), Object.values(json).map(String));
  const table = formatSummary('table', SUMMARY);
  assert.match(table, /^ranges +2$/m);
  assert.match(table, /^bytes +1024 \(1 KiB\), 25 % of the volume$/m);
});

test('the summary of an empty stream has no capacity and no times', () => {
  const nothing = { ...SUMMARY, capacityBytes: null, firstMessageMs: null };
  const json = JSON.parse(formatSummary('ndjson', nothing)) as Record<string, unknown>;
  assert.equal(json['share'], null);
  assert.equal(json['volume_capacity_bytes'], null);
  assert.match(formatSummary('table', nothing), /^volume +unknown$/m);
});

test('human-readable sizes have one decimal unless it is zero', () => {
  const sizes: [bigint, string][] = [
    [0n, '0 B'],
    [1023n, '1023 B'],
    [1024n, '1 KiB'],
    [1536n, '1.5 KiB'],
    [2n ** 40n, '1 TiB'],
    [2n ** 63n - 1n, '8 EiB'],
  ];
  for (const [bytes, shown] of sizes) assert.equal(humanSize(bytes), shown);
});
