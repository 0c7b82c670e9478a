/** Output formats of lists and of their summaries: allocated, delta, thin-delta and thin-ls. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { humanSize } from '../../../src/base/human-size.js';
import { createListFormatter, formatSummary } from '../../../src/cli/metadata/formats.js';
import { formatDevices } from '../../../src/cli/thin/ls-command.js';
import { createPrinter, createSummaryPrinter, type Printer } from '../../../src/cli/thin/printers.js';
import type { Run } from '../../../src/driver/inspection/thin-runs.js';
import { ThinDeltaKind } from '../../../src/driver/native/thin-addon.js';
import { SUPERBLOCK } from '../../support/fake-thin-kernel.js';

const ENTRIES = [
  { offset: 0n, size: 4096n },
  { offset: 2n ** 60n, size: 3n * 2n ** 29n },
];

/** What a list looks like in each format. */
const LISTED = {
  table: [
    '             OFFSET                 SIZE',
    '                  0                 4096  4 KiB',
    '1152921504606846976           1610612736  1.5 GiB',
  ],
  csv: ['byte_offset,size_bytes', '0,4096', '1152921504606846976,1610612736'],
  ndjson: [
    '{"byte_offset":"0","size_bytes":"4096"}',
    '{"byte_offset":"1152921504606846976","size_bytes":"1610612736"}',
  ],
} as const;

for (const [format, lines] of Object.entries(LISTED)) {
  test(`a list as ${format} has every range exactly`, () => {
    const list = createListFormatter(format as keyof typeof LISTED);
    assert.equal(list.head(2n ** 61n) + list.rows(ENTRIES), `${lines.join('\n')}\n`);
  });
}

test('csv has a header even for an empty list', () => {
  const csv = createListFormatter('csv');
  assert.equal(csv.head(1n) + csv.rows([]), 'byte_offset,size_bytes\n');
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

const { SAME, LEFT_ONLY, RIGHT_ONLY, DIFFERENT } = ThinDeltaKind;
const RUNS: readonly Run[] = [
  { kind: LEFT_ONLY, begin: 0n, length: 1n },
  { kind: DIFFERENT, begin: 1n, length: 2n },
  { kind: SAME, begin: 3n, length: 5n },
  { kind: RIGHT_ONLY, begin: 2n ** 48n, length: 1n },
];
const DELTA = { superblock: SUPERBLOCK, poolBytes: 65_536_000n, base: 4, target: 7 };

/** Of two batches, which divide a range. integration/commands/thin-commands has what xml looks like. */
const printed = (printer: Printer): string =>
  printer.head +
  printer.rows({ runs: RUNS.slice(0, 1), nodes: 4 }) +
  printer.rows({ runs: RUNS.slice(1), nodes: 5 }) +
  printer.tail();

test('all formats but xml have the changed ranges in bytes, adjacent ones merged across batches', () => {
  assert.equal(printed(createPrinter('csv', DELTA)), 'byte_offset,size_bytes\n0,196608\n18446744073709551616,65536\n');
  assert.equal(printed(createPrinter('table', DELTA)).split('\n')[1], '       0    196608  192 KiB');
  assert.deepEqual(JSON.parse(printed(createPrinter('ndjson', DELTA)).split('\n')[0] ?? ''), {
    byte_offset: '0',
    size_bytes: '196608',
  });
});

const DEVICES = [
  { deviceId: 1, root: 11n, mappedBlocks: 160n, transactionId: 2n, creationTime: 0, snapshottedTime: 3 },
];

type Format = 'table' | 'csv' | 'ndjson';

/** What prints something in a format, the values that it has in all of them, and lines of the table. */
const PRINTED: readonly [what: string, (format: Format) => string, object, RegExp][] = [
  [
    'a summary',
    (format) => formatSummary(format, SUMMARY),
    {
      ranges: 2,
      size_bytes: '1024',
      volume_capacity_bytes: '4096',
      share: 0.25,
      seconds: 1.235,
      first_message_ms: 2.3,
      messages: 1,
      resumes: 0,
    },
    /^ranges +2\nbytes +1024 \(1 KiB\), 25 % of the volume$/m,
  ],
  [
    'a summary of thin-delta',
    (format) => printed(createSummaryPrinter(format, DELTA, () => 0.12345)),
    {
      ranges: 2,
      size_bytes: '262144',
      left_only_bytes: '65536',
      right_only_bytes: '65536',
      different_bytes: '131072',
      nodes: 9,
      seconds: 0.123,
    },
    /^bytes +262144 \(256 KiB\)$/m,
  ],
  [
    'a device of thin-ls',
    (format) => formatDevices(format, DEVICES, 65536n),
    {
      device_id: 1,
      mapped_blocks: '160',
      mapped_bytes: '10485760',
      transaction_id: '2',
      creation_time: 0,
      snapshotted_time: 3,
    },
    /^DEVICE {2}BLOCKS {5}BYTES {2}TRANSACTION {2}CREATED {2}SNAPSHOTTED\n {5}1 {5}160 {2}10485760 {12}2 {8}0 {12}3\n$/,
  ],
];

for (const [what, print, values, table] of PRINTED) {
  test(`every format of ${what} has the same values`, () => {
    assert.deepEqual(JSON.parse(print('ndjson')), values);
    const [names, row] = print('csv').trimEnd().split('\n');
    assert.deepEqual(names?.split(','), Object.keys(values));
    assert.deepEqual(row?.split(','), Object.values(values).map(String));
    assert.match(print('table'), table);
  });
}
