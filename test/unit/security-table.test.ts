/** Holds docs/security.md against the tests: every hazard has a test named after it, or says why not. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';

interface Row {
  hazard: string;
  defence: string;
  files: string[];
}

/** The number of hazards in the table, numbered from H1 without a gap. */
const HAZARDS = 39;

const NOT_DEFENDED = 'not defended: ';

function rows(): Row[] {
  const text = readFileSync(packagePath('docs/security.md'), 'utf8');
  return [...text.matchAll(/^\| (H\d+) \| .* \| (.*) \| (.*) \|$/gm)].map((match) => ({
    hazard: match[1] ?? '',
    defence: match[2] ?? '',
    files: [...(match[3] ?? '').matchAll(/`([^`]+)`/g)].map((found) => found[1] ?? ''),
  }));
}

/**
 * Whether a title in the file begins with the hazard, alone or among others: `H6: `, or a rule and then it. The name of
 * a C++ test begins with it: `TEST(Suite, H6DoesThis)`.
 */
function names(file: string, hazard: string): boolean {
  const text = readFileSync(packagePath(file), 'utf8');
  const title = file.endsWith('.cc') ? `, ${hazard}[A-Z]` : `\\b${hazard}(?:, H\\d+)*: `;
  return new RegExp(title).test(text);
}

test('docs/security.md has a row for every hazard, once and in order', () => {
  const expected = Array.from({ length: HAZARDS }, (_, index) => `H${index + 1}`);
  assert.deepEqual(
    rows().map(({ hazard }) => hazard),
    expected,
  );
});

test('every hazard has a test named after it, or says why it is not defended', () => {
  for (const { hazard, defence, files } of rows()) {
    if (defence.startsWith(NOT_DEFENDED)) {
      assert.ok(defence.length > NOT_DEFENDED.length + 20, `${hazard} gives no reason`);
      continue;
    }
    const plain = files.filter((file) => !file.startsWith('test/nightly/'));
    assert.ok(plain.length > 0, `${hazard} has no test that every run of the suite runs`);
    for (const file of files) {
      assert.ok(names(file, hazard), `${file} has no test named after ${hazard}`);
    }
  }
});
