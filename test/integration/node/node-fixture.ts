/**
 * The Node service with a real catalogue and a real reflink pool, called without a socket: requests
 * and answers in the form in which proto-loader decodes them.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, statfsSync } from 'node:fs';
import { after, before } from 'node:test';
import { newSnapshotId, nodeKey } from '../../../src/base/csi/handles.js';
import type { AnyUnaryHandler, CallContext, Service, UnaryHandlers } from '../../../src/base/csi/service.js';
import { SystemError } from '../../../src/base/errors.js';
import { ReflinkBackend } from '../../../src/driver/backends/reflink/reflink-backend.js';
import { type OpenCatalogue, openCatalogue } from '../../../src/driver/catalogue/catalogue-client.js';
import type { VolumeRecord } from '../../../src/driver/catalogue/records.js';
import { NativePool } from '../../../src/driver/native/pool.js';
import type { NodeConfig, NodeDependencies } from '../../../src/driver/node/node-dependencies.js';
import { createNodeService } from '../../../src/driver/node/node-service.js';
import { OperationLocks } from '../../../src/driver/volumes/operation-locks.js';
import { callContext } from '../../support/call-context.js';
import { type Message, mountCapability } from '../../support/csi-client.js';
import { received } from '../../support/received-request.js';
import { MIB, volumeRecord } from '../../support/records.js';
import { NOTHING } from '../../support/running-plugin.js';
import { loopsBelow, makePoolFileSystem, mountsBelow, skipUnlessRoot, Workspace } from '../../support/workspace.js';

export const NODE_CONFIG: NodeConfig = {
  nodeId: 'test-node',
  topologyKey: 'blockdelta.csi/node',
  csiLevel: '1.12',
  controllerPublish: false,
  maxVolumesPerNode: 7,
  cgroupRoot: '',
  // The tests are in the mount namespace of the service.
  mountPropagation: 'off',
  stateDirectory: '',
  legacyStagingDirectory: '/run/blockdelta-staging',
  pools: [],
  socketPath: '',
};

export const SIZE = 64n * MIB;
export const XFS_SIZE = 320n * MIB;

/** One pool and one service for all tests of a file, gone after them. */
export function useNode(label: string, isWanted = skipUnlessRoot === false): NodeFixture {
  const node = new NodeFixture(new Workspace(label));
  before(async () => {
    if (isWanted) await node.open();
  });
  after(async () => {
    try {
      await node.close();
    } finally {
      node.workspace.dispose();
    }
  });
  return node;
}

export class NodeFixture {
  readonly locks = new OperationLocks();
  /** What calls added to their log lines. */
  readonly notes: object[] = [];
  /** What failed clean-ups left, as logged. */
  readonly leftovers: Record<string, unknown>[] = [];
  readonly logger: NodeDependencies['logger'] = { warn: (fields: object) => void this.leftovers.push({ ...fields }) };
  /** Called whenever the pool is asked for; throws where it cannot be. */
  askPool = (): void => undefined;
  /** Asked at every call; its paths are in the workspace, whatever it says. */
  config: NodeConfig;
  conditionOf?: NonNullable<NodeDependencies['conditionOf']>;
  /** A native call that does nothing but fail, and its code: for failures that cannot be made here. */
  failing: { method: string; code: string } | null = null;
  native!: NativePool;
  backend!: ReflinkBackend;
  catalogue!: OpenCatalogue;
  deps!: NodeDependencies;
  #service!: Service<'Node'>;

  constructor(readonly workspace: Workspace) {
    this.config = NODE_CONFIG;
  }

  async open(): Promise<void> {
    const { workspace } = this;
    const pool = workspace.path('xfs.pool');
    if (!existsSync(pool)) makePoolFileSystem(workspace, 'xfs', 4096);
    this.native = new NativePool(2);
    this.backend = new ReflinkBackend(this.native, {
      pool: 'default',
      directory: pool,
      embeddedPoolBytes: null,
      owner: '0'.repeat(32),
      overcommitPercent: 100n,
      reservePercent: 0n,
    });
    this.catalogue = await openCatalogue(workspace.path('catalogue.db'));
    await this.backend.start('any', (uuid) => this.catalogue.registerPool('default', uuid));
    const fixture = this;
    this.deps = {
      get config() {
        return {
          ...fixture.config,
          cgroupRoot: workspace.path('cgroup'),
          stateDirectory: workspace.path('state'),
          legacyStagingDirectory: workspace.path('legacy'),
          pools: [{ kind: 'reflink', name: 'default', directory: pool, place: 'any' }],
          socketPath: workspace.path('socket', 'csi.sock'),
        };
      },
      get conditionOf() {
        return fixture.conditionOf;
      },
      catalogue: this.catalogue,
      logger: this.logger,
      locks: this.locks,
      native: {
        run: async (...call: Parameters<NativePool['run']>) => {
          const { method, code } = this.failing ?? {};
          if (call[0] !== method) return this.native.run(...call);
          throw new SystemError(code ?? '', String(method), '/x', 'as a stub says');
        },
      },
      clearance: { assertGiven: async () => undefined },
      backendOf: () => {
        this.askPool();
        return this.backend;
      },
    } as NodeDependencies;
    this.#service = createNodeService(this.deps);
  }

  async close(): Promise<void> {
    await this.catalogue?.close();
    await this.backend?.stop();
    await this.native?.close();
  }

  async call(
    rpc: keyof UnaryHandlers<'Node'>,
    request: Message,
    context: Partial<CallContext> = {},
  ): Promise<Record<string, unknown>> {
    const handler: AnyUnaryHandler | undefined = this.#service.unary[rpc];
    if (handler === undefined) throw new Error(`${rpc} is not served`);
    const note = (fields: object): unknown => this.notes.push(fields);
    const answer = await handler(received(rpc, request) as never, callContext({ note, ...context }));
    return answer as Record<string, unknown>;
  }

  async makeVolume(fields: Partial<VolumeRecord> = {}): Promise<VolumeRecord> {
    const volume = volumeRecord({ sizeBytes: SIZE, ...fields });
    const { volumeId, sourceSnapshotId, sizeBytes } = volume;
    if (sourceSnapshotId === null) await this.backend.volumes.create(volumeId, sizeBytes);
    else await this.backend.volumes.create(volumeId, sizeBytes, { snapshotId: sourceSnapshotId });
    await this.catalogue.insertVolume(volume);
    return volume;
  }

  /** A new volume that is staged so. */
  async staged(capability: Message = mountCapability(), fields: Partial<VolumeRecord> = {}): Promise<VolumeRecord> {
    const volume = await this.makeVolume(fields);
    await this.stage(volume, capability);
    return volume;
  }

  /** A volume that was used so, and is not staged. */
  async used(capability: Message, sizeBytes = XFS_SIZE): Promise<VolumeRecord> {
    const volume = await this.staged(capability, { sizeBytes });
    await this.unstage(volume);
    return { ...volume, pristine: false };
  }

  /** Ends its publications and its staging, after which nothing of any volume is left. */
  async cleared(volume: VolumeRecord, ...targets: string[]): Promise<void> {
    for (const target_path of targets) await this.unpublish(volume, { target_path });
    await this.unstage(volume);
    assert.deepEqual(this.held(), NOTHING);
    const pods = this.workspace.path('pods');
    assert.deepEqual(existsSync(pods) ? readdirSync(pods) : [], []);
    assert.deepEqual(await this.catalogue.publications(volume.volumeId), []);
    assert.deepEqual(await this.catalogue.stagings(volume.volumeId), []);
  }

  async snapshot({ volumeId }: VolumeRecord): Promise<string> {
    const snapshotId = newSnapshotId(nodeKey('test-node'));
    await this.backend.snapshots.create([{ volumeId, snapshotId }]);
    return snapshotId;
  }

  /** Of the file system that is mounted there. */
  bytesAt(path: string): bigint {
    const { blocks, bsize } = statfsSync(path, { bigint: true });
    return blocks * bsize;
  }

  /** An existing directory, as an orchestrator gives for staging. */
  stagingPath(name: string): string {
    const path = this.workspace.path('staging', name);
    mkdirSync(path, { recursive: true });
    return path;
  }

  /** A path that does not exist, in a directory that does. */
  targetPath(name: string): string {
    mkdirSync(this.workspace.path('pods'), { recursive: true });
    return this.workspace.path('pods', name);
  }

  stage(volume: VolumeRecord, capability: Message, fields: Message = {}): Promise<Message> {
    return this.call('NodeStageVolume', {
      volume_id: volume.volumeId,
      staging_target_path: this.stagingPath(volume.volumeId),
      volume_capability: capability,
      ...fields,
    });
  }

  unstage(volume: VolumeRecord, fields: Message = {}, context: Partial<CallContext> = {}): Promise<Message> {
    const request = {
      volume_id: volume.volumeId,
      staging_target_path: this.workspace.path('staging', volume.volumeId),
      ...fields,
    };
    return this.call('NodeUnstageVolume', request, context);
  }

  publish(volume: VolumeRecord, capability: Message, fields: Message = {}): Promise<Message> {
    return this.call('NodePublishVolume', {
      volume_id: volume.volumeId,
      staging_target_path: this.workspace.path('staging', volume.volumeId),
      target_path: this.targetPath(volume.volumeId),
      volume_capability: capability,
      readonly: false,
      ...fields,
    });
  }

  unpublish(volume: VolumeRecord, fields: Message = {}): Promise<Message> {
    return this.call('NodeUnpublishVolume', {
      volume_id: volume.volumeId,
      target_path: this.targetPath(volume.volumeId),
      ...fields,
    });
  }

  /** As ControllerExpandVolume does it. */
  async enlarge(volume: VolumeRecord, sizeBytes: bigint): Promise<void> {
    await this.backend.volumes.expand(volume.volumeId, sizeBytes);
    await this.catalogue.setVolumeSize(volume.volumeId, sizeBytes);
  }

  expand(volume: VolumeRecord, fields: Message = {}): Promise<Message> {
    return this.call('NodeExpandVolume', {
      volume_id: volume.volumeId,
      volume_path: this.stagingPath(volume.volumeId),
      ...fields,
    });
  }

  /** What the kernel holds for volumes: the pool's own mount and loop device left out. */
  held(): { mounts: string[]; loops: string[] } {
    const { workspace } = this;
    return {
      mounts: mountsBelow(workspace.directory).filter((path) => !path.endsWith('.pool')),
      loops: loopsBelow(workspace.path('xfs.pool')),
    };
  }

  async attachedPath(volume: VolumeRecord): Promise<string> {
    const attachment = await this.backend.attachments.find(volume.volumeId);
    if (attachment === null) throw new Error(`${volume.volumeId} is not attached`);
    return attachment.devicePath;
  }

  /** Whether the kernel refuses writes to the device. */
  async deviceReadOnly(volume: VolumeRecord): Promise<boolean> {
    const path = await this.attachedPath(volume);
    return execFileSync('blockdev', ['--getro', path], { encoding: 'utf8' }).trim() === '1';
  }
}
