/**
 * Gates that no linter has: file sizes, and words that do not belong into the project.
 * Prints every offence and exits 1 if there is one.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const MAX_LINES = 400;
const CODE = /\.(ts|mjs|cc|h)$/;
const FORBIDDEN = [
  { pattern: /\b(TODO|FIXME|XXX)\b/, why: 'open ends belong into the issue tracker' },
  { pattern: /https?:\/\/registry\./, why: 'no registry host' },
];

const files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'])
  .toString()
  .split('\0')
  .filter((file) => CODE.test(file) && file !== 'scripts/check-sources.mjs');
const offences = [];
for (const file of files) {
  const lines = readFileSync(file, 'utf8').split('\n');
  if (lines.length - 1 > MAX_LINES) offences.push(`${file}: ${lines.length - 1} lines, at most ${MAX_LINES}`);
  lines.forEach((line, index) => {
    for (const { pattern, why } of FORBIDDEN) {
      if (pattern.test(line)) offences.push(`${file}:${index + 1}: ${pattern}: ${why}`);
    }
  });
}
for (const offence of offences) console.log(offence);
process.exitCode = offences.length === 0 ? 0 : 1;
