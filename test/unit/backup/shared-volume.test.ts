/**
 * Two commands at a volume in a store without locks: every order of their steps, with and without the death of one of them. The store
 * is in memory; rclone's is in remotes.test.ts.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CsiError, StatusCode } from '../../../src/base/errors.js';
import { baseNameOf, chainOf } from '../../../src/tools/backup/chains.js';
import type { BackupImages } from '../../../src/tools/backup/images.js';
import { formatManifest, type Manifest } from '../../../src/tools/backup/manifest.js';
import { type ObjectStore, StoreError } from '../../../src/tools/backup/object-store.js';
import { GRACE_MS, SharedVolume } from '../../../src/tools/backup/shared-volume.js';
import type { Backup } from '../../../src/tools/backup/stored-backup.js';
import { testManifest } from '../../support/backup-files.js';
import { everyOrder, type Interleaving, type Step } from '../../support/interleavings.js';
import { isNightly } from '../../support/nightly.js';
import { refused } from '../../support/refusal.js';

const DIRECTORY = 'vol-1';

/** Objects are texts. A put that is cut has two steps: first, a part of the object stands under its name. */
class MemoryStore implements ObjectStore {
  readonly location = 'a store';

  constructor(
    private readonly objects: Map<string, string>,
    private readonly step: Step,
    private readonly cutsPuts: boolean,
    private readonly keepsBack: string | null,
  ) {}

  async list(directory: string): Promise<ReadonlyMap<string, bigint>> {
    await this.step();
    const sizes = [...this.objects].map(
      ([name, text]) => [name.slice(directory.length + 1), BigInt(text.length)] as const,
    );
    return new Map(sizes);
  }

  async readText(name: string): Promise<string> {
    await this.step();
    if (name === this.keepsBack) throw new StoreError(`${name} is kept back`);
    const text = this.objects.get(name);
    if (text === undefined) throw CsiError.notFound(`there is no ${name}`);
    return text;
  }

  /** @param text stands for the path of a file that has it */
  async put(name: string, text: string): Promise<void> {
    await this.step();
    if (this.cutsPuts) {
      this.objects.set(name, text.slice(0, text.length / 2));
      await this.step();
    }
    this.objects.set(name, text);
  }

  async compare(): Promise<void> {}

  async remove(name: string): Promise<void> {
    await this.step();
    this.objects.delete(name);
  }
}

const NO_IMAGES = {} as BackupImages;

interface World {
  step: Step;
  copies?: Map<string, string>;
  cutsPuts?: boolean;
  /** The name of an object that the store does not give. */
  keepsBack?: string | null;
}

/** A command at the volume. All of one world share the copies of manifests, which never change. */
function volumeOf(
  objects: Map<string, string>,
  writer: number,
  { step, copies = new Map(), cutsPuts = false, keepsBack = null }: World,
): SharedVolume {
  const files = {
    id: `${writer}`.repeat(16),
    manifest: async (name: string) => copies.get(name) ?? null,
    keepManifest: async (name: string, text: string) => void copies.set(name, text),
    keepManifestsOf: async () => undefined,
    withFile: (name: string, use: (path: string) => Promise<void>) => use(`a file with the name ${name}`),
  };
  return new SharedVolume(new MemoryStore(objects, step, cutsPuts, keepsBack), DIRECTORY, files, () => NO_IMAGES);
}

type Named = Pick<Backup, 'manifest' | 'name'>;

let made = 0;
/** A backup with a name of its own. */
function backup(id: string, day: number, base: Named | null = null): Named {
  made += 1;
  const manifest = testManifest(id, day, base && baseNameOf(base as Backup));
  const time = Date.now().toString(16).padStart(12, '0');
  const stem = manifest.image.file.replace('.qcow2', `@0-${time}${made.toString(16).padStart(8, '0')}`);
  return { manifest: { ...manifest, image: { ...manifest.image, file: `${stem}.qcow2` } }, name: `${stem}.json` };
}

const IMAGE = '12345';
const filesOf = ({ manifest, name }: Named): [string, string][] => [
  [`${DIRECTORY}/${manifest.image.file}`, IMAGE],
  [`${DIRECTORY}/${name}`, formatManifest(manifest)],
];

const add = (volume: SharedVolume, added: Named): Promise<unknown> =>
  volume.add(added, { image: IMAGE, manifest: formatManifest(added.manifest) });

const now: Step = () => Promise.resolve();

/** The snapshots whose backups are complete. */
async function complete(objects: Map<string, string>): Promise<string[]> {
  const found = await volumeOf(objects, 9, { step: now }).read();
  const isComplete = (each: Backup): boolean => {
    try {
      return chainOf(each, found).every(({ manifest }: { manifest: Manifest }) =>
        objects.has(`${DIRECTORY}/${manifest.image.file}`),
      );
    } catch {
      return false;
    }
  };
  return found.backups.filter(isComplete).map(({ manifest }) => manifest.snapshot.id);
}

type Ended = 'done' | 'ABORTED' | 'died';

interface Scene {
  /** Backups that are there at first. */
  there: readonly Named[];
  actors: readonly ((volume: SharedVolume) => Promise<unknown>)[];
  /** Snapshots that are complete at the end, by how the actors have ended. */
  must(ended: readonly Ended[]): readonly string[];
  /** So many orders that it runs at night alone, the longest ones without deaths and cut puts. */
  atNight?: { readonly deaths: 0 | 1 };
}

const full = backup('full', 1);
const b = backup('b', 2, full);
const y = backup('y', 3, b);
const fullAgain = backup('full', 1);

/** As `compact` does, and `prune` with what is in the place of a kept backup. */
async function compactB(volume: SharedVolume): Promise<void> {
  await add(volume, backup('b', 2));
  await volume.remove(b as Backup);
}

const SCENES: Readonly<Record<string, Scene>> = {
  'a backup is added on one that is removed': {
    there: [full, b],
    actors: [(volume) => add(volume, y), (volume) => volume.remove(b as Backup)],
    must: ([adding]) => (adding === 'done' ? ['full', 'b', 'y'] : ['full']),
  },
  'two backups of a snapshot are added': {
    there: [full],
    actors: [(volume) => add(volume, b), (volume) => add(volume, backup('b', 2, full))],
    must: (ended) => (ended.includes('done') ? ['full', 'b'] : ['full']),
  },
  'each of two removes one of two backups of a snapshot': {
    there: [full, fullAgain, b],
    actors: [(volume) => volume.remove(full as Backup), (volume) => volume.remove(fullAgain as Backup)],
    must: () => ['full', 'b'],
  },
  'each of two removes another link of a chain': {
    there: [full, b, y],
    actors: [(volume) => volume.remove(full as Backup), (volume) => volume.remove(b as Backup)],
    must: () => ['full', 'b', 'y'],
  },
  'one puts a full backup in place of an increment, another adds to the increment': {
    there: [full, b],
    actors: [compactB, (volume) => add(volume, y)],
    must: ([, adding]) => (adding === 'done' ? ['full', 'b', 'y'] : ['full', 'b']),
    atNight: { deaths: 1 },
  },
  'each of two puts a full backup in place of an increment': {
    there: [full, b],
    actors: [compactB, compactB],
    must: () => ['full', 'b'],
    atNight: { deaths: 0 },
  },
  'one puts a full backup in place of an increment, another removes the full one below': {
    there: [full, b],
    actors: [compactB, (volume) => volume.remove(full as Backup)],
    must: ([, removing]) => (removing === 'ABORTED' ? ['full', 'b'] : ['b']),
  },
  'one puts a full backup in place of an increment and removes the full one below, another adds to the increment': {
    there: [full, b],
    actors: [
      async (volume) => {
        await compactB(volume);
        await volume.remove(full as Backup);
      },
      (volume) => add(volume, y),
    ],
    must: ([, adding]) => (adding === 'done' ? ['b', 'y'] : ['b']),
    atNight: { deaths: 0 },
  },
};

for (const [title, scene] of Object.entries(SCENES)) {
  const { atNight } = scene;
  const skip = atNight !== undefined && !isNightly ? 'it has too many orders for the plain suite' : false;
  test(`${title}: in every order no command loses what another one needs`, { skip }, async () => {
    const { deaths } = atNight ?? { deaths: 1 };
    const cutsPuts = isNightly && deaths > 0;
    const counts = new Map<string, number>();
    const orders = await everyOrder(deaths, (interleaving: Interleaving) => {
      const objects = new Map(scene.there.flatMap(filesOf));
      const copies = new Map(scene.there.map(({ manifest, name }) => [name, formatManifest(manifest)]));
      const ended: Ended[] = scene.actors.map(() => 'died');
      for (const [actor, act] of scene.actors.entries()) {
        interleaving.start(actor, async (step) => {
          try {
            await act(volumeOf(objects, actor, { step, copies, cutsPuts }));
            ended[actor] = 'done';
          } catch (thrown) {
            assert.equal(CsiError.from(thrown).code, StatusCode.ABORTED, `${thrown}`);
            ended[actor] = 'ABORTED';
          }
        });
      }
      return async (order) => {
        const found = await complete(objects);
        const what = `${ended.join(', ')} in the order ${order.map(({ actor, dies }) => `${actor}${dies ? '†' : ''}`).join(' ')}`;
        for (const snapshot of scene.must(ended)) assert.ok(found.includes(snapshot), `${snapshot} is lost: ${what}`);
        counts.set(`${ended}`, (counts.get(`${ended}`) ?? 0) + 1);
      };
    });
    assert.ok(orders > 50);
    console.log(`# ${orders} orders: ${[...counts].map(([how, count]) => `${how} ${count}`).join('; ')}`);
  });
}

test('what a killed command has left is removed after the time of grace, and its own writer removes it at once', async () => {
  const objects = new Map([full, b].flatMap(filesOf));
  const time = Date.now().toString(16).padStart(12, '0');
  const stem = b.name.replace('.json', '');
  const [marker, orphan] = [
    `${DIRECTORY}/${stem}.going-${time}${'7'.repeat(16)}`,
    `${DIRECTORY}/${y.manifest.image.file}`,
  ];
  const mine = `${DIRECTORY}/${stem}.going-${time}${'1'.repeat(16)}`;
  for (const name of [marker, orphan, mine]) objects.set(name, 'left');
  const volume = volumeOf(objects, 1, { step: now });
  assert.deepEqual(await volume.settle(), []);
  assert.deepEqual([objects.has(marker), objects.has(orphan), objects.has(mine)], [true, true, false]);
  await volume.settle(Date.now() + GRACE_MS + 1000);
  assert.deepEqual([objects.has(marker), objects.has(orphan)], [false, false]);
  assert.deepEqual(await complete(objects), ['full', 'b']);
});

test('nothing is removed while a manifest is damaged or cannot be read, because it may need that', async () => {
  const full = backup('snap-1', 1);
  const next = backup('snap-2', 2, full);
  const name = `${DIRECTORY}/${next.name}`;
  const objects = new Map([...filesOf(full), ...filesOf(next)]);
  const sound = new Map(objects);
  const away = volumeOf(objects, 1, { step: now, keepsBack: name });
  await assert.rejects(away.read(), StoreError);
  await assert.rejects(away.remove(full as Backup), StoreError);
  assert.deepEqual(objects, sound);
  objects.set(name, sound.get(name)?.slice(0, -10) ?? '');
  await refused(volumeOf(objects, 1, { step: now }).remove(full as Backup), 'ABORTED', /snap-1.* stays.*snap-2/);
  objects.set(name, sound.get(name) ?? '');
  assert.deepEqual(objects, sound);
});
