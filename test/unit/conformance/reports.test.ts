import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import type { CheckResult, Report } from '../../../src/tools/conformance/report.js';
import { formatJson } from '../../../src/tools/conformance/report-json.js';
import { formatJunit } from '../../../src/tools/conformance/report-junit.js';
import { formatTable } from '../../../src/tools/conformance/report-table.js';

interface XmlElement {
  name: string;
  attributes: Record<string, string>;
  text: string;
  children: XmlElement[];
}

/** Of Python's library, which refuses XML that is not well-formed. */
const XML_READER = `
import json, sys, xml.etree.ElementTree as tree
def plain(at):
  return dict(name=at.tag, attributes=at.attrib, text=at.text or '', children=[*map(plain, at)])
print(json.dumps(plain(tree.fromstring(sys.stdin.buffer.read()))))
`;

function readXml(source: string): XmlElement {
  assert.ok(source === Buffer.from(source).toString(), 'it is well-formed Unicode');
  const text = execFileSync('python3', ['-c', XML_READER], { input: source, encoding: 'utf8' });
  return JSON.parse(text) as XmlElement;
}

const NASTY = `<&>"' ]]> \u0000\u001b[31m \ud800 \ufffe\n\ttab é 漢 🙂`;
/** As XML represents it. */
const NASTY_IN_XML = `<&>"' ]]> \ufffd\ufffd[31m \ufffd \ufffd\n\ttab é 漢 🙂`;

const resultOf = (changes: Partial<CheckResult>): CheckResult => ({
  id: 'metadata.order',
  section: 'SnapshotMetadata: Metadata Format',
  rule: 'SM13',
  title: 'entries ascend',
  level: 'must',
  result: 'passed',
  detail: null,
  notes: [],
  figures: [],
  seconds: 0.25,
  ...changes,
});

const REPORT: Report = {
  driver: { name: 'driver.example', vendorVersion: '1.2' },
  seed: 42,
  startedAt: new Date('2026-01-02T03:04:05Z'),
  seconds: 1.5,
  results: [
    resultOf({ notes: ['worth knowing'] }),
    resultOf({ id: 'delta.content', result: 'failed', detail: NASTY }),
    resultOf({ id: 'delta.chain', level: 'should', result: 'failed', detail: 'short' }),
    resultOf({ id: 'groups.get', result: 'skipped', detail: 'no <groups> here' }),
    resultOf({ id: 'allocated.content', figures: [{ name: 'over-report factor', value: 4 / 3, unit: 'for one' }] }),
  ],
};

test('the table lists every check that ran, and why the others did not', () => {
  const lines = formatTable(REPORT).split('\n');
  const has = (pattern: RegExp): void =>
    assert.ok(
      lines.some((line) => pattern.test(line)),
      `${pattern} in\n${lines.join('\n')}`,
    );
  has(/^driver\.example 1\.2, seed 42$/);
  has(/^metadata\.order +SnapshotMetadata: Metadata Format +ok +entries ascend$/);
  has(/^delta\.content +SnapshotMetadata: Metadata Format +FAILED/);
  has(/delta\.chain \(recommended, not required\)/);
  has(/metadata\.order: worth knowing/);
  has(/allocated\.content: over-report factor: 1\.333 for one/);
  has(/groups\.get: no <groups> here/);
  has(/^2 passed, 2 failed, 1 skipped in 1\.5 s$/);
});

test('the JSON report has the documented fields', () => {
  const { checks, driver, ...rest } = JSON.parse(formatJson(REPORT));
  assert.deepEqual(rest, {
    format: 1,
    seed: 42,
    started_at: '2026-01-02T03:04:05.000Z',
    seconds: 1.5,
    passed: 2,
    failed: 2,
    skipped: 1,
  });
  assert.equal(driver.name, 'driver.example');
  const { rule: _, ...documented } = REPORT.results[1] ?? assert.fail();
  assert.deepEqual(checks[1], documented);
  assert.deepEqual(checks[4].figures, REPORT.results[4]?.figures);
});

test('the JUnit report is well-formed whatever text a driver returns', () => {
  const root = readXml(formatJunit(REPORT));
  assert.equal(root.name, 'testsuites');
  const [suite] = root.children;
  assert.deepEqual(
    [suite?.attributes['tests'], suite?.attributes['failures'], suite?.attributes['skipped']],
    ['5', '2', '1'],
  );
  const cases = suite?.children.filter(({ name }) => name === 'testcase') ?? [];
  assert.deepEqual(
    cases.map(({ attributes }) => attributes['name']),
    ['metadata.order', 'delta.content', 'delta.chain', 'groups.get', 'allocated.content'],
  );
  const [output, failure, , skipped, figures] = cases.map(({ children }) => children[0]);
  assert.equal(output?.text, 'worth knowing');
  assert.equal(failure?.name, 'failure');
  assert.equal(failure?.attributes['message'], NASTY_IN_XML);
  assert.equal(failure?.text, `entries ascend\n${NASTY_IN_XML}`);
  assert.equal(skipped?.attributes['message'], 'no <groups> here');
  assert.match(figures?.text ?? '', /over-report factor: 1\.33/);
});
