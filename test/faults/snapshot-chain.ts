/** A volume in use whose snapshots are taken, deleted and retained, with the bytes of each. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { soundDeltas, type TakenSnapshot } from '../support/metadata-check.js';
import type { HeldVolume } from '../support/orchestrator.js';
import { SnapshotImage } from '../support/snapshot-image.js';
import type { Resident, Scene } from './scene.js';

const LIST_TIMEOUT_MS = 120_000;

export class SnapshotChain {
  /** In the order in which they were taken. Deleted ones are bases still. */
  readonly #taken: TakenSnapshot[] = [];

  private constructor(
    private readonly scene: Scene,
    private readonly used: Resident,
  ) {}

  static async make(scene: Scene, snapshots: number): Promise<SnapshotChain> {
    const chain = new SnapshotChain(scene, await scene.used('block'));
    for (let index = 0; index < snapshots; index += 1) await chain.take();
    return chain;
  }

  /** A negative index counts from the newest one. */
  at(index: number): TakenSnapshot {
    return this.#taken.at(index) ?? assert.fail(`the chain has no snapshot ${index}`);
  }

  get volume(): HeldVolume {
    return this.used.volume;
  }

  async write(): Promise<void> {
    await this.used.contents.work(this.volume.targetPath, this.scene.random);
  }

  /** After a write; resolves when the list from the one before is made. */
  async take(): Promise<void> {
    await this.write();
    const before = this.#taken.at(-1);
    const id = await this.scene.orchestrator.snapshot(this.volume, this.scene.name('snapshot'));
    this.keep(id);
    if (before !== undefined) await this.listMade(before, id);
  }

  keep(id: string): void {
    this.scene.objects.add(id);
    this.#taken.push({ id, image: imageOf(this.scene, id, this.volume) });
  }

  async retain(index: number): Promise<void> {
    await this.scene.deleteSnapshot(this.at(index).id);
    this.at(index).isDeleted = true;
  }

  /** Asks for it again: the request of a plugin that was killed is forgotten. */
  async listMade(base: TakenSnapshot, target: string): Promise<void> {
    if (base.isDeleted) return;
    const file = join(this.scene.poolPath, 'lists', `${base.id}.to.${target}`);
    const deadline = Date.now() + LIST_TIMEOUT_MS;
    do {
      assert.ok(Date.now() < deadline, `${file} is not made`);
      await delay(20);
      await this.scene.client.delta(base.id, target);
    } while (!existsSync(file) || !this.#isDone());
  }

  /** The step after a list has its name. */
  #isDone(): boolean {
    const { names } = this.scene.steps;
    const last = (start: string): number => names.findLastIndex((name) => name.startsWith(start));
    const named = last('rename <pool>/lists/<snap>.to.<snap>.<random>.tmp ');
    return named <= last('fsync <pool>/lists ');
  }

  async checkDeltas(): Promise<void> {
    await soundDeltas(this.scene.client, this.#taken);
  }
}

/** The bytes of a snapshot. */
export function imageOf(scene: Scene, snapshotId: string, { sizeBytes }: HeldVolume): SnapshotImage {
  return SnapshotImage.read(join(scene.poolPath, 'snapshots', snapshotId), sizeBytes);
}
