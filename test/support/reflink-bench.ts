/**
 * A plugin on pools of several kinds, raw block volumes with a workload, and checks of both. Without stored
 * change lists unless asked for, so that the extents of the snapshots are what is judged.
 */
import assert from 'node:assert/strict';
import { BlockWriter } from './block-writer.js';
import type { CsiClient } from './csi-client.js';
import { assertSound, type Tally } from './metadata-check.js';
import { Plugin } from './plugin.js';
import { type Random, seededRandom } from './random.js';
import { SnapshotImage } from './snapshot-image.js';
import { readSnapshot, type TestSnapshot, TestVolume } from './test-volume.js';
import { makePoolFileSystem, type PoolKind, Workspace } from './workspace.js';

const MIB = 1 << 20;

export interface Writing {
  kind: PoolKind;
  volume: TestVolume;
  writer: BlockWriter;
}

export class ReflinkBench {
  readonly workspace: Workspace;
  readonly random: Random;
  readonly #pools = new Map<PoolKind, string>();
  readonly #writers: BlockWriter[] = [];
  #plugin: Plugin | undefined;

  private constructor(
    label: string,
    private readonly changeLists: 'on' | 'off',
  ) {
    this.workspace = new Workspace(label);
    this.random = seededRandom(label);
  }

  static async make(
    label: string,
    kinds: readonly PoolKind[],
    changeLists: 'on' | 'off' = 'off',
  ): Promise<ReflinkBench> {
    const bench = new ReflinkBench(label, changeLists);
    for (const kind of kinds) {
      bench.#pools.set(kind, makePoolFileSystem(bench.workspace, kind, 2048));
    }
    await bench.start();
    return bench;
  }

  get plugin(): Plugin {
    assert.ok(this.#plugin !== undefined, 'the plugin has not been started');
    return this.#plugin;
  }

  get client(): CsiClient {
    return this.plugin.client;
  }

  /** Also after a kill: on the same pools and the same state. */
  async start(): Promise<void> {
    const list = [...this.#pools].map(([kind, directory]) => `${kind}=${directory}`);
    const env = { BLOCKDELTA_CHANGE_LISTS: this.changeLists };
    this.#plugin = await Plugin.start(this.workspace, { pools: list.join(','), env });
  }

  async dispose(): Promise<void> {
    for (const writer of this.#writers) writer.close();
    await this.#plugin?.stop();
    this.workspace.dispose();
  }

  pool(kind: PoolKind): string {
    const directory = this.#pools.get(kind);
    assert.ok(directory !== undefined, `no pool on ${kind}`);
    return directory;
  }

  /** A published raw block volume. */
  async write(kind: PoolKind, sizeBytes = 8 * MIB, random = this.random): Promise<Writing> {
    const volume = await this.volume(kind, { sizeBytes });
    await volume.publish();
    const writer = new BlockWriter(volume.targetPath, sizeBytes, random);
    this.#writers.push(writer);
    return { kind, volume, writer };
  }

  volume(
    kind: PoolKind,
    options: { sizeBytes: number; fsType?: string; sourceSnapshotId?: string },
  ): Promise<TestVolume> {
    return TestVolume.create(this.client, this.workspace, { pool: kind, ...options });
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
