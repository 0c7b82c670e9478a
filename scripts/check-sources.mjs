/**
 * Finds what no linter and no compiler looks for: words that do not belong in
 * the project, a C++ type that two headers declare, and a file that a tool has
 * left at the top. Prints every offence
 * and exits 1 if there is one.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const CODE = /\.(ts|mjs|cc|h)$/;
const FORBIDDEN = [
  { pattern: /\b(TODO|FIXME|XXX)\b/, why: 'unfinished work belongs in the issue tracker' },
  { pattern: /https?:\/\/registry\./, why: 'no registry host' },
];

const TOP = new Set([
  ...['.ci', '.clang-format', '.clang-tidy', '.editorconfig', '.github', '.gitignore', '.oxlintrc.json', 'CHANGELOG.md'],
  ...['CONTRIBUTING.md', 'LICENSE', 'MAINTAINERS.md', 'README.md', 'SECURITY.md', 'binding.gyp', 'biome.json', 'deploy', 'docs', 'native', 'package-lock.json'],
  ...['package.json', 'proto', 'scripts', 'src', 'test', 'tsconfig.json'],
]);

const tracked = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'])
  .toString()
  .split('\0')
  .filter((file) => file !== '');
const files = tracked.filter((file) => CODE.test(file) && file !== 'scripts/check-sources.mjs');
const offences = tracked
  .filter((file) => !TOP.has(file.split('/')[0]))
  .map((file) => `${file}: an unknown file or directory at the top: remove it, or add it to TOP in scripts/check-sources.mjs`);
for (const file of files) {
  const lines = readFileSync(file, 'utf8').split('\n');
  lines.forEach((line, index) => {
    for (const { pattern, why } of FORBIDDEN) {
      if (pattern.test(line)) offences.push(`${file}:${index + 1}: ${pattern}: ${why}`);
    }
  });
}

// The one-definition rule: the linker keeps one of two inline functions of the
// same name, and code compiled for the other type then runs it, silently.
const TYPE = /^(?:struct|class|enum class) (\w+)(?: final)?(?: : [\w:<> ,]+)? \{/;
const declaredIn = new Map();
for (const file of files.filter((name) => /^native\/.*\.h$/.test(name))) {
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const name = TYPE.exec(line)?.[1];
    if (name === undefined) continue;
    const other = declaredIn.get(name);
    if (other !== undefined) offences.push(`${file}: ${other} declares ${name} too`);
    declaredIn.set(name, file);
  }
}
for (const offence of offences) console.log(offence);
process.exitCode = offences.length === 0 ? 0 : 1;
