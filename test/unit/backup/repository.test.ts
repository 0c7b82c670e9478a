/** Manifests and the repository that holds them. */
import assert from 'node:assert/strict';
import { readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { chainOf } from '../../../src/tools/backup/chains.js';
import { checksumSegments, SEGMENT_BYTES } from '../../../src/tools/backup/checksums.js';
import { DirectoryRepository } from '../../../src/tools/backup/directory-repository.js';
import { encodeId } from '../../../src/tools/backup/file-names.js';
import { type BaseName, formatManifest, type Manifest, parseManifest } from '../../../src/tools/backup/manifest.js';
import type { Backup } from '../../../src/tools/backup/stored-backup.js';
import { testManifest } from '../../support/backup-files.js';
import { seededRandom } from '../../support/random.js';
import { refused, throwsRefusal } from '../../support/refusal.js';
import { Workspace } from '../../support/workspace.js';

const full = testManifest('s1', 1);
const delta = testManifest('s2', 2, baseOf('s1', 1));

function baseOf(snapshotId: string, day: number): BaseName {
  return { driver: 'a driver', snapshotId, creationTime: testManifest('', day).snapshot.creationTime };
}

test('a manifest is read as it was written, sizes beyond 2^53 included', () => {
  for (const manifest of [full, delta, { ...full, reason: 'it is the first one' }]) {
    assert.deepEqual(parseManifest(formatManifest(manifest), '/b/one.json'), manifest);
  }
});

test('a manifest with any one bit flipped is refused, and the path is named', () => {
  // White space between the fields is no part of what they say.
  const text = Buffer.from(JSON.stringify(JSON.parse(formatManifest(delta))));
  const random = seededRandom('manifest');
  for (let round = 0; round < 300; round += 1) {
    const bytes = Buffer.from(text);
    const at = random.below(bytes.length);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
    const parse = () => parseManifest(bytes.toString(), '/b/two.json');
    throwsRefusal(parse, 'FAILED_PRECONDITION', /\/b\/two\.json/);
  }
});

test('a manifest of another version says so', () => {
  const text = formatManifest(full).replace('"version": 1', '"version": 2');
  throwsRefusal(() => parseManifest(text, '/b/x.json'), 'FAILED_PRECONDITION', /version 2/);
});

test('names of files lead nowhere but beside the manifest', () => {
  for (const file of ['../other', '/etc/passwd', 'nbd:host:1', '', '..']) {
    const text = formatManifest({ ...full, image: { ...full.image, file } });
    throwsRefusal(() => parseManifest(text, '/b/x.json'), 'FAILED_PRECONDITION', /image\.file/);
  }
});

test('a manifest that is no object, or lacks a field, names what is missing', () => {
  throwsRefusal(() => parseManifest('[]', '/b/x.json'), 'FAILED_PRECONDITION', /no object/);
  throwsRefusal(() => parseManifest('{', '/b/x.json'), 'FAILED_PRECONDITION', /not JSON/);
  throwsRefusal(() => parseManifest('{}', '/b/x.json'), 'FAILED_PRECONDITION', /version/);
});

let workspace: Workspace;
let repository: DirectoryRepository;

beforeEach(async () => {
  workspace?.dispose();
  workspace = new Workspace('repository');
  repository = await DirectoryRepository.open(workspace.path('backups'), { create: true });
});
after(() => workspace.dispose());

async function add(id: string, day: number, base: Manifest['base'] = null): Promise<Backup> {
  const lock = await repository.lock('vol-1');
  try {
    const creationTime = new Date(Date.UTC(2026, 0, day));
    const paths = await repository.begin('vol-1', { id, creationTime });
    writeFileSync(paths.imagePartial, 'image');
    writeFileSync(paths.rangesPartial, '0 4096\n');
    const manifest = testManifest(id, day, base);
    return await repository.commit(paths, { ...manifest, image: { ...manifest.image, file: paths.imageFile } });
  } finally {
    lock.release();
  }
}

test('backups are listed by the time of their snapshots, a second one of a snapshot is refused', async () => {
  await add('s2', 2);
  await add('s1', 1);
  await refused(add('s1', 1), 'ALREADY_EXISTS', /s1/);
  const [volume] = await repository.all();
  const names = volume?.backups.map(({ name }) => name);
  assert.deepEqual(names, ['20260101T000000.000Z-s1.json', '20260102T000000.000Z-s2.json']);
});

test('two writers of a volume exclude each other', async () => {
  const lock = await repository.lock('vol-1');
  await refused(repository.lock('vol-1'), 'ABORTED', /another command/);
  (await repository.lock('vol-2')).release();
  lock.release();
  (await repository.lock('vol-1')).release();
});

test('a lock file that is a link to another file is not followed', async () => {
  const lock = join(repository.volumeDirectory('vol-1'), '.lock');
  (await repository.lock('vol-1')).release();
  rmSync(lock);
  symlinkSync('/nowhere/else', lock);
  await assert.rejects(repository.lock('vol-1'), { code: 'ELOOP' });
});

test('a kill while a backup is added or removed leaves no image that no manifest names', async () => {
  const { directory, name } = await add('s1', 1);
  const path = join(directory, name);
  const settled = async (): Promise<string[]> => {
    (await repository.lock('vol-1')).release();
    return readdirSync(directory).filter((each) => each !== '.lock');
  };
  renameSync(path, `${path}.removed`);
  assert.deepEqual(await settled(), []);
  await add('s1', 1);
  const image = path.replace(/json$/, 'qcow2');
  renameSync(path, `${path}.next`);
  renameSync(image, `${image}.partial`);
  assert.deepEqual(await settled(), []);
});

test('a chain begins with a full backup, and a missing link is named', async () => {
  const first = await add('s1', 1);
  await add('s2', 2, baseOf('s1', 1));
  const third = await add('s3', 3, baseOf('s2', 2));
  const volume = await repository.backupsOf('vol-1');
  assert.deepEqual(
    chainOf(third, volume).map(({ manifest }) => manifest.snapshot.id),
    ['s1', 's2', 's3'],
  );
  const lacking = { ...volume, backups: [first, third] };
  throwsRefusal(() => chainOf(third, lacking), 'FAILED_PRECONDITION', /that of snapshot s2/);
});

test('a snapshot may have several images: the newest that is there with all that it is based on is taken', async () => {
  const first = await add('s1', 1);
  const second = await add('s2', 2, baseOf('s1', 1));
  const { directory } = second;
  const lock = await repository.lock('vol-1');
  const paths = await repository.beginNext(second);
  assert.match(paths.name, /-s2@1\.json$/);
  writeFileSync(paths.imagePartial, 'image');
  const { manifest } = second;
  const image = { ...manifest.image, file: paths.imageFile };
  const next = await repository.commit(paths, { ...manifest, base: null, method: 'full', image });
  lock.release();
  const seen = async (): Promise<unknown> => {
    const { backups, superseded, problems } = await repository.backupsOf('vol-1');
    assert.deepEqual(problems, []);
    return [backups, superseded].map((some) => some.map(({ name }) => name));
  };
  assert.deepEqual(await seen(), [[first.name, next.name], [second.name]]);
  assert.match((await repository.beginNext(next)).name, /-s2@2\.json$/);
  // As in a copy that is not complete.
  renameSync(join(directory, paths.imageFile), workspace.path('image'));
  assert.deepEqual(await seen(), [[first.name, second.name], [next.name]]);
  rmSync(join(directory, first.manifest.image.file));
  assert.deepEqual(await seen(), [[first.name, next.name], []]);
});

test('an image without a manifest is not replaced', async () => {
  const { directory, name, manifest } = await add('s1', 1);
  rmSync(join(directory, name));
  await refused(add('s1', 1), 'ALREADY_EXISTS', /exists and has no manifest/);
  assert.ok(readdirSync(directory).includes(manifest.image.file));
});

test('ids become file names, also long and hostile ones', () => {
  assert.equal(encodeId('vol-1.a_b'), 'vol-1.a_b');
  assert.equal(encodeId('../etc'), '%2E.%2Fetc');
  assert.equal(encodeId('a b/ü'), 'a%20b%2F%C3%BC');
  const long = encodeId('x'.repeat(300));
  assert.ok(long.length <= 180);
  assert.notEqual(long, encodeId('x'.repeat(301)));
});

test('checksums are those of the segments, and change with any byte', async () => {
  const path = workspace.path('image');
  const bytes = Buffer.alloc(SEGMENT_BYTES + 5, 1);
  writeFileSync(path, bytes);
  const before = await checksumSegments(path);
  assert.equal(before.bytes, BigInt(bytes.length));
  assert.equal(before.sha256.length, 2);
  bytes[SEGMENT_BYTES + 4] = 2;
  writeFileSync(path, bytes);
  const { sha256 } = await checksumSegments(path);
  assert.equal(sha256[0], before.sha256[0]);
  assert.notEqual(sha256[1], before.sha256[1]);
});
