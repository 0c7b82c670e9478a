/**
 * A plugin on pools of several kinds, raw block volumes with a workload, and checks of both. Without stored
 * change lists unless asked for, so that the extents of the snapshots are what is judged.
 */
import { statSync } from 'node:fs';
import { after } from 'node:test';
import { BlockWriter } from './block-writer.js';
import type { CsiClient } from './csi-client.js';
import { assertSound, type Tally } from './metadata-check.js';
import { type HeldVolume, MIB, type Orchestrator, type VolumeSpec } from './orchestrator.js';
import type { Plugin } from './plugin.js';
import { type Random, seededRandom } from './random.js';
import { type RunningPlugin, runPlugin } from './running-plugin.js';
import { SnapshotImage } from './snapshot-image.js';
import type { PoolKind } from './workspace.js';

export interface Writing {
  kind: PoolKind;
  volume: HeldVolume;
  writer: BlockWriter;
}

/** One bench for all tests of a file, gone after them. */
export function useBench(label: string, kinds: readonly PoolKind[], changeLists: 'on' | 'off' = 'off'): ReflinkBench {
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
  #volumes = 0;

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

  get orchestrator(): Orchestrator {
    return this.running.orchestrator;
  }

  /** A path inside the pool of that kind. */
  pool(kind: PoolKind, ...names: string[]): string {
    return this.running.poolPath(kind, ...names);
  }

  /** A published raw block volume. */
  async write(kind: PoolKind, sizeBytes = 8 * MIB, random = this.random): Promise<Writing> {
    const volume = await this.volume(kind, { sizeBytes });
    const writer = new BlockWriter(volume.targetPath, sizeBytes, random);
    this.writers.push(writer);
    return { kind, volume, writer };
  }

  /** A published volume. */
  async volume(kind: PoolKind, spec: VolumeSpec): Promise<HeldVolume> {
    this.#volumes += 1;
    const parameters = { pool: kind };
    const volume = await this.orchestrator.create(`${this.#volumes}`, { ...spec, parameters });
    await this.orchestrator.bringUp(volume);
    return volume;
  }

  async end({ volume, writer }: Writing): Promise<void> {
    writer.close();
    await this.orchestrator.remove(volume);
  }

  /** Resolves to its id. */
  snapshot({ volume }: Pick<Writing, 'volume'>): Promise<string> {
    return this.orchestrator.snapshot(volume);
  }

  snapshotPath(kind: PoolKind, id: string): string {
    return this.pool(kind, 'snapshots', id);
  }

  /** The bytes of a snapshot, read from its file in the pool. */
  read(kind: PoolKind, id: string, earlier: SnapshotImage | null = null): SnapshotImage {
    const path = this.snapshotPath(kind, id);
    return SnapshotImage.read(path, statSync(path).size, earlier);
  }

  /** The delta of two snapshots misses nothing. Returns the figures. */
  async soundDelta(kind: PoolKind, base: string, target: string): Promise<Tally> {
    const before = this.read(kind, base);
    const delta = await this.client.delta(base, target);
    return assertSound(before, this.read(kind, target, before), delta, kind);
  }

  /** The snapshot holds what was written, and its allocated list misses nothing. */
  async soundSnapshot(kind: PoolKind, id: string, model: Buffer): Promise<void> {
    const image = this.read(kind, id);
    image.assertSame(SnapshotImage.of(model));
    const list = await this.client.allocated(id);
    assertSound(SnapshotImage.zeros(image.sizeBytes), image, list, kind);
  }
}
