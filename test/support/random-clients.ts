/**
 * Many independent clients that call at random, and a model of what their answers allow: an object that was
 * created and never deleted exists, a deleted one does not, and one name never means two volumes.
 */
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { StatusName } from '../../src/base/errors.js';
import { blockCapability, CsiClient, type Message, mountCapability } from './csi-client.js';
import { createRequest, MIB } from './orchestrator.js';
import { Random } from './random.js';
import { statusOf } from './refusal.js';
import type { Workspace } from './workspace.js';

const NAMES = Array.from({ length: 12 }, (_, index) => `name ${index}`);
/** Statuses allowed under contention. Every other one is a bug of the plugin. */
const ALLOWED: readonly StatusName[] = [
  'OK',
  'ABORTED',
  'NOT_FOUND',
  'ALREADY_EXISTS',
  'FAILED_PRECONDITION',
];

/** An object some answer named. */
interface Known {
  id: string;
  name: string;
  isDeletionAsked: boolean;
  isDeletionAnswered: boolean;
}

export class Contention {
  readonly volumes = new Map<string, Known>();
  readonly snapshots = new Map<string, Known>();
  readonly statuses = new Map<string, number>();

  constructor(
    private readonly workspace: Pick<Workspace, 'path'>,
    private readonly endpoint: string,
    private readonly seed: number,
  ) {}

  /** Lets the clients call for that long. */
  async run(clients: number, durationMs: number): Promise<void> {
    const end = Date.now() + durationMs;
    await Promise.all(Array.from({ length: clients }, (_, index) => this.#client(index, end)));
  }

  stagingPath(volumeId: string): string {
    return this.workspace.path('csi', volumeId, 'staging');
  }

  targetPath(volumeId: string): string {
    return this.workspace.path('pods', volumeId, 'volume');
  }

  /** What is listed agrees with what was answered. */
  judge(volumeIds: readonly string[], snapshotIds: readonly string[]): void {
    for (const [known, listed] of [
      [this.volumes, volumeIds],
      [this.snapshots, snapshotIds],
    ] as const) {
      const kept = [...known.values()].filter((object) => !object.isDeletionAsked);
      const lost = kept.filter((object) => !listed.includes(object.id));
      assert.deepEqual(lost, [], 'made, never deleted, and not there');
      const gone = [...known.values()].filter((object) => object.isDeletionAnswered);
      const undead = gone.filter((object) => listed.includes(object.id));
      assert.deepEqual(undead, [], 'answered as deleted, and there');
    }
  }

  async #client(index: number, end: number): Promise<void> {
    const random = new Random(this.seed + index);
    const client = new CsiClient(this.endpoint);
    try {
      while (Date.now() < end) {
        const [name, call] = random.pick(this.#calls(client, random));
        const status = await statusOf(call());
        const key = `${name} ${status}`;
        this.statuses.set(key, (this.statuses.get(key) ?? 0) + 1);
        assert.ok(ALLOWED.includes(status), `${name} answered ${status}`);
      }
    } finally {
      client.close();
    }
  }

  #calls(client: CsiClient, random: Random): [string, () => Promise<unknown>][] {
    const volumeId = pickId(this.volumes, random);
    const snapshotId = pickId(this.snapshots, random);
    const name = random.pick(NAMES);
    const node = this.#nodeCalls(client, volumeId, name);
    return [
      ['CreateVolume', () => this.#createVolume(client, name)],
      ['CreateVolume from a snapshot', () => this.#createVolume(client, name, snapshotId)],
      ['CreateSnapshot', () => this.#createSnapshot(client, name, volumeId)],
      ['CreateSnapshot', () => this.#createSnapshot(client, name, volumeId)],
      [
        'DeleteVolume',
        () =>
          remove(this.volumes, volumeId, () =>
            client.controller.DeleteVolume({ volume_id: volumeId }),
          ),
      ],
      [
        'DeleteSnapshot',
        () =>
          remove(this.snapshots, snapshotId, () =>
            client.controller.DeleteSnapshot({ snapshot_id: snapshotId }),
          ),
      ],
      ...node,
      ...node,
      ['ListVolumes', () => client.controller.ListVolumes({ max_entries: 3 })],
      ['ListSnapshots', () => client.controller.ListSnapshots({ source_volume_id: volumeId })],
      ['GetCapacity', () => client.controller.GetCapacity({})],
      ['GetMetadataAllocated', () => client.allocated(snapshotId)],
      ['GetMetadataDelta', () => this.#delta(client, random, snapshotId)],
    ];
  }

  #nodeCalls(
    client: CsiClient,
    volume_id: string,
    name: string,
  ): [string, () => Promise<unknown>][] {
    const staging_target_path = this.stagingPath(volume_id);
    const target_path = this.targetPath(volume_id);
    const volume_capability = capabilityOf(this.volumes.get(volume_id)?.name ?? name);
    const stage = { volume_id, staging_target_path, volume_capability };
    return [
      [
        'NodeStageVolume',
        async () => {
          await mkdir(staging_target_path, { recursive: true });
          await client.node.NodeStageVolume(stage);
        },
      ],
      [
        'NodePublishVolume',
        async () => {
          await mkdir(dirname(target_path), { recursive: true });
          await client.node.NodePublishVolume({ ...stage, target_path });
        },
      ],
      ['NodeUnpublishVolume', () => client.node.NodeUnpublishVolume({ volume_id, target_path })],
      [
        'NodeUnstageVolume',
        () => client.node.NodeUnstageVolume({ volume_id, staging_target_path }),
      ],
    ];
  }

  async #createVolume(client: CsiClient, name: string, snapshotId?: string): Promise<void> {
    const spec = { capability: capabilityOf(name), sizeBytes: 16 * MIB };
    const source = snapshotId === undefined ? {} : { snapshotId };
    const before = this.#certainVolume(name);
    const request = createRequest(name, { ...spec, ...source });
    const { volume } = await client.controller.CreateVolume(request);
    const id: string = volume.volume_id;
    // Another volume of this name, that nobody has asked to delete, was there all the time.
    const twin = before !== undefined && before.id !== id && !before.isDeletionAsked;
    assert.ok(!twin, `name ${name} means ${before?.id} and ${id}`);
    note(this.volumes, id, name);
  }

  async #createSnapshot(client: CsiClient, name: string, volumeId: string): Promise<void> {
    const request = { source_volume_id: volumeId, name };
    const { snapshot } = await client.controller.CreateSnapshot(request);
    assert.equal(snapshot.source_volume_id, volumeId);
    note(this.snapshots, snapshot.snapshot_id, name);
  }

  async #delta(client: CsiClient, random: Random, baseId: string): Promise<void> {
    const targetId = pickId(this.snapshots, random);
    const status = await statusOf(client.delta(baseId, targetId));
    // Two snapshots drawn by lot are seldom of one volume, and in order.
    if (status === 'INVALID_ARGUMENT') return;
    assert.ok(ALLOWED.includes(status), `GetMetadataDelta answered ${status}`);
  }

  #certainVolume(name: string): Known | undefined {
    return [...this.volumes.values()].find(
      (known) => known.name === name && !known.isDeletionAsked,
    );
  }
}

/** Half of the names are block volumes. */
function capabilityOf(name: string): Message {
  return NAMES.indexOf(name) % 2 === 0 ? blockCapability() : mountCapability('ext4');
}

function pickId(known: ReadonlyMap<string, Known>, random: Random): string {
  const living = [...known.values()].filter((object) => !object.isDeletionAnswered);
  return living.length === 0 ? 'none-exist-id' : random.pick(living).id;
}

function note(known: Map<string, Known>, id: string, name: string): void {
  if (known.has(id)) return;
  known.set(id, { id, name, isDeletionAsked: false, isDeletionAnswered: false });
}

async function remove(
  known: ReadonlyMap<string, Known>,
  id: string,
  call: () => Promise<unknown>,
): Promise<void> {
  const object = known.get(id);
  if (object !== undefined) object.isDeletionAsked = true;
  await call();
  if (object !== undefined) object.isDeletionAnswered = true;
}
