/**
 * A plugin on pools of several kinds, raw block volumes with a workload, and checks of both. Without stored
 * change lists unless asked for, so that the extents of the snapshots are what is judged.
 */
import { after } from 'node:test';
import { BlockWriter } from './block-writer.js';
import type { CsiClient } from './csi-client.js';
import { assertSound, type Tally } from './metadata-check.js';
import type { Plugin } from './plugin.js';
import { type Random, seededRandom } from './random.js';
import { type RunningPlugin, runPlugin } from './running-plugin.js';
import { SnapshotImage } from './snapshot-image.js';
import { readSnapshot, type TestSnapshot, TestVolume } from './test-volume.js';
import type { PoolKind } from './workspace.js';

const MIB = 1 << 20;

export interface Writing {
  kind: PoolKind;
  volume: TestVolume;
  writer: BlockWriter;
}

/** One bench for all tests of a file, gone after them. */
export function useBench(
  label: string,
  kinds: readonly PoolKind[],
  changeLists: 'on' | 'off' = 'off',
): ReflinkBench {
  const writers: BlockWriter[] = [];
  // Before the volumes go.
  after(() => {
    for (const writer of writers) writer.close();
  });
  const running = runPlugin(label, {
    pools: Object.fromEntries(kinds.map((kind) => [kind, kind])),
    env: { BLOCKDELTA_CHANGE_LISTS: changeLists },
  });
  return new ReflinkBench(running, seededRandom(label), writers);
}

export class ReflinkBench {
  constructor(
    private readonly running: RunningPlugin,
    readonly random: Random,
    private readonly writers: BlockWriter[],
  ) {}

  get plugin(): Plugin {
    return this.running.plugin;
  }

  get client(): CsiClient {
    return this.running.client;
  }

  pool(kind: PoolKind): string {
    return this.running.poolPath(kind);
  }

  /** A published raw block volume. */
  async write(kind: PoolKind, sizeBytes = 8 * MIB, random = this.random): Promise<Writing> {
    const volume = await this.volume(kind, { sizeBytes });
    await volume.publish();
    const writer = new BlockWriter(volume.targetPath, sizeBytes, random);
    this.writers.push(writer);
    return { kind, volume, writer };
  }

  volume(
    kind: PoolKind,
    options: { sizeBytes: number; fsType?: string; sourceSnapshotId?: string },
  ): Promise<TestVolume> {
    return TestVolume.create(this.client, this.running.workspace, { pool: kind, ...options });
  }

  async end({ volume, writer }: Writing): Promise<void> {
    writer.close();
    await volume.unpublish();
    await volume.delete();
  }

  /** The delta of two snapshots misses nothing. Returns the figures. */
  async soundDelta(kind: PoolKind, base: TestSnapshot, target: TestSnapshot): Promise<Tally> {
    const before = readSnapshot(this.pool(kind), base);
    const delta = await this.client.delta(base.id, target.id);
    return assertSound(before, readSnapshot(this.pool(kind), target, before), delta, kind);
  }

  /** The snapshot holds what was written, and its allocated list misses nothing. */
  async soundSnapshot(kind: PoolKind, snapshot: TestSnapshot, model: Buffer): Promise<void> {
    const image = readSnapshot(this.pool(kind), snapshot);
    image.assertSame(SnapshotImage.of(model));
    const list = await this.client.allocated(snapshot.id);
    assertSound(SnapshotImage.zeros(image.sizeBytes), image, list, kind);
  }
}
