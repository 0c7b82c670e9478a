/** Reports: the JSON document and its schema, the table, Markdown, and the page with charts. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Ajv } from 'ajv';
import { packagePath } from '../../../src/base/package-root.js';
import { sizesOf } from '../../../src/tools/bench/curves.js';
import { formatComparison } from '../../../src/tools/bench/report/comparison.js';
import { type Document, formatJson, parseDocument } from '../../../src/tools/bench/report/document.js';
import { formatHtml } from '../../../src/tools/bench/report/html.js';
import { formatMarkdown } from '../../../src/tools/bench/report/markdown.js';
import { formatText } from '../../../src/tools/bench/report/text.js';
import { missedBy, verdict } from '../../../src/tools/bench/row.js';
import { type RunOptions, runSuites } from '../../../src/tools/bench/run-suites.js';
import { SPEED_TABLE } from '../../bench/targets.js';
import { fullReport, report, row, targetRow } from '../../support/bench-report.js';

const schema = JSON.parse(readFileSync(packagePath('docs/bench-report.schema.json'), 'utf8'));

/** What is wrong with a document by the schema in docs: draft-07, where a field may have one of several types. */
function schemaErrors(document: unknown): unknown {
  const validate = new Ajv({ strictTypes: false, allErrors: true }).compile(schema);
  return validate(document) ? null : validate.errors;
}

test('a report matches the schema, which wants rounds or a reason, and reads back as it was', () => {
  const text = formatJson(fullReport());
  assert.equal(schemaErrors(JSON.parse(text)), null);
  assert.deepEqual(parseDocument(text), JSON.parse(text));
  assert.notEqual(schemaErrors(report([row('stream-a', [], [1])])), null);
});

test('a file that is no report, or of another version, is refused with the reason', () => {
  const text = formatJson(fullReport());
  for (const [damaged, reason] of [
    ['{', /not JSON/],
    ['{"rows":[]}', /no schema/],
    [text.replace('bench/1', 'bench/2'), /'blockdelta-bench\/2'; this version reads/],
    [text.replace('"name": "stream-cpu-256"', '"name": 5'), /row 2 has no name/],
  ] as const) {
    assert.throws(() => parseDocument(damaged), reason);
  }
});

test('a missed target says by how much, also when the bound is a lower one', () => {
  const slow = targetRow('stream-cpu-256', [12, 12, 12], [10, 10, 10]);
  assert.equal(verdict(slow), 'missed');
  assert.equal(missedBy(slow)?.toFixed(3), '0.500');
  const low = targetRow('io-random-write', [6, 6, 6], [10, 10, 10]);
  assert.equal(missedBy(low)?.toFixed(3), '0.250');
  assert.equal(missedBy(targetRow('io-random-write', [9, 9, 9], [10, 10, 10])), null);
  assert.match(formatText(report([slow])), /missed by 50\.0 %/);
});

test('the table names each row, its verdict, and why a peer is missing', () => {
  const text = formatText(fullReport());
  assert.match(text, /^stream-cpu-8192 .* met$/m);
  assert.match(text, /not measured: mkfs\.btrfs is not installed: install btrfs-progs/);
  assert.match(text, /2 targets met, 1 missed: stream-cpu-256, 1 not measured/);
});

test('Markdown has the targets in their order and the other rows in a table of their own', () => {
  const [, targets = '', others = ''] = formatMarkdown(fullReport()).split(/\n\n(?=\| row)/);
  assert.match(targets, /\| `stream-cpu-256` \| what stream-cpu-256 .*\*\*missed by/);
  assert.match(others, /`stream-cpu-objects`/);
});

test('the page holds everything itself, without a script, and escapes what it is given', () => {
  const page = formatHtml(fullReport());
  assert.doesNotMatch(page, /<script|src=|@import|url\(/);
  assert.deepEqual(page.match(/href="[^"]*"/g), ['href="data:,"']);
  assert.match(page, /Processor &lt;of tests&gt; &amp; &quot;more&quot;/);
  assert.match(page, /Time by &lt;entries&gt;/);
  assert.doesNotMatch(page, /NaN|Infinity|undefined/);
  // Targets, three measured rows with a target, one without, one curve.
  assert.equal(page.match(/<svg /g)?.length, 6);
});

test('rounds below zero and rows of equal figures still have a chart', () => {
  const shrunk = targetRow('stream-cpu-8192', [1, 1, 1], [1, 1, 1]);
  const target = { label: 'growth', unit: ' MiB', judged: 'max', atMost: 16 } as const;
  const growth = row('stream-rss-fast', [90, 90], [91, 90], {
    target: { ...target, rounds: [-1, 0] },
  });
  assert.doesNotMatch(formatHtml(report([shrunk, growth])), /NaN|Infinity/);
});

const namesOf = (rows: readonly { name: string }[]) => rows.map(({ name }) => name);

const OPTIONS: RunOptions = {
  program: '',
  rounds: 5,
  size: 'tiny' as const,
  socketPath: null,
  seed: 1,
  curves: true,
  reach: {},
  parameters: {},
  snapshotParameters: {},
  workDirectory: '/tmp',
  volumeBytes: null,
  table: SPEED_TABLE,
  wholeTable: false,
  say: () => undefined,
};

test('a run lists the speed table in its order, with the reason for each row it lacks', async () => {
  const undone: string[] = [];
  const document = await runSuites(
    [
      {
        name: 'lifecycle',
        describes: 'fails',
        run: async ({ cleanup }) => {
          cleanup.defer(() => void undone.push('lifecycle'));
          throw new Error('no pool');
        },
      },
      {
        name: 'stream',
        describes: 'measures two rows',
        run: async () => [row('stream-other', [1], [2]), targetRow('stream-cpu-256', [1], [2])],
        curves: async () => fullReport().curves,
      },
    ],
    OPTIONS,
    new AbortController().signal,
  );
  const wanted = SPEED_TABLE.filter(({ suite }) => suite === 'stream' || suite === 'lifecycle');
  assert.deepEqual(namesOf(document.rows), [...namesOf(wanted), 'stream-other']);
  const probe = document.rows.find(({ name }) => name === 'lifecycle-probe');
  assert.equal(probe?.ours.missing, 'the suite lifecycle failed: no pool');
  assert.deepEqual(
    document.suites.map(({ failure }) => failure),
    ['no pool', null],
  );
  assert.deepEqual(undone, ['lifecycle']);
  assert.equal(document.curves.length, 1);
  assert.equal(schemaErrors(document), null);
});

test('curves that fail leave the rows of their suite', async () => {
  const suite = {
    name: 'stream',
    describes: 'measures a row',
    run: async () => [row('stream-other', [1], [2])],
    curves: async () => Promise.reject(new Error('the disk is full')),
  };
  const { rows, suites } = await runSuites([suite], { ...OPTIONS, table: [] }, new AbortController().signal);
  assert.deepEqual([namesOf(rows), suites[0]?.failure], [['stream-other'], 'the disk is full']);
});

test('curves measure no volume above the size of the run', () => {
  for (const size of ['full', 'tiny'] as const) {
    const { volumeMiB, volumesMiB, changes, blocks } = sizesOf({ size, volumeBytes: 4 * 2 ** 20 });
    assert.deepEqual([volumeMiB, volumesMiB], [4, [1, 4]]);
    assert.ok(changes.every((count) => count <= 1024) && blocks <= 256);
  }
  assert.equal(Math.max(...sizesOf({ size: 'full', volumeBytes: null }).volumesMiB), 4096);
});

test('a comparison warns of reports that were measured in different ways', () => {
  const found = (rest: Partial<Document>): string[] =>
    formatComparison(report([]), report([], rest), []).match(/^warning: .*$/gm) ?? [];
  assert.deepEqual(found({ volumeBytes: null }), []);
  assert.deepEqual(found({ rounds: 7, volumeBytes: 2 ** 28 }), [
    'warning: A and B have different numbers of rounds (5, 7): measure both with the same',
    'warning: A and B have different volume sizes (the default, 256 MiB): measure both with the same',
  ]);
  assert.match(found({ size: 'tiny' })[0] ?? '', /different sizes \(full, tiny\)/);
});

test('a run of everything has every row of the speed table', async () => {
  const options = { ...OPTIONS, wholeTable: true };
  const { rows } = await runSuites([], options, new AbortController().signal);
  assert.deepEqual(namesOf(rows), namesOf(SPEED_TABLE));
  assert.equal(rows[0]?.ours.missing, 'the suite stream did not run');
});

test('an interrupt ends the run and undoes what the suite has made', async () => {
  const interrupt = new AbortController();
  const undone: string[] = [];
  const suite = {
    name: 'stream',
    describes: 'never ends',
    run: async ({ cleanup }: { cleanup: { defer(undo: () => void): void } }) => {
      cleanup.defer(() => void undone.push('stream'));
      setImmediate(() => interrupt.abort(new Error('interrupted')));
      return new Promise<never>(() => undefined);
    },
  };
  await assert.rejects(runSuites([suite], OPTIONS, interrupt.signal), /interrupted/);
  assert.deepEqual(undone, ['stream']);
});
