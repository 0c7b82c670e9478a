/**
 * Holds the tables of docs/engineering/conformance.md and docs/security.md against the tests: each rule and each hazard has a test
 * that is named after it, or says why it has none.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { CHECKS } from '../../src/tools/conformance/all-checks.js';
import { checkoutText } from '../support/checkout-text.js';

interface Row {
  /** Of the rule or the hazard. */
  id: string;
  answer: string;
  /** Test files, and ids of checks of the conformance suite. */
  places: string[];
}

/** The last rule of each kind in the table, whose numbers begin with 1 and have no gap. */
const LAST_RULES =
  'G17 ID12 CV28 DV6 CP11 CU5 VV7 LV8 GV4 MV6 GC6 CC1 CS15 DS5 LS7 GS4 EV9 GG1 GA13 GD5 GE5 SM28 NS9 NU4 NP11 NQ4 NV5 NE9 NC1 NI5 E20';
const LAST_HAZARD = 'H40';

const rules = (): Row[] => rowsOf('docs/engineering/conformance.md', /^\| ([A-Z]+\d+) \| .* \| (.*) \| (.*) \|$/gm);
const hazards = (): Row[] => rowsOf('docs/security.md', /^\| (H\d+) \| .* \| (.*) \| (.*) \|$/gm);

function rowsOf(document: string, row: RegExp): Row[] {
  return [...checkoutText(document).matchAll(row)].map(([, id = '', answer = '', places = '']) => ({
    id,
    answer,
    places: [...places.matchAll(/`([^`]+)`/g)].map(([, place = '']) => place),
  }));
}

/** From the first of its kind to this one. */
function upTo(last: string): string[] {
  const [, kind = '', count] = /^([A-Z]+)(\d+)$/.exec(last) ?? [];
  return Array.from({ length: Number(count) }, (_, index) => `${kind}${index + 1}`);
}

/** Whether the row has no test, which takes a reason of some words; a row with tests has one of the plain suite. */
function isWithoutTest({ id, answer, places }: Row, excuse: string): boolean {
  if (answer.startsWith(excuse)) {
    assert.ok(answer.length > excuse.length + 10, `${id} gives no reason`);
    return true;
  }
  const plain = places.filter((place) => !/^(?:test\/)?nightly\//.test(place));
  assert.ok(plain.length > 0, `${id} has no test that every run of the suite runs`);
  return false;
}

const TITLE = /[`'"]((?:[A-Z]{1,2}\d+(?:, and | and |, | to )?)+): /g;
const RANGE = /([A-Z]+)(\d+) to [A-Z]+(\d+)/g;

/**
 * The rules and hazards that the titles of tests begin with, before their colon, ranges such as NQ1 to NQ4 included.
 * The name of a C++ test begins with one: `TEST(Suite, H6DoesThis)`.
 */
function namesIn(file: string): string[] {
  const text = checkoutText(file);
  if (file.endsWith('.cc')) return [...text.matchAll(/, (H\d+)[A-Z]/g)].map(([, name = '']) => name);
  return [...text.matchAll(TITLE)].flatMap(([, names = '']) => {
    const ranges = [...names.matchAll(RANGE)].flatMap(([, kind, first, last]) =>
      upTo(`${kind}${last}`).slice(Number(first) - 1),
    );
    return [...ranges, ...(names.match(/[A-Z]+\d+/g) ?? [])];
  });
}

function assertNames(file: string, id: string): void {
  assert.ok(namesIn(file).includes(id), `${file} has no test that is named after ${id}`);
}

test('docs/engineering/conformance.md has a row for every rule, once and in order', () => {
  const found = rules().map(({ id }) => id);
  assert.deepEqual(found, [...new Set(found)]);
  assert.deepEqual(found.sort(), LAST_RULES.split(' ').flatMap(upTo).sort());
});

test('every rule has a test named after it or a check, or says why it does not apply', () => {
  for (const row of rules().filter((each) => !isWithoutTest(each, 'does not apply: '))) {
    const { id, places } = row;
    assert.ok(places.length === 1 || places.length === 2, `${id} has ${places.length} places`);
    for (const place of places) {
      if (place.endsWith('.test.ts')) assertNames(`test/${place}`, id);
      else assert.equal(CHECKS.find((check) => check.id === place)?.rule, id, `${place} is no check of ${id}`);
    }
  }
});

test('no test is named after a rule that has its place elsewhere', () => {
  const files = readdirSync(packagePath('test'), { recursive: true }).map(String);
  const placesOf = new Map(rules().map(({ id, places }) => [id, places]));
  for (const file of files.filter((name) => name.endsWith('.test.ts'))) {
    for (const id of namesIn(`test/${file}`)) {
      const places = placesOf.get(id) ?? [file];
      const isHere = places.length === 0 || places.includes(file);
      assert.ok(isHere, `${file} has a test of ${id}, whose place is ${places.join(', ')}`);
    }
  }
});

test('docs/security.md has a row for every hazard, once and in order', () => {
  assert.deepEqual(
    hazards().map(({ id }) => id),
    upTo(LAST_HAZARD),
  );
});

test('every hazard has a test named after it, or says why it is not defended', () => {
  for (const row of hazards().filter((each) => !isWithoutTest(each, 'not defended: '))) {
    for (const file of row.places) assertNames(file, row.id);
  }
});
