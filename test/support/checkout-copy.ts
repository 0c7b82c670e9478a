/** A copy of the checkout for tests that pack it, which changes node_modules for the time it takes. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packagePath } from '../../src/base/package-root.js';

/** The files of the checkout as they are, and nothing that git ignores. */
export function copySources(checkout: string): void {
  mkdirSync(checkout);
  const root = packagePath('');
  const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const files = execFileSync('git', list, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26 });
  const present = files.split('\0').filter((path) => path !== '' && existsSync(join(root, path)));
  execFileSync('xargs', ['-0', 'cp', '-a', '--parents', '-t', checkout], { cwd: root, input: present.join('\0') });
}

/** As a fresh clone in which `npm ci` has run: node_modules by hard links, and the commits. */
export function copyCheckout(checkout: string): void {
  const root = packagePath('');
  copySources(checkout);
  const copy = ['-a', '--reflink=auto'];
  execFileSync('cp', [...copy, join(root, 'build'), join(root, '.git'), checkout]);
  // Newer than the copies of the sources: built already.
  writeFileSync(join(checkout, 'build/.blockdelta-stamp'), '');
  const modules = join(root, 'node_modules');
  if (spawnSync('cp', ['-al', modules, checkout]).status !== 0) {
    // On another file system.
    rmSync(join(checkout, 'node_modules'), { recursive: true, force: true });
    execFileSync('cp', [...copy, modules, checkout]);
  }
}
