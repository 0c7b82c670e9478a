/** Output formats of thin-delta and thin-ls. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatDevices } from '../../../src/cli/thin/ls-command.js';
import {
  createPrinter,
  createSummaryPrinter,
  type Printer,
} from '../../../src/cli/thin/printers.js';
import type { Run } from '../../../src/cli/thin/runs.js';
import { ThinDeltaKind } from '../../../src/native/thin-addon.js';
import { FakeThinPool } from '../../support/fake-thin-metadata.js';

const { SAME, LEFT_ONLY, RIGHT_ONLY, DIFFERENT } = ThinDeltaKind;
const RUNS: readonly Run[] = [
  { kind: LEFT_ONLY, begin: 0n, length: 1n },
  { kind: DIFFERENT, begin: 1n, length: 2n },
  { kind: SAME, begin: 3n, length: 5n },
  { kind: RIGHT_ONLY, begin: 2n ** 48n, length: 1n },
];
const { superblock } = new FakeThinPool();
const DELTA = { superblock, poolBytes: 65_536_000n, base: 4, target: 7 };

const printed = (printer: Printer): string =>
  printer.head + printer.rows({ runs: RUNS, nodes: 9 }) + printer.tail();

test('xml has every run, counted in blocks', () => {
  assert.equal(
    printed(createPrinter('xml', DELTA)),
    [
      '<superblock uuid="" time="3" transaction="7" data_block_size="128" nr_data_blocks="1000">',
      '  <diff left="4" right="7">',
      '    <left_only begin="0" length="1"/>',
      '    <different begin="1" length="2"/>',
      '    <same begin="3" length="5"/>',
      '    <right_only begin="281474976710656" length="1"/>',
      '  </diff>',
      '</superblock>',
      '',
    ].join('\n'),
  );
});

test('xml of the current trees has the block of a metadata snapshot', () => {
  const held = { ...DELTA, superblock: { ...superblock, heldRoot: 77n } };
  assert.match(createPrinter('xml', held).head, /nr_data_blocks="1000" metadata_snap="77">\n/);
});

test('the other formats have the changed ranges in bytes, adjacent ones merged', () => {
  assert.equal(
    printed(createPrinter('csv', DELTA)),
    'byte_offset,size_bytes\n0,196608\n18446744073709551616,65536\n',
  );
  assert.equal(
    printed(createPrinter('table', DELTA)).split('\n')[1],
    '       0    196608  192 KiB',
  );
  assert.deepEqual(JSON.parse(printed(createPrinter('ndjson', DELTA)).split('\n')[0] ?? ''), {
    byte_offset: '0',
    size_bytes: '196608',
  });
});

test('every format of a summary has the totals by kind', () => {
  const summary = (format: 'table' | 'csv' | 'ndjson') =>
    printed(createSummaryPrinter(format, DELTA, () => 0.12345));
  const json = JSON.parse(summary('ndjson')) as Record<string, unknown>;
  assert.deepEqual(json, {
    ranges: 2,
    size_bytes: '262144',
    left_only_bytes: '65536',
    right_only_bytes: '65536',
    different_bytes: '131072',
    nodes: 9,
    seconds: 0.123,
  });
  const [names, values] = summary('csv').trimEnd().split('\n');
  assert.deepEqual(names?.split(','), Object.keys(json));
  assert.deepEqual(values?.split(','), Object.values(json).map(String));
  assert.match(summary('table'), /^bytes +262144 \(256 KiB\)$/m);
});

const DEVICES = [
  {
    deviceId: 1,
    root: 11n,
    mappedBlocks: 160n,
    transactionId: 2n,
    creationTime: 0,
    snapshottedTime: 3,
  },
];

test('every format lists the same values for each device', () => {
  const json = JSON.parse(formatDevices('ndjson', DEVICES, 65536n)) as Record<string, unknown>;
  assert.deepEqual(json, {
    device_id: 1,
    mapped_blocks: '160',
    mapped_bytes: '10485760',
    transaction_id: '2',
    creation_time: 0,
    snapshotted_time: 3,
  });
  const [names, values] = formatDevices('csv', DEVICES, 65536n).trimEnd().split('\n');
  assert.deepEqual(names?.split(','), Object.keys(json));
  assert.deepEqual(values?.split(','), Object.values(json).map(String));
  assert.equal(
    formatDevices('table', DEVICES, 65536n),
    [
      'DEVICE  BLOCKS     BYTES  TRANSACTION  CREATED  SNAPSHOTTED',
      '     1     160  10485760            2        0            3',
      '',
    ].join('\n'),
  );
});
