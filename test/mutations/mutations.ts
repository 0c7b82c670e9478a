/**
 * Changes that make the plugin lose data, each with the plain test that notices: the proof that these tests can fail.
 * mutations.txt has them, scripts/test-mutations.mjs applies them.
 *
 *   @ the file that is changed by all that follow
 *   L1 the row that is broken, and what the mutated code does, or the harm
 *   -old lines, which occur once in the file, and may be parts of lines
 *   +new lines, if there are any
 *   = the file and the name of the plain test that must fail; a native one without parameters
 *
 * Rows are those of docs/engineering/soundness.md (L, D) and docs/engineering/retained-bases.md (R, T, B), and hazards of
 * docs/security.md (H).
 */
import { checkoutText } from '../support/checkout-text.js';

export interface Mutation {
  breaks: string;
  file: string;
  from: string;
  to: string;
  reason: string;
  test: { file: string; name: string };
}

const MUTATION = /^(\w+) (.+)\n((?:-.*\n)+)((?:\+.*\n)*)= (\S+) (.+)\n/;

function mutationsIn(text: string): Mutation[] {
  const mutations: Mutation[] = [];
  for (const group of text.split(/^@ /m).slice(1)) {
    const file = group.slice(0, group.indexOf('\n'));
    let rest = group.slice(file.length).trim().concat('\n');
    while (rest !== '') {
      const [whole = '', breaks = '', reason = '', from = '', to = '', testFile = '', name = ''] =
        MUTATION.exec(rest) ?? [];
      if (whole === '') throw new Error(`mutations.txt, ${file}: no mutation: ${rest.slice(0, 200)}`);
      const test = { file: testFile, name };
      mutations.push({ breaks, file, from: textOf(from), to: textOf(to), reason, test });
      rest = rest.slice(whole.length);
    }
  }
  return mutations;
}

/** Without the sign of each line and the last line's end. */
const textOf = (lines: string): string => lines.replace(/^[-+]/gm, '').slice(0, -1);

export const MUTATIONS: readonly Mutation[] = mutationsIn(checkoutText('test/mutations/mutations.txt'));
