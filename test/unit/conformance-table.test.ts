/** Holds docs/conformance.md against the tests: every rule has one place that proves it, or says why not. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { CHECKS } from '../../src/tools/conformance/suite.js';

interface Row {
  rule: string;
  answer: string;
  /** Test files, and ids of checks of the conformance suite. */
  places: string[];
}

/** How many rules there are of each kind, as numbered in the table: from 1 to this without a gap. */
const RULES: Readonly<Record<string, number>> = {
  G: 17,
  ID: 12,
  CV: 28,
  DV: 6,
  CP: 11,
  CU: 5,
  VV: 7,
  LV: 8,
  GV: 4,
  MV: 6,
  GC: 6,
  CC: 1,
  CS: 15,
  DS: 5,
  LS: 7,
  GS: 4,
  EV: 9,
  GG: 1,
  GA: 13,
  GD: 5,
  GE: 5,
  SM: 28,
  NS: 9,
  NU: 4,
  NP: 11,
  NQ: 4,
  NV: 5,
  NE: 9,
  NC: 1,
  NI: 5,
  E: 20,
};

const NOT_APPLICABLE = 'does not apply: ';

function rows(): Row[] {
  const text = readFileSync(packagePath('docs/conformance.md'), 'utf8');
  return [...text.matchAll(/^\| ([A-Z]+\d+) \| .* \| (.*) \| (.*) \|$/gm)].map((match) => ({
    rule: match[1] ?? '',
    answer: match[2] ?? '',
    places: [...(match[3] ?? '').matchAll(/`([^`]+)`/g)].map((found) => found[1] ?? ''),
  }));
}

const TITLE = /[`'"]((?:[A-Z]{1,2}\d+(?:, and | and |, | to )?)+): /g;
const RANGE = /([A-Z]+)(\d+) to [A-Z]+(\d+)/g;

/** The rules that the titles of tests begin with, before their colon, ranges such as NQ1 to NQ4 included. */
function namesIn(file: string): string {
  const text = readFileSync(packagePath(`test/${file}`), 'utf8');
  return [...text.matchAll(TITLE)]
    .map(([, names]) => (names ?? '').replace(RANGE, (_, kind, first, last) => range(kind, first, last)))
    .join(' ');
}

function range(kind: string, first: string, last: string): string {
  const count = Number(last) - Number(first) + 1;
  return Array.from({ length: count }, (_, index) => `${kind}${Number(first) + index}`).join(' ');
}

test('docs/conformance.md has a row for every rule, once and in order', () => {
  const expected = Object.entries(RULES).flatMap(([kind, count]) =>
    Array.from({ length: count }, (_, index) => `${kind}${index + 1}`),
  );
  const found = rows().map(({ rule }) => rule);
  assert.deepEqual(found, [...new Set(found)]);
  assert.deepEqual(found.sort(), expected.sort());
});

test('every rule has a test named after it or a check, or says why it does not apply', () => {
  for (const { rule, answer, places } of rows()) {
    if (answer.startsWith(NOT_APPLICABLE)) {
      assert.ok(answer.length > NOT_APPLICABLE.length + 10, `${rule} gives no reason`);
      continue;
    }
    assert.ok(places.length === 1 || places.length === 2, `${rule} has ${places.length} places`);
    const plain = places.filter((place) => !place.startsWith('nightly/'));
    assert.ok(plain.length > 0, `${rule} has no test that every run of the suite runs`);
    for (const place of places) {
      if (place.endsWith('.test.ts')) {
        const named = new RegExp(`\\b${rule}\\b`);
        assert.match(namesIn(place), named, `${place} has no test of ${rule}`);
      } else {
        const check = CHECKS.find(({ id }) => id === place);
        assert.equal(check?.rule, rule, `${place} is no check of ${rule}`);
      }
    }
  }
});

test('no test is named after a rule that has its place elsewhere', () => {
  const files = readdirSync(packagePath('test'), { recursive: true }).map(String);
  const placesOf = new Map(rows().map(({ rule, places }) => [rule, places]));
  for (const file of files.filter((name) => name.endsWith('.test.ts'))) {
    for (const [rule] of namesIn(file).matchAll(/[A-Z]+\d+/g)) {
      const places = placesOf.get(rule) ?? [file];
      const isHere = places.length === 0 || places.includes(file);
      assert.ok(isHere, `${file} has a test of ${rule}, whose place is ${places.join(', ')}`);
    }
  }
});
