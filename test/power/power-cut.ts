/**
 * One power cut: the disk as it was then, mounted, with a plugin started on it, and everything that was promised by
 * then compared with what it holds and says.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CsiClient } from '../support/csi-client.js';
import type { HeldVolume, Orchestrator } from '../support/orchestrator.js';
import { startCompleted, startReport } from '../support/plugin-log.js';
import { assertPromised } from '../support/promised-objects.js';
import { statusOf } from '../support/refusal.js';
import { assertSound, TaggedImage } from '../support/tagged-image.js';
import { startOn } from './plugin-on-disk.js';
import type { Entry, Promises, SnapshotPromise } from './promises.js';

export interface Cut {
  /** The disk as it was; the plugin writes to it. */
  image: string;
  mountOptions: string;
  /** What was acknowledged promises this. */
  before: Promises;
  /** What the call promises that was running, if one was. */
  running: Entry | null;
  after: Promises;
}

/** What many cuts were found to hold. */
export interface Figures {
  cuts: number;
  snapshots: number;
  lists: number;
  fromDeleted: number;
  expired: number;
}

/** As BLOCKDELTA_RETAINED_BASES_COUNT has it. */
const RETAINED = 16;
/** Of each target, in one cut. */
const MAX_BASES = 4;

/** @param directory for the mount point and the socket */
export async function checkCut(directory: string, cut: Cut, figures: Figures): Promise<void> {
  const mountPoint = join(directory, 'cut');
  mkdirSync(mountPoint, { recursive: true });
  const device = run('losetup', '--find', '--show', cut.image);
  try {
    run('mount', '-o', cut.mountOptions, device, mountPoint);
    try {
      await new CutCheck(directory, mountPoint, cut, figures).run();
    } finally {
      run('umount', mountPoint);
      // btrfs remembers every device that it has seen, and the next copy says that it is the same one. Nobody else can
      // have the device yet.
      run('btrfs', 'device', 'scan', '--forget', device);
    }
  } finally {
    run('losetup', '--detach', device);
  }
}

type Named = [id: string, snapshot: SnapshotPromise];

class CutCheck {
  readonly #pool: string;
  /** Of the volumes that exist, what their files hold. */
  readonly #volumes = new Map<string, TaggedImage>();
  /** That are listed. */
  #snapshots = new Set<string>();

  constructor(
    private readonly directory: string,
    private readonly mountPoint: string,
    private readonly cut: Cut,
    private readonly figures: Figures,
  ) {
    this.#pool = join(mountPoint, 'pool');
  }

  async run(): Promise<void> {
    const { plugin, orchestrator } = await startOn(this.mountPoint, this.directory);
    try {
      await startCompleted(() => plugin.log);
      assert.deepEqual(startReport(plugin.log).differences, [], 'catalogue and pool agree');
      await this.#checkVolumes(plugin.client);
      await this.#checkSnapshots(orchestrator);
      this.#checkDirectories();
      await this.#checkLists(plugin.client, this.#listed());
      await repeat(orchestrator, this.cut.running);
      await this.#goOn(plugin.client, orchestrator);
      this.figures.cuts += 1;
    } finally {
      await plugin.stop();
    }
  }

  async #checkVolumes(client: CsiClient): Promise<void> {
    const { before, after } = this.cut;
    const { entries } = await client.controller.ListVolumes({});
    for (const { volume } of entries) {
      const id = String(volume.volume_id);
      const image = this.#imageOf('volumes', id);
      assert.equal(Number(volume.capacity_bytes), image.sizeBytes, `size of ${id}`);
      this.#volumes.set(id, image);
    }
    assertListed(this.#volumes, before.volumes, after.volumes);
    for (const [id, { sizeBytes, tags }] of this.#volumes) {
      const allowed = [before.volumes.get(id), after.volumes.get(id)];
      const isAllowed = allowed.some((volume) => volume?.sizeBytes === sizeBytes);
      assert.ok(isAllowed, `volume ${id} has ${sizeBytes} bytes`);
      const wrong = [...tags.keys()].filter((page) => !allowed.some((volume) => volume?.allows(page, tags[page] ?? 0)));
      assert.deepEqual(wrong, [], `pages of volume ${id} that hold what was never promised`);
    }
  }

  async #checkSnapshots(orchestrator: Orchestrator): Promise<void> {
    this.#snapshots = new Set(await orchestrator.snapshotIds());
    assertListed(this.#snapshots, this.cut.before.snapshots, this.cut.after.snapshots);
    for (const [id, { image }] of this.#listed()) {
      assert.ok(this.#imageOf('snapshots', id).equals(image), `the bytes of ${id}`);
      this.figures.snapshots += 1;
    }
  }

  /** Nothing half-made is left: each file belongs to an object that is listed, or to a retained base. */
  #checkDirectories(): void {
    const files = (name: string): string[] => readdirSync(join(this.#pool, name)).sort();
    assert.deepEqual(files('volumes'), [...this.#volumes.keys()].sort());
    const isHidden = (id: string): boolean => existsSync(join(this.#pool, 'bases', `${id}.hidden`));
    const shown = files('snapshots').filter((id) => !isHidden(id));
    assert.deepEqual(shown, [...this.#snapshots].sort());
    assert.deepEqual(
      readdirSync(this.#pool).filter((name) => /\.(copy|tmp)$/.test(name)),
      [],
    );
  }

  /** Every list to the target says at least what differs. */
  async #checkLists(client: CsiClient, targets: readonly Named[]): Promise<void> {
    for (const [id, target] of targets) {
      assertSound(TaggedImage.zeros(0), target.image, await client.allocated(id), `list of ${id}`);
      const bases = some(this.#basesOf(target), this.figures.cuts);
      for (const [baseId, base] of bases) {
        const label = `delta from ${baseId} to ${id}`;
        if (this.#snapshots.has(baseId)) {
          assertSound(base.image, target.image, await client.delta(baseId, id), label);
        } else await this.#checkRetained(client, [baseId, base], [id, target]);
        this.figures.lists += 1;
      }
      this.figures.lists += 1;
    }
  }

  async #checkRetained(client: CsiClient, [baseId, base]: Named, [id, target]: Named) {
    const label = `delta from the deleted ${baseId} to ${id}`;
    const delta = client.delta(baseId, id);
    const status = await statusOf(delta);
    if (status === 'OK') {
      this.figures.fromDeleted += 1;
      assertSound(base.image, target.image, await delta, label);
      return;
    }
    assert.equal(status, 'NOT_FOUND', label);
    const deleted = [...this.cut.after.bases.values()];
    const sameVolume = deleted.filter(({ volumeId }) => volumeId === base.volumeId);
    const isPromised = this.cut.before.bases.has(baseId) && sameVolume.length <= RETAINED;
    assert.ok(!isPromised, `${label}: the deletion was acknowledged, and the base is not retained`);
    this.figures.expired += 1;
  }

  /** A snapshot of each volume as it is now, and the lists to it. */
  async #goOn(client: CsiClient, orchestrator: Orchestrator): Promise<void> {
    const ids = await orchestrator.volumeIds();
    for (const volumeId of ids.filter((each) => this.#volumes.has(each))) {
      const volume = orchestrator.hold('', { volume_id: volumeId });
      const id = await orchestrator.snapshot(volume, `${volumeId} after the cut`);
      const image = this.#imageOf('volumes', volumeId);
      this.#snapshots = new Set(await orchestrator.snapshotIds());
      const target = { volumeId, image, sequence: Number.POSITIVE_INFINITY };
      await this.#checkLists(client, [[id, target]]);
    }
  }

  /** Fails if a page of the file holds several numbers. */
  #imageOf(directory: 'volumes' | 'snapshots', id: string): TaggedImage {
    return TaggedImage.of(readFileSync(join(this.#pool, directory, id)));
  }

  /** What is promised of the listed snapshots. */
  #listed(): Named[] {
    const { before, after } = this.cut;
    const all = new Map([...before.snapshots, ...after.snapshots]);
    return [...all].filter(([id]) => this.#snapshots.has(id));
  }

  #basesOf({ volumeId, sequence }: SnapshotPromise): Named[] {
    const { before, after } = this.cut;
    const all = new Map([...before.bases, ...after.bases, ...this.#listed()]);
    return [...all].filter(([, base]) => base.volumeId === volumeId && base.sequence < sequence);
  }
}

function assertListed(
  listed: { keys(): Iterable<string> },
  before: ReadonlyMap<string, unknown>,
  after: ReadonlyMap<string, unknown>,
): void {
  const makes = [...after.keys()].filter((id) => !before.has(id));
  const removes = [...before.keys()].filter((id) => !after.has(id));
  assertPromised([...listed.keys()], [...before.keys()], { makes, removes });
}

/** A few of them, others for each turn, and always the last. */
function some<T>(all: readonly T[], turn: number): T[] {
  const stride = Math.ceil(all.length / MAX_BASES);
  return all.filter((_, at) => at % stride === turn % stride || at === all.length - 1);
}

/** The call that was cut off succeeds now. */
async function repeat(orchestrator: Orchestrator, entry: Entry | null): Promise<unknown> {
  const volume = (id: string): HeldVolume => orchestrator.hold('', { volume_id: id });
  switch (entry?.kind) {
    case 'create': {
      const { name, sizeBytes, from } = entry;
      return orchestrator.create(name, { sizeBytes, ...from });
    }
    case 'delete':
      return orchestrator.delete(volume(entry.volumeId));
    case 'expand':
      return orchestrator.expand(volume(entry.volumeId), entry.sizeBytes);
    case 'snapshot':
      return orchestrator.snapshot(volume(entry.member.volumeId), entry.name);
    case 'group': {
      const sources = entry.members.map(({ volumeId }) => volume(volumeId));
      return orchestrator.groupSnapshot(sources, entry.name);
    }
    case 'delete snapshot':
      return orchestrator.deleteSnapshot(entry.snapshotId);
    case 'delete group':
      return orchestrator.deleteGroup(entry.group);
    default:
      return undefined;
  }
}

function run(program: string, ...args: string[]): string {
  return execFileSync(program, args, { encoding: 'utf8' }).trim();
}
