/** Restoring and verifying backups that are damaged, or whose command was killed; and which ones rules keep. */
import assert from 'node:assert/strict';
import {
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
import { checksumSegments } from '../../../src/tools/backup/checksums.js';
import { type KeepRules, kept } from '../../../src/tools/backup/keep-rules.js';
import { formatManifest } from '../../../src/tools/backup/manifest.js';
import { imagePathOf } from '../../../src/tools/backup/repository.js';
import { assertIntact, restoreToFile } from '../../../src/tools/backup/restore.js';
import { chooseBackup } from '../../../src/tools/backup/select.js';
import { verifyVolume } from '../../../src/tools/backup/verify.js';
import { rebaseImage } from '../../../src/tools/nbd/image.js';
import { BackupHistory } from '../../support/backup-history.js';
import { rejectsWith } from '../../support/expect-status.js';
import { type Random, seededRandom } from '../../support/random.js';
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
      await rejectsWith(restored(''), 'FAILED_PRECONDITION');
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

test('a kill between any two steps of replacing an image leaves the old one or the new one', async () => {
  for (const killedAfter of ['next manifest', 'image'] as const) {
    // A short name: sockets lie below it.
    const directory = workspace.path(killedAfter.slice(0, 1));
    mkdirSync(directory);
    history = await BackupHistory.begin(directory, seededRandom(killedAfter));
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
  const times = [
    ...['2025-12-28T10:00', '2025-12-31T10:00', '2026-01-01T09:00', '2026-01-01T09:30'],
    ...['2026-01-01T23:00', '2026-01-02T00:30'],
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
