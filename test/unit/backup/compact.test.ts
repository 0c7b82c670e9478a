/** Chains that become one image, by `compact` or by `prune --compact`, on real images without a driver. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { chainOf, type VolumeBackups } from '../../../src/tools/backup/chains.js';
import { type PrunePlan, planCompact, planPrune, prune } from '../../../src/tools/backup/prune.js';
import { imagePathOf } from '../../../src/tools/backup/stored-backup.js';
import { verifyVolume } from '../../../src/tools/backup/verify.js';
import { BackupHistory } from '../../support/backup-history.js';
import { assertSame } from '../../support/backups.js';
import { isNightly } from '../../support/nightly.js';
import { seededRandom } from '../../support/random.js';
import { refused } from '../../support/refusal.js';
import { Workspace } from '../../support/workspace.js';

const { signal } = new AbortController();

let workspace: Workspace;
let history: BackupHistory;

beforeEach(async (t) => {
  workspace?.dispose();
  workspace = new Workspace('compact');
  history = await BackupHistory.begin(workspace.directory, seededRandom(t.name));
});
after(() => workspace.dispose());

const read = (): Promise<VolumeBackups> => history.repository.backupsOf('vol-1');
const directory = (): string => join(history.repository.location, 'vol-1');

async function carryOut(planOf: (volume: VolumeBackups) => PrunePlan): Promise<PrunePlan> {
  const { repository } = history;
  const lock = await repository.lock('vol-1');
  try {
    const plan = planOf(await read());
    await prune(repository, plan, { signal });
    return plan;
  } finally {
    lock.release();
  }
}

/** The points of what is left, with the backups that the snapshots have now. */
async function refresh(): Promise<void> {
  const { backups } = await read();
  const left = history.points.filter((point) => {
    const found = backups.find(({ manifest }) => manifest.snapshot.id === point.backup.manifest.snapshot.id);
    if (found !== undefined) point.backup = found;
    return found !== undefined;
  });
  assert.equal(left.length, backups.length);
  history.points.splice(0, history.points.length, ...left);
}

/** The backups hold what the volume held, and their images are sound. */
async function assertAllGood(points = history.points): Promise<void> {
  const volume = await read();
  assert.deepEqual([volume.superseded, volume.problems], [[], []]);
  for (const { backup, bytes } of points) {
    writeFileSync(workspace.path('device'), bytes);
    await assertSame(workspace.path('device'), imagePathOf(backup));
  }
}

/** Names and digests of all files but the lock. */
const filesOf = (): string[] =>
  readdirSync(directory())
    .filter((name) => name !== '.lock')
    .map(
      (name) =>
        `${name} ${createHash('sha256')
          .update(readFileSync(join(directory(), name)))
          .digest('hex')}`,
    );

/** Of what kind each backup should be, by snapshot: the snapshot of its base, or null. */
class Model {
  readonly #bases = new Map<string, string | null>();

  add(id: string, base: string | null): void {
    this.#bases.set(id, base);
  }

  chain(id: string): string[] {
    const base = this.#bases.get(id) ?? null;
    return base === null ? [id] : [...this.chain(base), id];
  }

  compact(id: string): void {
    this.#bases.set(id, null);
  }

  /** Only the newest backups stay; the newest one of all becomes full if its chain has more images. */
  prune(last: number, most: number): void {
    const ids = [...this.#bases.keys()];
    const kept = new Set(ids.slice(-last));
    const chains = new Map(ids.map((id) => [id, this.chain(id).filter((each) => kept.has(each))]));
    for (const id of ids) {
      if (kept.has(id)) this.#bases.set(id, chains.get(id)?.at(-2) ?? null);
      else this.#bases.delete(id);
    }
    const newest = ids.at(-1) ?? '';
    if ((chains.get(newest)?.length ?? 0) > most) this.#bases.set(newest, null);
  }

  get ids(): string[] {
    return [...this.#bases.keys()];
  }
}

test('whatever is backed up, pruned and compacted in whatever order, each backup has its bytes and the chain of a model', async (t) => {
  const random = seededRandom(`${t.name}: operations`);
  const model = new Model();
  let compactions = 0;
  const operations: Readonly<Record<string, () => Promise<void>>> = {
    add: async () => {
      const base = history.points.at(-1)?.backup.manifest.snapshot.id ?? null;
      await history.add(random.below(6) === 0 ? undefined : 1 + random.below(30), random.below(3) === 0 ? 37 : 0);
      model.add(history.points.at(-1)?.backup.manifest.snapshot.id ?? '', base);
    },
    compact: async () => {
      const id = random.pick(model.ids);
      const { compacted } = await carryOut((volume) => planCompact(volume, id));
      assert.equal(compacted?.images, model.chain(id).length, id);
      if (compacted.images > 1) compactions += 1;
      model.compact(id);
    },
    prune: async () => {
      const [last, most] = [2 + random.below(4), random.below(2) === 0 ? 2 : Number.POSITIVE_INFINITY];
      const { compacted } = await carryOut((volume) => planPrune(volume, { last }, most));
      if (compacted !== null) compactions += 1;
      model.prune(last, most);
    },
  };
  for (let count = 0; count < 3; count += 1) await operations['add']?.();
  const names = ['add', 'add', 'compact', 'compact', 'prune'];
  for (let round = 0; round < (isNightly ? 60 : 4) || compactions < 2; round += 1) {
    await operations[random.pick(names)]?.();
    await refresh();
    const volume = await read();
    const chains = volume.backups.map((each) => chainOf(each, volume).map(({ manifest }) => manifest.snapshot.id));
    assert.deepEqual(
      chains,
      model.ids.map((id) => model.chain(id)),
    );
    await assertAllGood(isNightly ? history.points : [random.pick(history.points)]);
  }
  await assertAllGood();
  assert.deepEqual(await verifyVolume(await read(), { signal }), []);
  console.log(`# ${history.points.length} backups left, ${compactions} compactions`);
});

test('a compacted backup is one image, its manifest says so, and no other file changes', async () => {
  for (let count = 0; count < 4; count += 1) await history.add(20);
  const before = filesOf();
  const isOther = (file: string): boolean => !file.includes('snap-3');
  const old = before.filter((file) => !isOther(file)).map((file) => join(directory(), file.replace(/ .*/, '')));
  const kept = old.map((path) => ({ path, bytes: readFileSync(path) }));
  const { compression } = history.points[2]?.backup.manifest.image ?? assert.fail();
  await carryOut((volume) => planCompact(volume, 'snap-3'));
  await refresh();
  const { manifest } = history.points[2]?.backup ?? assert.fail();
  assert.deepEqual([manifest.base, manifest.method, manifest.image.compression], [null, 'full', compression]);
  assert.equal(manifest.reason, 'it is a synthetic full backup, made of 3 images');
  const now = filesOf();
  assert.deepEqual(now.filter(isOther), before.filter(isOther));
  assert.match(manifest.image.file, /snap-3@1\.qcow2$/);
  assert.equal(now.length, before.length);
  await assertAllGood();

  // It is full already, and a killed command has left the old image beside it.
  for (const { path, bytes } of kept) writeFileSync(path, bytes, { mode: 0o600 });
  assert.equal((await read()).superseded.length, 1);
  const { compacted, rebased } = await carryOut((volume) => planCompact(volume, 'snap-3'));
  assert.deepEqual([compacted?.images, rebased], [1, []]);
  assert.deepEqual(filesOf(), now);

  // The old image stays as long as the new one is not sound, whichever backup is meant.
  for (const { path, bytes } of kept) writeFileSync(path, bytes, { mode: 0o600 });
  truncateSync(join(directory(), manifest.image.file), 65_536);
  const compacting = carryOut((volume) => planCompact(volume, 'snap-1'));
  await refused(compacting, 'FAILED_PRECONDITION', /nothing changes.*snap-3@1\.qcow2/);
  assert.equal(filesOf().length, now.length + kept.length);
});

test('damage in the chain is named, and nothing changes', async () => {
  for (let count = 0; count < 3; count += 1) await history.add(20);
  const flip = (path: string): void => {
    const bytes = readFileSync(path);
    const at = Math.floor(bytes.length / 2);
    bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
    writeFileSync(path, bytes);
  };
  for (const [index, harm] of [flip, rmSync].entries()) {
    const path = imagePathOf(history.points[index]?.backup ?? assert.fail());
    const bytes = readFileSync(path);
    harm(path);
    const before = filesOf();
    const attempts = [
      (volume: VolumeBackups) => planCompact(volume, ''),
      (volume: VolumeBackups) => planPrune(volume, { last: 3 }, 1),
    ];
    for (const planOf of attempts) {
      await refused(carryOut(planOf), 'FAILED_PRECONDITION', new RegExp(`nothing changes.* need ${path}: `));
      assert.deepEqual(filesOf(), before);
    }
    writeFileSync(path, bytes, { mode: 0o600 });
  }
});

test('prune makes an image that it makes full once, and what is below goes when no rule keeps it', async () => {
  for (let count = 0; count < 6; count += 1) await history.add(20);
  // The last two days lie in the next week. The base of the newest goes, so that it gets another image in any case.
  const { rebased, compacted } = await carryOut((volume) => planPrune(volume, { weekly: 2 }, 1));
  const ids = rebased.map(({ backup, onto }) => [backup.manifest.snapshot.id, onto]);
  assert.deepEqual(ids, [
    ['snap-4', null],
    ['snap-6', null],
  ]);
  assert.deepEqual([compacted?.backup.manifest.snapshot.id, compacted?.images], ['snap-6', 6]);
  await refresh();
  await assertAllGood();
  assert.deepEqual(
    history.points.map(({ backup }) => /@\d+/.exec(backup.name)?.[0]),
    ['@1', '@1'],
  );
  await history.add(20);
  const later = await carryOut((volume) => planPrune(volume, { last: 2 }, 2));
  assert.deepEqual([later.rebased, later.compacted], [[], null]);
  await refresh();
  await assertAllGood();
  const chain = chainOf(history.points.at(-1)?.backup ?? assert.fail(), await read());
  assert.deepEqual(
    chain.map(({ manifest }) => manifest.snapshot.id),
    ['snap-6', 'snap-7'],
  );
});

test('zeros that came after the data take no space in a synthetic full image', async () => {
  await history.add();
  await history.zero(600);
  await carryOut((volume) => planCompact(volume, ''));
  await refresh();
  await assertAllGood();
  const [full = 0, now = 0] = history.points.map(({ backup }) => statSync(imagePathOf(backup)).size);
  // Both may have clusters of 128 KiB, and other tables.
  assert.ok(now < full - 400 * 4096, `${now} bytes, and ${full} before`);
});
