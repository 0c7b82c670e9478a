/**
 * Deltas from deleted snapshots while the plugin is killed at random moments of deletions, volumes grow, bases expire, and
 * tools of the file system move blocks: every list is compared with the bytes.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { BLOCK_OPERATIONS, BlockWriter } from '../support/block-writer.js';
import { CsiClient } from '../support/csi-client.js';
import { Mover } from '../support/mover.js';
import { isNightly } from '../support/nightly.js';
import { Plugin } from '../support/plugin.js';
import { type Random, seededRandom } from '../support/random.js';
import { SnapshotWindow } from '../support/snapshot-window.js';
import { TestVolume } from '../support/test-volume.js';
import {
  makePoolFileSystem,
  type PoolKind,
  skipUnlessRoot,
  Workspace,
} from '../support/workspace.js';

const ROUNDS = isNightly ? 120 : 8;
const OPERATIONS_A_ROUND = 30;
const VOLUME_BYTES = 16 << 20;
/** A deletion takes about so long; a kill comes at any moment of it, or behind it. */
const DELETION_MS = 40;

/** Moves whatever blocks it may, again and again. */
const MOVERS: Readonly<Record<'xfs' | 'btrfs', string>> = {
  btrfs:
    'btrfs filesystem defragment -r -f -t 256M "$1/volumes" "$1/snapshots"; btrfs balance start --full-balance "$1"',
  xfs: 'for to in "$1"/volumes/* "$1"/snapshots/*; do xfs_io -c "dedupe $to 0 1048576 65536" "$to"; done; xfs_fsr "$1"',
};

let workspace: Workspace;
const pools = new Map<PoolKind, string>();

before(() => {
  if (skipUnlessRoot !== false) return;
  workspace = new Workspace('retained-chaos');
  for (const kind of ['xfs', 'btrfs'] as const) {
    pools.set(kind, makePoolFileSystem(workspace, kind, 4096));
  }
});

after(() => workspace?.dispose());

for (const kind of ['xfs', 'btrfs'] as const) {
  test(`no delta from a deleted snapshot misses a byte on ${kind}, whatever kills the plugin or moves blocks`, {
    skip: skipUnlessRoot,
  }, async (context) => {
    const random = seededRandom(`chaos on ${kind}`);
    const chaos = await Chaos.start(kind, random);
    try {
      const { volume, window, writer } = chaos;
      for (let round = 0; round < ROUNDS; round += 1) {
        for (let count = 0; count < OPERATIONS_A_ROUND; count += 1) {
          writer.randomOperation(BLOCK_OPERATIONS);
        }
        await window.cut(null);
        // The newest one, too.
        if (random.below(3) === 0) await window.drop(window.live.length - 1);
        if (random.below(2) === 0) await window.check();
      }
      await chaos.settled();
      await window.check();
      window.report((line) => context.diagnostic(`${kind}: ${line}`));
      context.diagnostic(`${kind}: ${chaos.kills} kills, bases ${chaos.bases().join(' ')}`);
      assert.ok(chaos.kills > 0 && window.fromDeleted.differing > 0, 'nothing was tried');
      assert.deepEqual(
        window.refusals.filter((reason) => !/RETAINED_BASES_COUNT/.test(reason)),
        [],
        'a base is refused only when it has expired',
      );
      writer.close();
      await volume.unpublish();
      for (const { snapshot } of window.live) await volume.deleteSnapshot(snapshot.id);
      await volume.delete();
      assert.deepEqual(chaos.bases(), [], 'nothing stays of a volume that is gone');
      assert.deepEqual(readdirSync(join(chaos.pool, 'snapshots')), []);
    } finally {
      await chaos.end();
    }
  });
}

/** A plugin that is killed during deletions, a volume that is written, and a tool that moves blocks. */
class Chaos {
  kills = 0;
  readonly window: SnapshotWindow;

  private constructor(
    readonly pool: string,
    private plugin: Plugin,
    private readonly restart: () => Promise<Plugin>,
    private readonly client: CsiClient,
    readonly volume: TestVolume,
    readonly writer: BlockWriter,
    private readonly mover: Mover,
    private readonly random: Random,
  ) {
    const killed = {
      id: volume.id,
      snapshot: () => volume.snapshot(),
      deleteSnapshot: (id: string) => this.#deleteDespiteKills(id),
    };
    this.window = new SnapshotWindow(client, killed as unknown as TestVolume, pool, random);
  }

  static async start(kind: 'xfs' | 'btrfs', random: Random): Promise<Chaos> {
    const pool = pools.get(kind) ?? '';
    // Bases expire by count all the time.
    const env = { BLOCKDELTA_CHANGE_LISTS: 'on', BLOCKDELTA_RETAINED_BASES_COUNT: '4' };
    const options = { pools: `main=${pool}`, env, name: `chaos-${kind}` };
    const restart = (): Promise<Plugin> => Plugin.start(workspace, options);
    const plugin = await restart();
    const client = new CsiClient(plugin.endpoint);
    const volume = await TestVolume.create(client, workspace, { sizeBytes: VOLUME_BYTES });
    await volume.publish();
    const writer = new BlockWriter(volume.targetPath, VOLUME_BYTES, random);
    const mover = Mover.start(workspace, MOVERS[kind], [pool]);
    return new Chaos(pool, plugin, restart, client, volume, writer, mover, random);
  }

  /** The names of what the pool retains. */
  bases(): string[] {
    const directory = join(this.pool, 'bases');
    return existsSync(directory) ? readdirSync(directory) : [];
  }

  /** Nothing is being made or completed in the background. */
  async settled(): Promise<void> {
    while (this.bases().some((name) => name.endsWith('.tmp'))) await delay(20);
  }

  async end(): Promise<void> {
    await this.mover.stop();
    this.client.close();
    await this.plugin.stop();
  }

  async #deleteDespiteKills(id: string): Promise<void> {
    if (this.random.below(2) === 0) {
      const call = this.volume.deleteSnapshot(id).catch(() => undefined);
      await delay(this.random.below(DELETION_MS));
      await this.plugin.kill();
      await call;
      this.plugin = await this.restart();
      this.kills += 1;
      await this.#reconnected();
    }
    await this.volume.deleteSnapshot(id);
  }

  async #reconnected(): Promise<void> {
    for (;;) {
      try {
        await this.client.identity.Probe({});
        return;
      } catch {
        await delay(20);
      }
    }
  }
}
