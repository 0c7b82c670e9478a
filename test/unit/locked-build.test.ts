/** Native code comes from sources that package-lock.json has hashes of, and was compiled on this machine. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { packagePath } from '../../src/base/package-root.js';
import { checkoutText } from '../support/checkout-text.js';

interface LockedPackage {
  link?: boolean;
  integrity?: string;
  dev?: boolean;
  optional?: boolean;
}

const lock = JSON.parse(checkoutText('package-lock.json')) as {
  packages: Record<string, LockedPackage>;
};

test('H23: every package has a hash in the lock file, or is part of this repository', () => {
  const fetched = Object.entries(lock.packages).filter(([path]) => path.startsWith('node_modules/'));
  assert.ok(fetched.length > 50);
  for (const [path, { link, integrity, dev, optional }] of fetched) {
    // The linter's binaries for other platforms than those it was locked on.
    if (dev === true && optional === true) continue;
    assert.ok(link === true || integrity?.startsWith('sha512-'), `${path} has no hash`);
  }
});

test('H23: nothing that is installed downloads binaries for others', () => {
  const downloaders = /(^|\/)(prebuild-install|node-pre-gyp|node-gyp-build-optional-packages)$/;
  for (const [path, { link }] of Object.entries(lock.packages)) {
    if (downloaders.test(path)) assert.equal(link, true, `${path} is no stand-in`);
  }
  const standIn = packagePath('scripts/no-prebuilt-binaries');
  assert.equal(realpathSync(packagePath('node_modules/prebuild-install')), realpathSync(standIn));
  const { status, stdout } = spawnSync(process.execPath, [`${standIn}/none.cjs`]);
  assert.equal(status, 1);
  assert.equal(`${stdout}`, '');
});

test('H23: compilers and their driver are needed at build time alone', () => {
  assert.equal(lock.packages['node_modules/node-gyp']?.dev, true);
});

test('H23: the SQLite that is loaded was linked on this machine, from objects that lie beside it', () => {
  new Database(':memory:').close();
  const maps = readFileSync('/proc/self/maps', 'utf8');
  const [loaded] = /\S+\/better_sqlite3\.node$/m.exec(maps) ?? [];
  const release = packagePath('node_modules/better-sqlite3/build/Release');
  assert.equal(loaded, `${release}/better_sqlite3.node`);
  const linked = readFileSync(`${release}/obj.target/better_sqlite3.node`);
  assert.ok(linked.equals(readFileSync(loaded)), 'another binary than the one that was linked');
  const objects = readdirSync(`${release}/obj.target`, { recursive: true }).map(String);
  assert.ok(objects.some((name) => name.endsWith('sqlite3.o')));
});
