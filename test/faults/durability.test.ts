/** The rule over the steps of a call finds what a power cut would undo: on traces written by hand. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { undurable } from './durability.js';

const NEW_FILE = [
  'open <pool>/volumes/<vol>.tmp #1',
  'ftruncate <pool>/volumes/<vol>.tmp #1',
  'fsync <pool>/volumes/<vol>.tmp #1',
  'rename <pool>/volumes/<vol>.tmp <pool>/volumes/<vol> #1',
  'fsync <pool>/volumes #1',
];
const COMMIT = ['write <state>/catalogue.sqlite-wal #1', 'fdatasync <state>/catalogue.sqlite-wal #1'];

test('a file that is flushed, named and flushed by its directory is durable, and so is a commit', () => {
  assert.deepEqual(undurable([...COMMIT, ...NEW_FILE]), []);
  assert.deepEqual(undurable(['write <state>/catalogue.sqlite #1']), []);
  assert.deepEqual(undurable(['mkdir <work>/pods/1 #1', 'unlink /dev/x #1']), []);
});

test('a flush that is left out, or comes too early, is found', () => {
  for (const flush of [...COMMIT, ...NEW_FILE].filter((step) => /^f(data)?sync/.test(step))) {
    const steps = [...COMMIT, ...NEW_FILE].filter((step) => step !== flush);
    assert.notDeepEqual(undurable(steps), [], flush);
    if (!flush.startsWith('fsync <pool>/volumes #')) {
      assert.notDeepEqual(undurable([flush, ...steps]), [], `${flush} first`);
    }
  }
  const [open = '', change = '', flush = '', ...named] = NEW_FILE;
  assert.match(undurable([open, flush, change, ...named]).join(), /not flushed after ftruncate/);
});

test('a name that is removed, linked or made is durable after a flush of its directory', () => {
  for (const step of [
    'unlink <pool>/snapshots/<snap> #1',
    'link <pool>/lists/<snap>.delta <pool>/snapshots/x #1',
    'mkdir <pool>/snapshots/x #1',
  ]) {
    assert.equal(undurable([step]).length, 1, step);
    assert.deepEqual(undurable([step, 'fsync <pool>/snapshots #1']), []);
    assert.deepEqual(undurable([step, 'syncfs <pool> #1']), []);
    assert.equal(undurable([step, 'syncfs <state> #1']).length, 1);
  }
});

test('a removal of a list may be undone by a power cut, and a new name of a base may not', () => {
  assert.deepEqual(undurable(['unlink <pool>/lists/<snap>.delta #1', 'write <pool>/lists/x.tmp #1']), []);
  assert.deepEqual(undurable(['rename <pool>/bases/x.hidden <pool>/bases/x.dropped #1']), []);
  assert.equal(undurable(['rename <pool>/bases/x.tmp <pool>/bases/x.hidden #1']).length, 1);
});
