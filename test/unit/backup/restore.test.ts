/** Restoring, verifying and pruning backups whose images the real programs have made. */
import assert from 'node:assert/strict';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { checksumSegments } from '../../../src/backup/checksums.js';
import { type KeepRules, kept } from '../../../src/backup/keep-rules.js';
import { formatManifest } from '../../../src/backup/manifest.js';
import { planPrune, prune } from '../../../src/backup/prune.js';
import { imagePathOf } from '../../../src/backup/repository.js';
import { assertIntact, restoreToFile } from '../../../src/backup/restore.js';
import { chooseBackup } from '../../../src/backup/select.js';
import { verifyVolume } from '../../../src/backup/verify.js';
import { checkImage, rebaseImage } from '../../../src/nbd/image.js';
import { BackupHistory, keepCopy } from '../../support/backup-history.js';
import { rejectsWith } from '../../support/expect-status.js';
import { seededRandom } from '../../support/random.js';
import { Workspace } from '../../support/workspace.js';

const { signal } = new AbortController();
let workspace: Workspace;
let history: BackupHistory;

beforeEach((t) => {
  workspace?.dispose();
  workspace = new Workspace('restore');
  history = new BackupHistory(workspace.directory, seededRandom(t.name));
});
after(() => workspace.dispose());

async function restored(snapshotId: string): Promise<Buffer> {
  const path = workspace.path('restored');
  const chosen = await chooseBackup(history.repository, { volumeId: '', snapshotId });
  await assertIntact(chosen, { signal });
  await restoreToFile(chosen, { path, replace: true }, { signal });
  assert.ok(!existsSync(`${path}.partial`));
  return readFileSync(path);
}

async function assertAllRestore(points = history.points): Promise<void> {
  for (const { backup, bytes } of points) {
    const { id } = backup.manifest.snapshot;
    assert.ok((await restored(id)).equals(bytes), `${id} is restored with its bytes`);
  }
}

const problems = async (): Promise<string[]> => {
  const volume = await history.repository.backupsOf('vol-1');
  const found = await verifyVolume(volume, { signal });
  return found.map(({ path, found: what }) => `${path}: ${what}`);
};

test('every point of a history is restored with its bytes, the newest by default', async () => {
  for (let count = 0; count < 8; count += 1) await history.add(count === 4 ? 'full' : undefined);
  await assertAllRestore();
  assert.deepEqual(await problems(), []);
  const newest = history.points.at(-1)?.bytes ?? Buffer.alloc(0);
  assert.ok((await restored('')).equals(newest));
});

test('a file that exists is replaced on request only', async () => {
  await history.add();
  const path = workspace.path('there');
  writeFileSync(path, 'mine');
  const chosen = await chooseBackup(history.repository, { volumeId: '', snapshotId: '' });
  await rejectsWith(
    restoreToFile(chosen, { path, replace: false }, { signal }),
    'ALREADY_EXISTS',
    /--force/,
  );
  assert.equal(readFileSync(path, 'utf8'), 'mine');
});

test('a bit flipped anywhere in an image, or a shorter image, is found and named, and nothing is restored', async () => {
  for (let count = 0; count < 3; count += 1) await history.add();
  const random = seededRandom('flipped bits');
  for (const { backup } of history.points) {
    const path = imagePathOf(backup);
    const mend = keepCopy(path);
    for (const harm of ['flip', 'flip', 'cut'] as const) {
      const bytes = readFileSync(path);
      if (harm === 'cut') truncateSync(path, bytes.length - 1);
      else {
        const at = random.below(bytes.length);
        bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
        writeFileSync(path, bytes);
      }
      const [problem = ''] = await problems();
      assert.ok(problem.startsWith(`${path}: the image `), problem);
      // The newest one needs all of them.
      await rejectsWith(
        restored(''),
        'FAILED_PRECONDITION',
        new RegExp(`${backup.manifest.image.file}.*older backup`),
      );
      mend();
    }
  }
  assert.deepEqual(await problems(), []);
});

test('a missing image or manifest is named, and older backups are still restored', async () => {
  for (let count = 0; count < 3; count += 1) await history.add();
  const [first, second] = history.points;
  assert.ok(first !== undefined && second !== undefined);
  const image = imagePathOf(second.backup);
  const manifest = join(second.backup.directory, second.backup.name);
  for (const path of [image, manifest]) {
    const mend = keepCopy(path);
    rmSync(path);
    assert.ok((await problems()).some((each) => each.includes(second.backup.name.slice(0, -5))));
    await rejectsWith(restored(''), 'FAILED_PRECONDITION');
    await assertAllRestore([first]);
    mend();
  }
  await assertAllRestore();
});

test('pruning keeps what the rules say, and every kept backup has its bytes', async () => {
  const random = seededRandom('prune');
  for (let count = 0; count < 6; count += 1)
    await history.add(random.below(5) === 0 ? 'full' : undefined);
  let { points } = history;
  while (points.length > 1) {
    const rules: KeepRules = { last: 1 + random.below(points.length - 1) };
    // Removes from the middle, too: the rules look at times only.
    const ids = points.map(({ backup }) => backup.manifest.snapshot.id);
    const gone = ids[random.below(ids.length - 1)];
    const lock = await history.repository.lock('vol-1');
    try {
      const volume = await history.repository.backupsOf('vol-1');
      const plan = planPrune(volume, rules);
      assert.equal(plan.kept.length, rules.last);
      const one = volume.backups.find(({ manifest }) => manifest.snapshot.id === gone);
      assert.ok(one !== undefined);
      const dependents = volume.backups.filter(
        ({ manifest }) => manifest.base?.manifest === one.name,
      );
      const onto = volume.backups.find(({ name }) => name === one.manifest.base?.manifest) ?? null;
      const rebased = dependents.map((backup) => ({ backup, onto }));
      await prune(history.repository, { volume, kept: [], removed: [one], rebased }, { signal });
    } finally {
      lock.release();
    }
    points = points.filter(({ backup }) => backup.manifest.snapshot.id !== gone);
    assert.deepEqual(await problems(), []);
    await assertAllRestore(points);
    const images = readdirSync(history.repository.volumeDirectory('vol-1'));
    assert.equal(images.filter((name) => name.endsWith('.qcow2')).length, points.length);
    for (const { backup } of points) {
      const { corruptions, leaks } = await checkImage(imagePathOf(backup));
      assert.deepEqual({ corruptions, leaks }, { corruptions: 0, leaks: 0 });
    }
  }
});

test('a kill between any two steps of replacing an image leaves the old one or the new one', async () => {
  for (const killedAfter of ['next manifest', 'image'] as const) {
    const directory = workspace.path(killedAfter.replace(' ', '-'));
    mkdirSync(directory);
    history = new BackupHistory(directory, seededRandom(killedAfter));
    for (let count = 0; count < 2; count += 1) await history.add();
    const [, second] = history.points;
    assert.ok(second !== undefined);
    const image = imagePathOf(second.backup);
    const partial = `${image}.partial`;
    copyFileSync(image, partial);
    await rebaseImage({ path: partial, backing: null });
    const { bytes, sha256 } = await checksumSegments(partial);
    const { manifest } = second.backup;
    const full = { base: null, method: 'full' as const };
    const next = { ...manifest, ...full, image: { ...manifest.image, bytes, sha256 } };
    const nextPath = join(
      second.backup.directory,
      second.backup.name.replace(/json$/, 'json.next'),
    );
    writeFileSync(nextPath, formatManifest(next));
    if (killedAfter === 'image') renameSync(partial, image);
    (await history.repository.lock('vol-1')).release();
    assert.ok(!existsSync(nextPath) && !existsSync(partial));
    const [, found] = (await history.repository.backupsOf('vol-1')).backups;
    assert.equal(found?.manifest.method, killedAfter === 'image' ? 'full' : 'delta');
    await assertAllRestore();
  }
});

test('the rules keep the newest of each period, and the newest of all', () => {
  const at = (text: string): Date => new Date(`${text}Z`);
  const times = [
    at('2025-12-28T10:00:00'),
    at('2025-12-31T10:00:00'),
    at('2026-01-01T09:00:00'),
    at('2026-01-01T09:30:00'),
    at('2026-01-01T23:00:00'),
    at('2026-01-02T00:30:00'),
  ];
  const keeps = (rules: KeepRules): number[] => [...kept(times, rules)].sort();
  assert.deepEqual(keeps({}), [5]);
  assert.deepEqual(keeps({ last: 3 }), [3, 4, 5]);
  assert.deepEqual(keeps({ daily: 3 }), [1, 4, 5]);
  assert.deepEqual(keeps({ hourly: 3 }), [3, 4, 5]);
  // 2025-12-31 lies in the first ISO week of 2026.
  assert.deepEqual(keeps({ weekly: 2 }), [0, 5]);
  assert.deepEqual(keeps({ monthly: 2 }), [1, 5]);
  assert.deepEqual(keeps({ yearly: 5 }), [1, 5]);
});
