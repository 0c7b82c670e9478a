/**
 * Backups at remotes of rclone: a directory, WebDAV, S3, each also below crypt. Everything is restored from the remote alone. What
 * goes wrong at a remote is in broken-remotes.test.ts and damaged-remotes.test.ts.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { after, test } from 'node:test';
import { planCompact, planPrune, prune } from '../../../src/tools/backup/prune.js';
import { RemoteRepository } from '../../../src/tools/backup/remote-repository.js';
import type { Repository } from '../../../src/tools/backup/repository.js';
import { assertIntact, restoreToFile } from '../../../src/tools/backup/restore.js';
import { chooseBackup } from '../../../src/tools/backup/select.js';
import { verifyVolume } from '../../../src/tools/backup/verify.js';
import { BackupHistory } from '../../support/backup-history.js';
import { isNightly } from '../../support/nightly.js';
import { seededRandom } from '../../support/random.js';
import { Remotes, S3_PART_BYTES } from '../../support/remotes.js';
import { openRuntime } from '../../support/runtime.js';
import { Workspace } from '../../support/workspace.js';

const { signal } = new AbortController();
const workspace = new Workspace('remotes');
const remotes = new Remotes(workspace.path('remotes'));
after(async () => {
  await remotes.close();
  workspace.dispose();
});

async function assertRestores(repository: Repository, { points }: BackupHistory): Promise<void> {
  for (const { backup, bytes } of points) {
    const path = workspace.path('restored');
    const { id } = backup.manifest.snapshot;
    const chosen = await chooseBackup(repository, { volumeId: '', snapshotId: id });
    await assertIntact(chosen, { signal });
    await restoreToFile(chosen, { path, replace: true }, { signal });
    assert.ok(readFileSync(path).equals(bytes), `${id} is restored with its bytes`);
  }
}

const KINDS = ['directory', 'crypt over s3', 'crypt over webdav', 's3', 'webdav', 'crypt over directory'] as const;
/** Full images are more than two parts of an upload to S3, and increments are less than one. */
const SIZE_BYTES = 2 * S3_PART_BYTES + (1 << 20);

for (const kind of isNightly ? KINDS : KINDS.slice(0, 2)) {
  test(`a chain at a remote (${kind}) is restored, verified, pruned and compacted without a copy of it on this machine`, async (t) => {
    const location = await remotes.make(kind);
    const spool = workspace.path(`spool of ${kind}`);
    const runtime = await openRuntime(workspace.path('runtime'));
    const open = (): Promise<RemoteRepository> => RemoteRepository.open(location, { spool, runtime, signal });
    const writer = await open();
    const history = await BackupHistory.begin(workspace.directory, seededRandom(t.name), writer, SIZE_BYTES);
    for (let count = 0; count < 3; count += 1) await history.add(20);
    await writer.close();
    assert.deepEqual(imagesBelow(spool), [], 'no image stays in the spool');
    rmSync(spool, { recursive: true });
    const reader = await open();
    try {
      await assertRestores(reader, history);
      const volume = await reader.backupsOf('vol-1');
      assert.equal(volume.backups.length, 3);
      assert.deepEqual(await verifyVolume(volume, { signal }), []);
      const lock = await reader.lock('vol-1');
      await prune(reader, planPrune(await reader.backupsOf('vol-1'), { last: 2 }), { signal });
      const left = await reader.backupsOf('vol-1');
      assert.deepEqual(
        left.backups.map(({ manifest }) => manifest.snapshot.id),
        ['snap-2', 'snap-3'],
      );
      assert.deepEqual([...left.superseded, ...left.problems], []);
      history.points.splice(0, 1);
      await assertRestores(reader, history);
      assert.equal((await remotes.objects(location)).length, 4, 'two images and two manifests are left');
      await prune(reader, planCompact(left, 'snap-3'), { signal });
      lock.release();
      const { backups, superseded } = await reader.backupsOf('vol-1');
      assert.deepEqual([backups.map(({ manifest }) => manifest.base), superseded], [[null, null], []]);
      await assertRestores(reader, history);
      assert.equal((await remotes.objects(location)).length, 4);
    } finally {
      await reader.close();
    }
    assert.deepEqual(imagesBelow(spool), []);
  });
}

const imagesBelow = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((name) => /qcow2|going|partial/.test(name));
