/**
 * Objects that change where they are stored, seen through each kind of remote: what verify says of them, and that nothing of them
 * is restored. Below crypt no object can be read from the bit on that has changed, and no reason is given.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { StoreError } from '../../../src/tools/backup/object-store.js';
import { RcloneStore } from '../../../src/tools/backup/rclone.js';
import { RemoteRepository } from '../../../src/tools/backup/remote-repository.js';
import { assertIntact, restoreToFile } from '../../../src/tools/backup/restore.js';
import { chooseBackup } from '../../../src/tools/backup/select.js';
import { verifyVolume } from '../../../src/tools/backup/verify.js';
import { BackupHistory } from '../../support/backup-history.js';
import { isNightly } from '../../support/nightly.js';
import { seededRandom } from '../../support/random.js';
import { refused } from '../../support/refusal.js';
import { Remotes, S3_PART_BYTES } from '../../support/remotes.js';
import { openRuntime } from '../../support/runtime.js';
import { S3_ACCOUNT, S3_BUCKET, S3_SUFFIX } from '../../support/s3-server.js';
import { Workspace } from '../../support/workspace.js';

const { signal } = new AbortController();
// A failure that stays is not waited for.
Object.assign(process.env, { RCLONE_LOW_LEVEL_RETRIES: '1', RCLONE_RETRIES: '1' });
const workspace = new Workspace('damaged-remotes');
const remotes = new Remotes(workspace.path('remotes'));
after(async () => {
  await remotes.close();
  workspace.dispose();
});

const KINDS = ['crypt over s3', 'crypt over directory', 'crypt over webdav', 's3', 'webdav', 'directory'] as const;

/** The bytes of an object as it is stored, and what they become. */
const DAMAGES: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  'a flipped bit in the middle': (bytes) => flipped(bytes, bytes.length >> 1),
  'a flipped bit behind the first 10 bytes': (bytes) => flipped(bytes, 10),
  // The last byte of a manifest is a newline, without which it says the same.
  'two bytes less': (bytes) => bytes.subarray(0, -2),
  'a flipped bit in the first byte': (bytes) => flipped(bytes, 0),
  'a flipped bit in the last byte': (bytes) => flipped(bytes, bytes.length - 1),
  'the first half': (bytes) => bytes.subarray(0, bytes.length >> 1),
  nothing: () => Buffer.alloc(0),
  'one byte more': (bytes) => Buffer.concat([bytes, Buffer.alloc(1)]),
  'as many bytes more': (bytes) => Buffer.concat([bytes, bytes]),
};

function flipped(bytes: Buffer, at: number): Buffer {
  const changed = Buffer.from(bytes);
  changed[at] = (changed[at] ?? 0) ^ 1;
  return changed;
}

test('an object that has no hash, where others have one, is compared by its content', async (t) => {
  const objects = remotes.directoryOfObjects();
  const { url } = await remotes.serveS3(objects);
  const bucket = remotes.addS3(url, { ...S3_ACCOUNT, disable_checksum: 'true' });
  const store = await RcloneStore.open(`rclone:${bucket}`, signal);
  t.after(() => store.close());
  const path = workspace.path('in-parts');
  writeFileSync(path, seededRandom(t.name).bytes(2 * S3_PART_BYTES));
  await store.put('in-parts', path);
  await store.compare('in-parts', path);
  const file = join(objects, S3_BUCKET, `in-parts${S3_SUFFIX}`);
  writeFileSync(file, flipped(readFileSync(file), S3_PART_BYTES));
  await assert.rejects(store.compare('in-parts', path), StoreError);
});

for (const kind of isNightly ? KINDS : KINDS.slice(0, 1)) {
  test(`what changes in an object at a remote (${kind}) is named by verify, and nothing of it is restored`, async (t) => {
    const location = await remotes.make(kind);
    const runtime = await openRuntime(workspace.path('runtime'));
    const access = { spool: workspace.path(`spool of ${kind}`), runtime, signal };
    const writer = await RemoteRepository.open(location, access);
    const history = await BackupHistory.begin(workspace.directory, seededRandom(t.name), writer);
    for (let count = 0; count < 2; count += 1) await history.add(30);
    await writer.close();
    const [full, increment] = history.points;
    assert.ok(full !== undefined && increment !== undefined);
    // As verify does, which has copies of the manifests.
    const repository = await RemoteRepository.open(location, { ...access, readsAll: true });
    t.after(() => repository.close());
    const target = workspace.path('restored');

    async function problems(): Promise<string> {
      const volume = await repository.backupsOf('vol-1');
      return (await verifyVolume(volume, { signal })).map(({ path, found }) => `${path}: ${found}`).join('\n');
    }

    async function restored(snapshotId: string): Promise<Buffer> {
      const chosen = await chooseBackup(repository, { volumeId: 'vol-1', snapshotId });
      await assertIntact(chosen, { signal });
      await restoreToFile(chosen, { path: target, replace: true }, { signal });
      return readFileSync(target);
    }

    /** Both are refused, because one is based on the other; the target stays as it is. */
    async function assertRefused(): Promise<void> {
      writeFileSync(target, 'what was there');
      for (const { manifest } of [full?.backup, increment?.backup].flatMap((each) => each ?? [])) {
        await refused(restored(manifest.snapshot.id), ['FAILED_PRECONDITION', 'NOT_FOUND'], /snap-[12]/);
        assert.equal(readFileSync(target, 'utf8'), 'what was there');
      }
      assert.ok(!existsSync(`${target}.partial`));
    }

    const { image } = full.backup.manifest;
    const names = { image: image.file, manifest: full.backup.name };
    for (const [what, name] of Object.entries(names)) {
      const file = await remotes.fileOf(location, `vol-1/${name}`);
      const sound = readFileSync(file);
      for (const [damage, change] of Object.entries(DAMAGES).slice(0, isNightly ? undefined : 3)) {
        await t.test(`${damage} in the ${what}`, async () => {
          writeFileSync(file, change(sound));
          const found = await problems();
          assert.ok(found.includes(`vol-1/${name}`), `${name} is not named: ${found}`);
          await assertRefused();
          writeFileSync(file, sound);
        });
      }
      await t.test(`another object in place of the ${what}`, async () => {
        const { manifest, name: otherName } = increment.backup;
        const other = await remotes.fileOf(location, `vol-1/${what === 'image' ? manifest.image.file : otherName}`);
        const own = readFileSync(other);
        writeFileSync(file, own);
        writeFileSync(other, sound);
        const found = await problems();
        for (const each of [name, what === 'image' ? manifest.image.file : otherName]) {
          assert.ok(found.includes(`vol-1/${each}`), `${each} is not named: ${found}`);
        }
        await assertRefused();
        writeFileSync(other, own);
        writeFileSync(file, sound);
      });
    }
    assert.equal(await problems(), '');
    for (const { backup, bytes } of history.points) {
      assert.ok((await restored(backup.manifest.snapshot.id)).equals(bytes));
    }
  });
}
