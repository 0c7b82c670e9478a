/** What is left of a list that is given up, on a plain directory, whatever its removal meets. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, test } from 'node:test';
import { SystemError } from '../../../../src/base/errors.js';
import type { UnfinishedList } from '../../../../src/driver/backends/backend.js';
import { ListFiles } from '../../../../src/driver/backends/reflink/list-files.js';
import { ListMaker } from '../../../../src/driver/backends/reflink/list-maker.js';
import { PoolLayout } from '../../../../src/driver/backends/reflink/pool-layout.js';
import { listName } from '../../../../src/driver/backends/retained/list-directory.js';
import type { StoredList } from '../../../../src/driver/backends/retained/list-graph.js';
import type { BuildChangeListRequest } from '../../../../src/driver/native/change-list-addon.js';
import type { SnapshotFile } from '../../../../src/driver/native/snapshot-file.js';
import { nativeHere } from '../../../support/native-here.js';
import { temporaryDirectory } from '../../../support/temporary.js';

const FAILED = new SystemError('SCAN_MUTABLE', 'scan', '/pool/snapshots/new', 'it was changed');

let lists: string;
let files: ListFiles;
let maker: ListMaker;
let made: string[];
let isAway: boolean;
/** What a step does with its files. True: the list is stored. */
let build: (request: BuildChangeListRequest) => boolean;

beforeEach(() => {
  const layout = new PoolLayout(temporaryDirectory());
  lists = join(layout.root, 'lists');
  isAway = false;
  const use = (work: (opened: unknown) => Promise<unknown>): Promise<unknown> =>
    isAway ? Promise.reject(new Error('the pool is away')) : work({ layout });
  const native = {
    run: async (method: string, request: BuildChangeListRequest) => {
      if (method !== 'buildChangeList') return nativeHere().run(method as 'unlinkFile', request as never);
      return { done: build(request), progress: new BigUint64Array() };
    },
  };
  const directory = { layout, use };
  const snapshots = { delete: async () => undefined };
  files = new ListFiles(native as never, directory as never, snapshots as never);
  made = [];
  const onMade = (list: StoredList) => made.push(listName(list));
  maker = new ListMaker({ native, directory, files, onMade } as never);
});

function begin(): UnfinishedList {
  const file: SnapshotFile = { path: '/pool', device: 1n, inode: 1n, sizeBytes: 4096n };
  return maker.begin('new', 'old', { kind: 'files', target: file, base: file });
}

const temporaries = ({ names, mapNames }: BuildChangeListRequest): string[] =>
  [names, mapNames].flatMap((each) => each?.temporaryPath ?? []);

const end: Record<string, (list: UnfinishedList) => Promise<void>> = {
  'it is given up': (list) => list.abandon(),
  'its snapshot is deleted': () => files.removeSnapshot({ layout: new PoolLayout(join(lists, '..')) } as never, 'new'),
};

for (const [when, run] of Object.entries(end)) {
  test(`a temporary file that could not be removed hinders no other, and goes when ${when}`, async () => {
    for (const blocked of ['old.to.new', 'new.map']) {
      build = (request) => {
        for (const path of temporaries(request)) {
          // A directory is not unlinked.
          if (path.includes(`${blocked}.`)) mkdirSync(path);
          else writeFileSync(path, '');
        }
        throw FAILED;
      };
      const list = begin();
      await assert.rejects(list.step(), FAILED);
      const [left = '', ...others] = readdirSync(lists);
      assert.ok(left.startsWith(`${blocked}.`) && others.length === 0);
      rmSync(join(lists, left), { recursive: true });
      writeFileSync(join(lists, left), '');
      await run(list);
      assert.deepEqual(readdirSync(lists), []);
    }
  });
}

test('a list that is stored is known, whatever the removal of the map before it meets', async () => {
  build = ({ names }) => {
    writeFileSync(names.finalPath, '');
    mkdirSync(join(lists, 'old.map'));
    return true;
  };
  await assert.rejects(begin().step(), { code: 'EISDIR' });
  assert.deepEqual(made, ['old.to.new']);
});

test('what a list leaves while its pool is away goes with its snapshot', async () => {
  build = (request) => {
    for (const path of temporaries(request)) writeFileSync(path, '');
    return false;
  };
  const list = begin();
  assert.equal(await list.step(), false);
  assert.equal(readdirSync(lists).length, 2);
  isAway = true;
  await assert.rejects(list.step(), /the pool is away/);
  await list.abandon();
  isAway = false;
  await end['its snapshot is deleted']?.(list);
  assert.deepEqual(readdirSync(lists), []);
});
