/** Which test files belong to which tier: by the directory they lie in. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The tiers of compiled test files; 'checks' and 'native' have none. */
const DIRECTORIES = {
  unit: ['unit'],
  memory: ['memory'],
  node: ['backend', 'conformance', 'faults', 'hostile', 'integration'],
  guest: ['guest'],
  nightly: ['nightly'],
};

export const TIERS = ['checks', 'native', ...Object.keys(DIRECTORIES)];
/** Those of a run without --nightly. */
export const PLAIN_TIERS = TIERS.filter((tier) => tier !== 'nightly');

/** What a file uses that does more in a nightly run: more rounds, or new seeds. */
const DOES_MORE = /\b(isNightly|oneOfEach|nightly(?:Pool)?Test|seededRandom|proveDefects|faultTests)\b/;

/** What does so much more in a nightly run that it has one of its own. */
const WEEKLY = /^(?:faults|guest)\/|^nightly\/power-cuts$/;

/** Test files of a tier as paths below test/ without the ending, such as 'unit/csi/fields'. */
export function filesOf(tier) {
  return (DIRECTORIES[tier] ?? []).flatMap((directory) => testFiles(directory));
}

function testFiles(directory) {
  let entries = [];
  try {
    entries = readdirSync(join('test', directory), { recursive: true });
  } catch (thrown) {
    if (thrown.code !== 'ENOENT') throw thrown;
  }
  return entries
    .filter((entry) => entry.endsWith('.test.ts'))
    .map((entry) => `${directory}/${entry.slice(0, -'.test.ts'.length)}`)
    .sort();
}

/** Whether a pattern, a regular expression, matches the path of the source, such as test/unit/x.test.ts. */
export function isSelected(file, patterns) {
  return patterns.length === 0 || patterns.some((pattern) => pattern.test(`test/${file}.test.ts`));
}

/** Whether a nightly run of that file does what a plain run does not. */
export function doesMoreNightly(file) {
  return file.startsWith('nightly/') || DOES_MORE.test(readFileSync(`test/${file}.test.ts`, 'utf8'));
}

export function isWeekly(file) {
  return WEEKLY.test(file);
}
