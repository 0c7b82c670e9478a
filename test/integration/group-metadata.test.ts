/** Lists of changed blocks of members of groups: snapshots of their volume like any other. */
import assert from 'node:assert/strict';
import { BLOCK_OPERATIONS, BlockWriter } from '../support/block-writer.js';
import { assertSound } from '../support/metadata-check.js';
import { type HeldGroup, type HeldVolume, MIB } from '../support/orchestrator.js';
import { type Random, seededRandom } from '../support/random.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { SnapshotImage } from '../support/snapshot-image.js';

const OPERATIONS = 40;
const SIZE = 8 * MIB;

const running = runPlugin('group-metadata', { pools: { main: 'xfs', other: 'btrfs' } });
const { orchestrator } = running;

interface Cut {
  id: string;
  image: SnapshotImage;
}

/** Two volumes with a writer each, and their snapshots, oldest first. */
class Pair {
  readonly cuts: [Cut[], Cut[]] = [[], []];
  readonly groups: HeldGroup[] = [];

  private constructor(
    private readonly pool: string,
    readonly volumes: readonly [HeldVolume, HeldVolume],
    private readonly writers: readonly [BlockWriter, BlockWriter],
  ) {}

  static async make(pool: string, random: Random): Promise<Pair> {
    const make = (name: string) =>
      orchestrator.create(`${pool} ${name}`, { sizeBytes: SIZE, parameters: { pool } });
    const volumes = [await make('first'), await make('second')] as const;
    const writers = [
      new BlockWriter(await orchestrator.bringUp(volumes[0]), SIZE, random),
      new BlockWriter(await orchestrator.bringUp(volumes[1]), SIZE, random),
    ] as const;
    return new Pair(pool, volumes, writers);
  }

  write(): void {
    for (const writer of this.writers) {
      for (let done = 0; done < OPERATIONS; done += 1) writer.randomOperation(BLOCK_OPERATIONS);
    }
  }

  async takeGroup(name: string): Promise<void> {
    this.write();
    const group = await orchestrator.groupSnapshot(this.volumes, `${this.pool} ${name}`);
    this.groups.push(group);
    for (const index of [0, 1] as const) this.#keep(index, group.snapshotIds[index] ?? '');
  }

  async cutAlone(index: 0 | 1, name: string): Promise<void> {
    this.write();
    this.#keep(index, await orchestrator.snapshot(this.volumes[index], `${this.pool} ${name}`));
  }

  #keep(index: 0 | 1, id: string): void {
    const file = running.poolPath(this.pool, 'snapshots', id);
    const image = SnapshotImage.read(file, SIZE, this.cuts[index].at(-1)?.image ?? null);
    this.cuts[index].push({ id, image });
  }

  async dispose(): Promise<void> {
    for (const writer of this.writers) writer.close();
    for (const group of this.groups) await orchestrator.deleteGroup(group);
    for (const volume of this.volumes) {
      await orchestrator.takeDown(volume);
      await orchestrator.delete(volume);
    }
  }
}

for (const pool of ['main', 'other']) {
  test(`the lists of members of groups and of single snapshots miss nothing in pool ${pool}`, async () => {
    const pair = await Pair.make(pool, seededRandom(`groups in ${pool}`));
    await pair.takeGroup('one');
    await pair.cutAlone(0, 'between');
    await pair.takeGroup('two');
    await pair.cutAlone(1, 'behind');
    await pair.takeGroup('three');
    for (const cuts of pair.cuts) {
      assert.equal(cuts.length, 4);
      for (const [index, target] of cuts.entries()) {
        const allocated = await running.client.allocated(target.id);
        assertSound(SnapshotImage.zeros(SIZE), target.image, allocated, 'allocated');
        for (const base of cuts.slice(0, index)) {
          const delta = await running.client.delta(base.id, target.id);
          assertSound(base.image, target.image, delta, `delta from ${base.id} to ${target.id}`);
        }
      }
    }
    const alone = [pair.cuts[0][1]?.id ?? '', pair.cuts[1][2]?.id ?? ''];
    for (const id of alone) await orchestrator.deleteSnapshot(id);
    await pair.dispose();
  });
}

test('members of two volumes have no delta, nor has a later member as the base', async () => {
  const pair = await Pair.make('main', seededRandom('refused deltas'));
  await pair.takeGroup('older');
  await pair.takeGroup('newer');
  const [[older, newer], [stranger]] = pair.cuts as [[Cut, Cut], [Cut]];
  const delta = (base: Cut, target: Cut) => running.client.delta(base.id, target.id);
  await refused(delta(older, stranger), 'INVALID_ARGUMENT', /two snapshots of one volume/);
  await refused(delta(newer, older), 'INVALID_ARGUMENT', /older snapshot as the base/);
  await delta(older, newer);
  await pair.dispose();
});
