/** Restoring and verifying backups that are damaged, or whose command was killed; and which ones rules keep. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { type KeepRules, kept } from '../../../src/tools/backup/keep-rules.js';
import { planPrune, prune as pruneBackups } from '../../../src/tools/backup/prune.js';
import { assertIntact, restoreToFile } from '../../../src/tools/backup/restore.js';
import { chooseBackup } from '../../../src/tools/backup/select.js';
import { imagePathOf } from '../../../src/tools/backup/stored-backup.js';
import { verifyVolume } from '../../../src/tools/backup/verify.js';
import { BackupHistory } from '../../support/backup-history.js';
import { type Random, seededRandom } from '../../support/random.js';
import { refused } from '../../support/refusal.js';
import { Workspace } from '../../support/workspace.js';

const { signal } = new AbortController();
/** Keeps a copy of a file while a test damages it. */
function keepCopy(path: string): () => void {
  copyFileSync(path, `${path}.kept`);
  return () => copyFileSync(`${path}.kept`, path);
}

let workspace: Workspace;
let history: BackupHistory;

beforeEach(async (t) => {
  workspace?.dispose();
  workspace = new Workspace('restore');
  history = await BackupHistory.begin(workspace.directory, seededRandom(t.name));
});
after(() => workspace.dispose());

async function restored(snapshotId: string): Promise<Buffer> {
  const path = workspace.path('restored');
  const chosen = await chooseBackup(history.repository, { volumeId: '', snapshotId });
  await assertIntact(chosen, { signal });
  await restoreToFile(chosen, { path, replace: true }, { signal });
  const unfinished = readdirSync(workspace.directory).filter((name) => name.endsWith('.partial'));
  assert.deepEqual(unfinished, []);
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

test('a damaged or missing image or manifest is found and named, and what needs it is not restored', async () => {
  for (let count = 0; count < 3; count += 1) await history.add();
  const random = seededRandom('flipped bits');
  for (const [index, { backup }] of history.points.entries()) {
    const image = imagePathOf(backup);
    const manifest = join(backup.directory, backup.name);
    // The newest one needs all of them.
    const harms: [string, () => void][] = [
      [image, () => writeFileSync(image, flipped(readFileSync(image), random))],
      [image, () => truncateSync(image, statSync(image).size - 1)],
      [image, () => rmSync(image)],
      [manifest, () => rmSync(manifest)],
    ];
    if (backup === history.points.at(-1)?.backup) harms.pop();
    for (const [path, harm] of harms) {
      const mend = keepCopy(path);
      harm();
      const found = await problems();
      assert.ok(
        found.some((each) => each.includes(backup.name.slice(0, -5))),
        `${found}`,
      );
      await assertAllRestore(history.points.slice(0, index));
      await refused(restored(''), 'FAILED_PRECONDITION');
      mend();
    }
  }
  await assertAllRestore();
  assert.deepEqual(await problems(), []);
});

function flipped(bytes: Buffer, random: Random): Buffer {
  const at = random.below(bytes.length);
  bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
  return bytes;
}

/** Keeps the newest backups only, and forgets the points of the others. */
async function prune(last: number): Promise<void> {
  const { repository } = history;
  const lock = await repository.lock('vol-1');
  try {
    const plan = planPrune(await repository.backupsOf('vol-1'), { last });
    await pruneBackups(repository, plan, { signal });
  } finally {
    lock.release();
  }
  const { backups } = await repository.backupsOf('vol-1');
  assert.equal(backups.length, Math.min(last, history.points.length));
  history.points.splice(0, history.points.length - last > 0 ? history.points.length - last : 0);
  for (const [index, point] of history.points.entries()) {
    point.backup = backups[index] ?? assert.fail();
  }
}

/** Every file of the repository but the lock, with its bytes. */
function filesOf(directory: string): Map<string, string> {
  const names = readdirSync(directory).filter((name) => name !== '.lock');
  return new Map(
    names.map((name) => {
      const digest = createHash('sha256').update(readFileSync(join(directory, name)));
      return [name, digest.digest('hex')];
    }),
  );
}

test('a backup that stays has its bytes, and no file ever changes, whatever is pruned in whatever order', async () => {
  const random = seededRandom('rounds of pruning');
  const seen = new Map<string, string>();
  for (let round = 0; round < 6; round += 1) {
    for (let count = 1 + random.below(3); count > 0; count -= 1) await history.add(1 + random.below(40));
    if (round > 0) await prune(1 + random.below(4));
    await assertAllRestore();
    assert.deepEqual(await problems(), []);
    for (const [name, digest] of filesOf(join(history.repository.location, 'vol-1'))) {
      assert.equal(seen.get(name) ?? digest, digest, `${name} has changed`);
      seen.set(name, digest);
    }
  }
  const images = [...seen.keys()].filter((name) => /@[1-9]\.qcow2$/.test(name));
  assert.ok(images.length > 1, 'images were made in place of others');
});

test('a copy that never changes nor removes a file restores by itself, after any number of rounds', async () => {
  const copy = workspace.path('copy');
  for (let round = 0; round < 3; round += 1) {
    for (let count = 0; count < 2; count += 1) await history.add(20);
    await prune(2);
    const args = ['copy', '--immutable', '--config', '/dev/null', history.repository.location, copy];
    execFileSync('rclone', args, { stdio: 'pipe' });
  }
  const { location: directory } = history.repository;
  renameSync(directory, workspace.path('gone'));
  renameSync(copy, directory);
  chmodSync(directory, 0o700);
  const { backups } = await history.repository.backupsOf('vol-1');
  assert.equal(backups.length, 6, 'the copy has kept what was pruned');
  await assertAllRestore();
  assert.deepEqual(await problems(), []);
});

test('a kill between any two steps of adding an image leaves all of it or nothing', async () => {
  for (const killedAfter of ['next manifest', 'image'] as const) {
    // A short name: sockets lie below it.
    const directory = workspace.path(killedAfter.slice(0, 1));
    mkdirSync(directory);
    history = await BackupHistory.begin(directory, seededRandom(killedAfter));
    for (let count = 0; count < 2; count += 1) await history.add();
    const [, second] = history.points;
    assert.ok(second !== undefined);
    const image = imagePathOf(second.backup);
    const manifest = join(second.backup.directory, second.backup.name);
    const next = manifest.replace(/json$/, 'json.next');
    renameSync(manifest, next);
    if (killedAfter === 'next manifest') renameSync(image, `${image}.partial`);
    (await history.repository.lock('vol-1')).release();
    assert.ok(!existsSync(next) && !existsSync(`${image}.partial`));
    const { backups } = await history.repository.backupsOf('vol-1');
    const isThere = killedAfter === 'image';
    assert.deepEqual([backups.length, existsSync(image)], [isThere ? 2 : 1, isThere]);
    await assertAllRestore(history.points.slice(0, backups.length));
  }
});

test('the rules keep the newest of each period, and the newest of all', () => {
  const times = [
    '2025-12-28T10:00',
    '2025-12-31T10:00',
    '2026-01-01T09:00',
    '2026-01-01T09:30',
    '2026-01-01T23:00',
    '2026-01-02T00:30',
  ].map((text) => new Date(`${text}Z`));
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
