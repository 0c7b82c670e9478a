/**
 * A mounted volume in many pieces, which is cloned ahead of the freeze on XFS, and out of a copy of its subvolume on
 * btrfs. A process writes numbers to it: each snapshot of it must show one point in time. The writer is held still
 * while the plugin takes its steps, because what it writes meanwhile is cloned once more.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { Contents, Disturbance } from '../support/contents.js';
import {
  begunNumber,
  NumberedWriter,
  readNumbers,
  writePieces,
} from '../support/numbered-writer.js';
import type { Scene } from './scene.js';

/** Cloning in pieces begins at 1000 extents on XFS and 10,000 on btrfs, where a piece has 16,384. */
const PIECES = { xfs: 2000, btrfs: 18_000 };

export async function settleInPieces(scene: Scene): Promise<void> {
  const volume = await scene.volume('xfs');
  const target = await scene.orchestrator.bringUp(volume);
  await writePieces(join(target, 'pieces'), PIECES[scene.kind === 'btrfs' ? 'btrfs' : 'xfs']);
  const writer = await NumberedWriter.start(target);
  scene.atEnd(() => writer.stop());
  const contents = new Numbers(writer, target);
  scene.residents.push({ kind: 'xfs', volume, contents, goOn: () => writer.goOn() });
}

class Numbers implements Contents {
  #atLeast = 0;

  constructor(
    private readonly writer: NumberedWriter,
    private readonly written: string,
  ) {}

  /** Some numbers more, and no others until the writer goes on. */
  async work(): Promise<void> {
    await this.writer.goOn();
    this.writer.pause();
    this.#atLeast = this.writer.finished;
  }

  async verify(target: string): Promise<void> {
    const last = readNumbers(target);
    const begun = begunNumber(this.written);
    const isPossible = this.#atLeast <= last && last <= begun;
    assert.ok(isPossible, `${last} is the last of ${this.#atLeast} to ${begun}`);
  }

  grow(): void {}

  copy(): Contents {
    return this;
  }

  disturb(): Disturbance {
    throw new Error('the writer disturbs enough');
  }
}
