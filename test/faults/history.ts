/** A volume whose snapshots are taken, deleted and retained, and what every delta between them has to list. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { assertSound } from '../support/metadata-check.js';
import type { HeldVolume } from '../support/orchestrator.js';
import { SnapshotImage } from '../support/snapshot-image.js';
import type { Resident, Scene } from './scene.js';

const LIST_TIMEOUT_MS = 120_000;

/** A volume in use with snapshots whose bytes are known. */
export class History {
  readonly snapshots: string[] = [];
  /** Those of them that were deleted and are bases still. */
  readonly retained = new Set<string>();
  readonly #images = new Map<string, SnapshotImage>();

  private constructor(
    private readonly scene: Scene,
    private readonly used: Resident,
  ) {}

  static async make(scene: Scene, snapshots: number): Promise<History> {
    const history = new History(scene, await scene.used('block'));
    for (let index = 0; index < snapshots; index += 1) await history.take();
    return history;
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
    const before = this.snapshots.at(-1);
    const id = await this.scene.orchestrator.snapshot(this.volume, this.scene.name('snapshot'));
    this.keep(id);
    if (before !== undefined) await this.listMade(before, id);
  }

  keep(id: string): void {
    this.scene.ledger.add(id);
    this.snapshots.push(id);
    this.#images.set(id, imageOf(this.scene, id, this.volume));
  }

  async retain(index: number): Promise<void> {
    const id = this.snapshots[index] as string;
    await this.scene.deleteSnapshot(id);
    this.retained.add(id);
  }

  /** Asks for it again: the request of a plugin that was killed is forgotten. */
  async listMade(base: string, target: string): Promise<void> {
    if (this.retained.has(base)) return;
    const file = join(this.scene.poolPath, 'lists', `${base}.to.${target}`);
    const deadline = Date.now() + LIST_TIMEOUT_MS;
    do {
      assert.ok(Date.now() < deadline, `${file} is not made`);
      await delay(20);
      await this.scene.client.delta(base, target);
    } while (!existsSync(file) || !this.#isDone());
  }

  /** The step after a list has its name. */
  #isDone(): boolean {
    const { names } = this.scene.steps;
    const last = (start: string): number => names.findLastIndex((name) => name.startsWith(start));
    const named = last('rename <pool>/lists/<snap>.to.<snap>.<random>.tmp ');
    return named <= last('fsync <pool>/lists ');
  }

  /** From every snapshot, also a deleted one, to every later one that exists. */
  async checkDeltas(): Promise<void> {
    for (const [index, base] of this.snapshots.entries()) {
      for (const target of this.snapshots.slice(index + 1)) {
        if (this.retained.has(target)) continue;
        const delta = await this.scene.client.delta(base, target);
        assertSound(this.#image(base), this.#image(target), delta, `${base} to ${target}`);
      }
    }
  }

  #image(id: string): SnapshotImage {
    return this.#images.get(id) as SnapshotImage;
  }
}

/** The bytes of a snapshot. */
export function imageOf(scene: Scene, snapshotId: string, { sizeBytes }: HeldVolume): SnapshotImage {
  return SnapshotImage.read(join(scene.poolPath, 'snapshots', snapshotId), sizeBytes);
}
