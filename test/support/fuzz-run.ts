/** Sends the requests of a fuzzer over several concurrent connections, and checks the answers. */
import assert from 'node:assert/strict';
import type { ServiceError } from '@grpc/grpc-js';
import { StatusCode } from '../../src/base/errors.js';
import { ProcessMeter } from '../bench/process-meter.js';
import type { Message } from './csi-client.js';
import { describeTree, type FuzzWorld, makeWorld } from './fuzz-world.js';
import { startReport } from './plugin-log.js';
import type { Random } from './random.js';
import { RawConnection, type RpcDescription } from './raw-call.js';
import { CSI_V1, type FuzzedProto, RequestFuzzer } from './request-fuzzer.js';
import type { RunningPlugin } from './running-plugin.js';
import { loopsBelow, mountsBelow } from './workspace.js';

const CONNECTIONS = 4;
const IN_FLIGHT_EACH = 8;
const BATCH = 500;
/** Enough to see what is wrong; the run ends there. */
const MAX_FAULTS = 10;
const MAX_ATTEMPTS = 10;
/** Ids of one kind that requests are made about: the latest. */
const MAX_IDS = 30;

/** What a conforming request may be answered with, and so what any request may. */
const ALLOWED: ReadonlySet<number> = new Set([
  StatusCode.OK,
  StatusCode.INVALID_ARGUMENT,
  StatusCode.NOT_FOUND,
  StatusCode.ALREADY_EXISTS,
  StatusCode.RESOURCE_EXHAUSTED,
  StatusCode.FAILED_PRECONDITION,
  StatusCode.ABORTED,
  StatusCode.OUT_OF_RANGE,
  StatusCode.UNIMPLEMENTED,
]);

const RSS_BOUND_MIB = 128;

/** Resident memory of the plugin, MiB. */
export interface Memory {
  warm: number;
  end: number;
}

export class FuzzRun {
  /** How often each status was answered. */
  readonly answers = new Map<string, number>();
  /** How often each RPC was answered OK. */
  readonly successes = new Map<string, number>();
  readonly faults: string[] = [];
  readonly #connections: readonly RawConnection[];
  readonly #fuzzer: RequestFuzzer;
  readonly #rpcs: readonly RpcDescription[];
  #sent = 0;

  constructor(
    endpoint: string,
    private readonly pid: number,
    private readonly random: Random,
    private readonly world: FuzzWorld,
    private readonly proto: FuzzedProto = CSI_V1,
  ) {
    this.#fuzzer = new RequestFuzzer(random, world, proto);
    this.#rpcs = proto.rpcs.flatMap((rpc) => Array<RpcDescription>(weightOf(rpc, proto)).fill(rpc));
    this.#connections = Array.from({ length: CONNECTIONS }, () => new RawConnection(endpoint));
  }

  async run(requests: number, warmUp: number): Promise<Memory> {
    const meter = new ProcessMeter(this.pid);
    await this.#sendUntil(warmUp);
    const warm = meter.rssMiB();
    await this.#sendUntil(requests);
    return { warm, end: meter.rssMiB() };
  }

  /** The RPCs that have not been answered OK yet. */
  unreached(): string[] {
    return this.proto.rpcs.map(({ name }) => name).filter((name) => !this.successes.has(name));
  }

  /** Which ids are known when a request is made depends on timing: sends up to as many again until each RPC is reached. */
  async reachAll(requests: number): Promise<void> {
    const end = this.#sent + requests;
    while (this.unreached().length > 0 && this.#sent < end && this.faults.length < MAX_FAULTS) {
      await this.#sendUntil(this.#sent + BATCH);
    }
  }

  close(): void {
    for (const connection of this.#connections) connection.close();
  }

  async #sendUntil(total: number): Promise<void> {
    const worker = async (connection: RawConnection): Promise<void> => {
      while (this.#sent < total && this.faults.length < MAX_FAULTS) await this.#one(connection);
    };
    const workers = this.#connections.flatMap((connection) =>
      Array.from({ length: IN_FLIGHT_EACH }, () => worker(connection)),
    );
    await Promise.all(workers);
  }

  async #one(connection: RawConnection): Promise<void> {
    const number = this.#sent;
    this.#sent += 1;
    const rpc = this.random.pick(this.#rpcs);
    const bytes = this.#fuzzer.next(rpc);
    let code: number = StatusCode.OK;
    let told = '';
    try {
      const answer = await send(connection, rpc, bytes);
      learn(this.world, rpc, decoded(this.proto, rpc.responseType, answer), this.proto);
      forget(this.world, rpc, decoded(this.proto, rpc.requestType, bytes));
    } catch (thrown) {
      const { code: found, details } = thrown as Partial<ServiceError>;
      code = found ?? -1;
      told = found === undefined ? String(thrown) : (details ?? '');
    }
    const name = Object.entries(StatusCode).find(([, value]) => value === code)?.[0] ?? `${code}`;
    this.answers.set(name, (this.answers.get(name) ?? 0) + 1);
    if (code === StatusCode.OK) {
      this.successes.set(rpc.name, (this.successes.get(rpc.name) ?? 0) + 1);
    }
    if (ALLOWED.has(code) && (code === StatusCode.OK || told !== '')) return;
    const shown = bytes.subarray(0, 120).toString('base64');
    this.faults.push(`request ${number}, ${rpc.name}: ${name} '${told}'\n  ${shown}`);
  }
}

/**
 * So many requests over each interface are answered well and change nothing outside of the plugin's directories, what
 * they have made can be deleted, and the plugin finds nothing amiss when it starts again.
 */
export async function assertUnharmed(
  running: RunningPlugin,
  random: Random,
  { requests, mostMore, protos = [CSI_V1], alsoStaged = () => [] }: Ordeal,
): Promise<void> {
  const { workspace, plugin, orchestrator } = running;
  const world = makeWorld(workspace);
  const pid = Number(plugin.process.pid);
  const surroundings = () => [
    describeTree(workspace.path('sentinel')),
    mountsBelow(workspace.directory),
    loopsBelow(workspace.directory),
  ];
  const before = surroundings();
  for (const proto of protos) {
    const fuzz = new FuzzRun(plugin.endpoint, pid, random, world, proto);
    try {
      const memory = await fuzz.run(requests, requests / 4);
      // So many more reach every RPC.
      await fuzz.reachAll(mostMore);
      console.log(`# answers: ${JSON.stringify(Object.fromEntries(fuzz.answers))}`);
      console.log(`# answered OK: ${JSON.stringify(Object.fromEntries(fuzz.successes))}`);
      console.log(`# memory, MiB: ${JSON.stringify(memory)}`);
      assert.deepEqual(fuzz.faults, []);
      assert.deepEqual(fuzz.unreached(), [], 'every RPC is answered OK at least once');
      assert.ok(memory.end < memory.warm + RSS_BOUND_MIB, `memory grew: ${JSON.stringify(memory)}`);
    } finally {
      fuzz.close();
    }
  }
  assert.equal(plugin.process.exitCode, null);
  await cleanUp(running, world, alsoStaged);
  assert.deepEqual(await orchestrator.volumeIds(), []);
  assert.deepEqual(await orchestrator.snapshotIds(), []);
  assert.deepEqual(surroundings(), before);
  await running.restart();
  assert.deepEqual(startReport(running.plugin.log).differences, []);
}

interface Ordeal {
  requests: number;
  mostMore: number;
  protos?: readonly FuzzedProto[];
  /** Staging paths of a volume other than those of the world. */
  alsoStaged?: (volumeId: string) => string[];
}

/** Deletes what the requests have made. A volume may have been published at any path, also at one to stage at. */
async function cleanUp(
  { client, orchestrator }: RunningPlugin,
  world: FuzzWorld,
  alsoStaged: (volumeId: string) => string[],
): Promise<void> {
  const refusals: string[] = [];
  const quietly = (call: Promise<unknown>) => call.catch(({ message }: ServiceError) => refusals.push(message));
  const volumeIds = await orchestrator.volumeIds();
  for (const volume_id of volumeIds) {
    for (const target_path of [...world.targetPaths, ...world.stagingPaths]) {
      await quietly(client.node.NodeUnpublishVolume({ volume_id, target_path }));
    }
    for (const staging_target_path of [...world.stagingPaths, ...alsoStaged(volume_id)]) {
      await quietly(client.node.NodeUnstageVolume({ volume_id, staging_target_path }));
    }
    await quietly(client.controller.ControllerUnpublishVolume({ volume_id }));
  }
  const { entries } = await client.controller.ListSnapshots({});
  const groups = new Map<string, string[]>();
  for (const { snapshot } of entries) {
    const { group_snapshot_id: id, snapshot_id } = snapshot;
    if (id === '') await orchestrator.deleteSnapshot(snapshot_id);
    else groups.set(id, [...(groups.get(id) ?? []), snapshot_id]);
  }
  for (const [id, snapshotIds] of groups) await orchestrator.deleteGroup({ id, snapshotIds });
  for (const volume_id of volumeIds) {
    await client.controller.DeleteVolume({ volume_id }).catch((cause) => {
      const told = refusals.filter((refusal) => refusal.includes(volume_id));
      throw new Error(`${cause.message}\n${told.join('\n')}`, { cause });
    });
  }
}

/**
 * Sends again what the plugin could not receive in time, as the answer asks: on a busy machine this process may
 * be the slow one. The connection of such a request is closed, which refuses others that are on their way. A plugin that is gone
 * answers none of the attempts.
 */
async function send(connection: RawConnection, rpc: RpcDescription, bytes: Buffer): Promise<Buffer> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await connection.call(rpc, bytes);
    } catch (thrown) {
      const { code } = thrown as Partial<ServiceError>;
      if (code !== StatusCode.UNAVAILABLE || attempt === MAX_ATTEMPTS) throw thrown;
    }
  }
}

/** Those that have something to get wrong come more often, most of all what needs several before it. */
function weightOf({ name, requestType }: RpcDescription, proto: FuzzedProto): number {
  if (name === 'NodeStageVolume' || name === 'NodePublishVolume') return 12;
  return proto.typeOf(requestType).fieldsArray.length > 0 ? 4 : 1;
}

/** Ids of what was made, so that later requests are about it. */
function learn(world: FuzzWorld, rpc: RpcDescription, message: Message, proto: FuzzedProto): void {
  const add = (ids: string[], id: unknown): void => {
    if (typeof id === 'string' && !ids.includes(id)) ids.push(id);
    if (ids.length > MAX_IDS) ids.shift();
  };
  if (rpc.name === 'CreateVolume') add(world.volumeIds, proto.volumeId(message));
  if (rpc.name === 'CreateSnapshot') {
    const id = proto.snapshotId(message);
    add(world.snapshotIds, id);
    world.sources.set(id, message['snapshot'].source_volume_id);
  }
  if (rpc.name === 'CreateVolumeGroupSnapshot') {
    const { group_snapshot_id: id, snapshots } = message['group_snapshot'];
    const snapshotIds = snapshots.map((member: Message) => member['snapshot_id']);
    if (!world.groups.some((known) => known.id === id)) world.groups.push({ id, snapshotIds });
    if (world.groups.length > MAX_IDS) world.groups.shift();
  }
}

/** What was deleted is not asked about any more, but by chance. */
function forget(world: FuzzWorld, rpc: RpcDescription, message: Message): void {
  if (!rpc.name.startsWith('Delete')) return;
  world.volumeIds = world.volumeIds.filter((id) => id !== message['volume_id']);
  world.snapshotIds = world.snapshotIds.filter((id) => id !== message['snapshot_id']);
  world.groups = world.groups.filter(({ id }) => id !== message['group_snapshot_id']);
}

function decoded(proto: FuzzedProto, typeName: string, bytes: Buffer): Message {
  const type = proto.typeOf(typeName);
  return type.toObject(type.decode(bytes), { longs: String, enums: String, defaults: true });
}
