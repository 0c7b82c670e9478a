import assert from 'node:assert/strict';
import { existsSync, mkdirSync, renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { makeTarget, removeTarget } from '../../../src/driver/host/layers.js';
import { NativePool } from '../../../src/driver/native/pool.js';
import { refused } from '../../support/refusal.js';
import { temporaryDirectory } from '../../support/temporary.js';

const native = new NativePool(1);
after(() => native.close());
const directory = temporaryDirectory();
const at = (name: string): string => join(directory, name);

test('a symbolic link that has come in further up is not followed', async () => {
  const [real, other] = [at('parent'), at('other')];
  for (const path of [real, other]) mkdirSync(path);
  const path = `${real}/target`;
  renameSync(real, `${real}-moved`);
  symlinkSync(other, real);
  const make = makeTarget(native, path, 'directory');
  await refused(make, 'FAILED_PRECONDITION', /symbolic links/);
  assert.equal(existsSync(`${other}/target`), false);
  mkdirSync(`${other}/target`);
  await refused(removeTarget(native, path), 'FAILED_PRECONDITION', /symbolic links/);
  assert.ok(existsSync(`${other}/target`));
});
