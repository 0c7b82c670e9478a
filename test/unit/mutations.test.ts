/** Holds test/mutations against the code, the tests and the tables of conditions, without running any of them. */
import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { MUTATIONS } from '../mutations/mutations.js';
import { checkoutText } from '../support/checkout-text.js';

const CONDITIONS = ['docs/engineering/soundness.md', 'docs/engineering/retained-bases.md'].flatMap((document) =>
  [...checkoutText(document).matchAll(/^\| ([LDRTB]\d+) \|/gm)].map(([, id]) => id ?? ''),
);

test('every condition of soundness and crash safety has a mutation, and every mutation a condition or a hazard', () => {
  assert.ok(CONDITIONS.length > 50 && MUTATIONS.length > 100);
  assert.deepEqual(CONDITIONS, [...new Set(CONDITIONS)]);
  const broken = [...new Set(MUTATIONS.map(({ breaks }) => breaks))].sort();
  const hazards = broken.filter((id) => id.startsWith('H'));
  assert.deepEqual(
    broken.filter((id) => !hazards.includes(id)),
    [...CONDITIONS].sort(),
  );
  for (const hazard of hazards) assert.ok(checkoutText('docs/security.md').includes(`| ${hazard} |`));
});

test('every mutation can be applied: its old text occurs once in its file', () => {
  for (const { file, from, to } of MUTATIONS) {
    assert.equal(checkoutText(file).split(from).length, 2, `${file}: ${from}`);
    assert.notEqual(from, to);
  }
});

test('docs/engineering/soundness.md names the files that its mutations change', () => {
  for (const [, id, cells = ''] of checkoutText('docs/engineering/soundness.md').matchAll(/^\| ([LD]\d+) \|(.*)$/gm)) {
    const named = [...cells.matchAll(/`([^`]+)`/g)].map(([, path]) => path);
    for (const path of named) assert.doesNotThrow(() => checkoutText(path ?? ''), `${id}: ${path}`);
    const changed = MUTATIONS.filter(({ breaks }) => breaks === id).map(({ file }) => file);
    assert.ok(
      changed.some((file) => named.includes(file)),
      `${id}: ${changed}`,
    );
  }
});

test('every mutation names a test of the plain suite', () => {
  for (const { test: expected } of MUTATIONS) {
    assert.doesNotMatch(expected.file, /nightly|guest/);
    assert.ok(hasTest(expected), `${expected.file} has no test '${expected.name}'`);
  }
});

function hasTest({ file, name }: { file: string; name: string }): boolean {
  const text = checkoutText(file);
  if (file.endsWith('.cc')) {
    const [suite, own] = name.split('.');
    return new RegExp(`^TEST(?:_F|_P)?\\(${suite},\\s*${own}\\)`, 'm').test(text);
  }
  // Tests that several files share are in one that they import.
  const shared = [...text.matchAll(/from '(\.\/.*)\.js'/g)].map(([, path]) => `${path}.ts`);
  const texts = [text, ...shared.map((path) => checkoutText(join(dirname(file), path)))];
  return texts.some((each) => titlesIn(each).some((title) => title.test(name)));
}

/** Of literals, with anything in the place of what is inserted. */
function titlesIn(text: string): RegExp[] {
  const titles = text.matchAll(/\b(?:test|it|guestTest)\(\s*(['"`])(.*?)\1,/gs);
  return [...titles].map(
    ([, , title = '']) =>
      new RegExp(
        `^${title
          .split(/\$\{.*?\}/)
          .map(escaped)
          .join('.+')}$`,
      ),
  );
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

test('docs/engineering/soundness.md names a test for what it assumes of each kernel', () => {
  const rows = [...checkoutText('docs/engineering/soundness.md').matchAll(/^\| K\d+ \| .* \| (.*) \|$/gm)];
  assert.ok(rows.length > 10);
  for (const [, cell = ''] of rows) {
    for (const each of cell.split('; ')) {
      const [, file = '', names = ''] = /^`([^`]+)` (.+)$/.exec(each) ?? [];
      const titles = file.endsWith('.cc') ? names.split(', ') : [names];
      for (const title of titles) assert.ok(checkoutText(file).includes(title), `${file}: ${title}`);
    }
  }
});
