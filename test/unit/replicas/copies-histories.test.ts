/**
 * Copies of snapshots in random histories of three nodes and two routers: snapshots with copies and deletions, nodes that are away
 * or full, lost messages, a catalogue from a backup, a reinstalled node. Real are the catalogue and the copies of the node of the
 * snapshots, the keepers of the others, the routers and the messages; pools and pulls are in memory.
 *
 * A promised copy goes only because its snapshot was deleted, or because another node was chosen. A snapshot that is ready has one.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { newSnapshotId, newVolumeId, nodeKey } from '../../../src/base/csi/handles.js';
import { type NodeRpc, type NodeRpcs, nodeMethod } from '../../../src/base/csi/node-proto.js';
import { encodeMessage } from '../../../src/base/csi/proto.js';
import type { CallContext } from '../../../src/base/csi/service.js';
import { CsiError } from '../../../src/base/errors.js';
import type { Backend, Replica } from '../../../src/driver/backends/backend.js';
import type { BackendRegistry } from '../../../src/driver/backends/registry.js';
import type { ReplicaRecord } from '../../../src/driver/catalogue/records.js';
import { type NodeSide, nodeRpcs } from '../../../src/driver/plugin/node-rpcs.js';
import { Copies as CopiesOfNode } from '../../../src/driver/replicas/copies.js';
import { findCopy } from '../../../src/driver/replicas/known-copy.js';
import { ReplicaKeeper } from '../../../src/driver/replicas/replica-keeper.js';
import { OperationLocks } from '../../../src/driver/volumes/operation-locks.js';
import { newCopy } from '../../../src/driver/volumes/snapshot-sets.js';
import { Copies } from '../../../src/router/copies.js';
import type { NodeConnection } from '../../../src/router/node-connection.js';
import { type DirectCatalogue, openCatalogueHere } from '../../support/direct-database.js';
import { isNightly } from '../../support/nightly.js';
import { type Random, seededRandom } from '../../support/random.js';
import { replicaRecord, snapshotRecord, volumeRecord } from '../../support/records.js';
import { temporaryDirectory } from '../../support/temporary.js';

const HISTORIES = isNightly ? 600 : 60;
const STEPS = 40;
const quiet = { info: () => undefined, warn: () => undefined };

type State = { -readonly [K in 'isConnected' | 'unreachableSince']: NodeConnection[K] };

/** What a router asks of a node, as messages. */
function connection(id: string, side: () => NodeSide, visit: (rpc: string) => void): NodeConnection & State {
  const handlers = new Map(
    nodeRpcs(side).map(({ name, handler }) => [name, handler(async () => (() => undefined) as never)]),
  );
  const ask = async <R extends NodeRpc>(rpc: R, request: NodeRpcs[R][0]): Promise<NodeRpcs[R][1]> => {
    const { requestSerialize, requestDeserialize, responseSerialize, responseDeserialize } = nodeMethod(rpc);
    const handle = handlers.get(rpc) as unknown as (request: object, context: CallContext) => Promise<object>;
    visit(rpc);
    const context = { signal: new AbortController().signal, note: () => undefined, deadline: Infinity } as never;
    const answer = await handle(requestDeserialize(requestSerialize(request)), context);
    visit(rpc);
    return responseDeserialize(responseSerialize(answer)) as NodeRpcs[R][1];
  };
  return { id, key: nodeKey(id), isConnected: true, unreachableSince: null, ask } as never;
}

/** A node that keeps copies. */
class Target {
  readonly pool = new Map<string, Replica>();
  readonly #rows = new Map<string, ReplicaRecord>();
  readonly #keeper: ReplicaKeeper;
  isFull = false;
  readonly node: NodeConnection & State;
  laterMs = 0;

  constructor(id: string, visit: (rpc: string) => void) {
    const backend = {
      pool: 'p',
      capacity: async () => ({ totalBytes: 1n << 40n, freeBytes: this.isFull ? 0n : 1n << 40n }),
      replicas: {
        list: async () => [...this.pool.values()],
        promise: async (snapshotId: string, promiseId: string) => this.#put(snapshotId, promiseId),
        delete: async (snapshotId: string) => this.pool.delete(snapshotId),
      },
    } as unknown as Backend;
    const catalogue = {
      listReplicas: async () => [...this.#rows.values()],
      replicaById: async (snapshotId: string) => this.#rows.get(snapshotId) ?? null,
      replicaPromised: async (snapshotId: string, promiseId: string | null) => this.#row(snapshotId, promiseId),
      removeReplica: async (snapshotId: string) => void this.#rows.delete(snapshotId),
    };
    this.#keeper = new ReplicaKeeper({
      catalogue,
      registry: { all: [backend], owning: () => backend } as unknown as BackendRegistry,
      locks: new OperationLocks(),
      pulls: { isRunning: () => false },
      transfers: { count: 0, endDeleted: async () => undefined },
      lacksRows: () => false,
      logger: quiet,
      now: () => this.laterMs,
    });
    const room = () => ({ serves: false, pool: '', holds: true, roomBytes: this.isFull ? 0n : 1n, newestSequence: 0n });
    const side = { replicas: this.#keeper, findRoom: async () => room() };
    const copies = { unsettled: async () => [] };
    const clearance = { isGiven: async () => true };
    const successions = { untold: async () => [] };
    this.node = connection(id, () => ({ ...side, copies, clearance, successions }) as never, visit);
  }

  /** Whether it has all of the snapshot now. */
  pull(snapshotId: string): boolean {
    if (this.pool.has(snapshotId)) return true;
    if (this.isFull) return false;
    this.#put(snapshotId, null);
    this.#row(snapshotId, null);
    return true;
  }

  /** Eight days later. */
  async age(): Promise<void> {
    this.laterMs = 8 * 24 * 3_600_000;
    await this.#keeper.round();
  }

  #put(snapshotId: string, promiseId: string | null): void {
    this.pool.set(snapshotId, { snapshotId, sizeBytes: 1n, isComplete: true, promiseId });
  }

  #row(snapshotId: string, promiseId: string | null): void {
    this.#rows.set(snapshotId, {
      ...replicaRecord(volumeRecord(), { snapshotId, promiseId, nextOffset: null }),
      pool: 'p',
    });
  }
}

class World {
  readonly targets: readonly [Target, Target];
  readonly owner: NodeConnection & State;
  readonly #directory = temporaryDirectory();
  readonly #routers: readonly Copies[];
  readonly #volumeId = newVolumeId(nodeKey('a'));
  #catalogue: DirectCatalogue;
  #copies: CopiesOfNode;
  #files = 0;
  #backup: string | null = null;
  clock = 0;
  /** How many of ten messages are lost. */
  lost = 0;
  #asking = 0;
  readonly snapshots: string[] = [];
  /** Of the users, whatever came of it. */
  readonly deleted = new Set<string>();
  /** Those that were told that the snapshot is deleted, by a catalogue that is still in use. */
  readonly #told = new Set<string>();
  /** Promises that were on record as given up, in any catalogue. */
  readonly givenUp = new Set<string>();
  readonly said: string[] = [];

  constructor(private readonly random: Random) {
    const visit = (rpc: string): void => {
      if (this.random.below(10) < this.lost) throw CsiError.unavailable(`${rpc} was lost`);
    };
    this.targets = [new Target('b', visit), new Target('c', visit)];
    this.owner = connection('a', () => this.#side(), visit);
    this.#catalogue = this.#open(null);
    this.#copies = this.#newCopies();
    this.#routers = [this.#router(), this.#router()];
  }

  async run(name: string, operation: () => Promise<unknown>): Promise<void> {
    this.said.push(name);
    const before = this.#promised();
    await operation().catch((thrown) => this.said.push(`  ${CsiError.from(thrown).message}`));
    await this.#rest();
    this.#noteGivenUp();
    for (const [where, promise] of before) {
      if (this.#promised().has(where)) continue;
      const [snapshotId = ''] = where.split(' ');
      assert.ok(
        this.deleted.has(snapshotId) || this.givenUp.has(promise),
        `a copy is gone: ${where}\n${this.said.join('\n')}`,
      );
    }
    for (const snapshotId of this.snapshots) {
      const row = this.#catalogue.snapshotById(snapshotId);
      if (row === null || row.awaitsCopy || this.deleted.has(snapshotId)) continue;
      const hasCopy = [...this.#promised().keys()].some((where) => where.startsWith(snapshotId));
      assert.ok(hasCopy, `ready without a copy: ${snapshotId}\n${this.said.join('\n')}`);
    }
  }

  /** csi-snapshotter repeats the call with the name. */
  async take(router: number, name: string): Promise<void> {
    const context = { encodedRequest: Buffer.from(name), deadline: Infinity, signal: new AbortController().signal };
    await this.#routers[router]?.createSnapshot(this.owner, this.#volumeId, context as never);
  }

  async delete(router: number, snapshotId: string): Promise<void> {
    this.deleted.add(snapshotId);
    const isKnown = this.#catalogue.snapshotById(snapshotId) !== null;
    // The copy of a snapshot that nobody knows stays on a node that is away.
    const isHeard = isKnown || this.targets.every(({ node }) => node.isConnected);
    const remove = async (): Promise<Buffer> => {
      if (this.random.below(10) < this.lost) throw CsiError.unavailable('the deletion was lost');
      this.#catalogue.removeSnapshot(snapshotId, null);
      return Buffer.alloc(0);
    };
    const context = { deadline: Infinity, signal: new AbortController().signal } as never;
    await this.#routers[router]?.deleteSnapshot(this.owner, snapshotId, context, remove);
    if (isHeard) this.#told.add(snapshotId);
  }

  async rounds(): Promise<void> {
    await Promise.all(this.#routers.map((router) => router.round()));
  }

  /** @param lost as the field */
  lose(lost: number): void {
    this.lost = lost;
  }

  pass(ms: number): void {
    this.clock += ms;
  }

  restart(): void {
    this.#copies = this.#newCopies();
  }

  backUp(): void {
    this.#backup = this.#file();
    this.#catalogue.backUp(this.#backup);
  }

  /** What was lost is confirmed by the operator. */
  restore(): void {
    if (this.#backup !== null) this.#reopen(this.#backup);
  }

  reinstall(): void {
    this.#reopen(null);
  }

  /** All nodes answer, everything is deleted once more, and the work that is left is done. */
  async finish(): Promise<void> {
    this.lost = 0;
    for (const target of this.targets) {
      target.isFull = false;
      Object.assign(target.node, { isConnected: true, unreachableSince: null });
    }
    for (let round = 0; round < 4; round += 1) await this.run('round', () => this.rounds());
    assert.deepEqual(this.#catalogue.unsettledCopies(), [], this.said.join('\n'));
    const left = [...this.#promised().keys()].filter((where) => this.#told.has(where.split(' ')[0] ?? ''));
    assert.deepEqual(left, [], this.said.join('\n'));
    for (const id of this.snapshots) await this.run('delete', () => this.delete(0, id));
    for (let round = 0; round < 3; round += 1) await this.run('round', () => this.rounds());
    assert.deepEqual([...this.#promised().keys()], [], this.said.join('\n'));
    this.#catalogue.close();
  }

  /** Which promises the nodes keep. */
  #promised(): Map<string, string> {
    const promised = new Map<string, string>();
    for (const { pool, node } of this.targets) {
      for (const { snapshotId, promiseId } of pool.values()) {
        if (promiseId !== null) promised.set(`${snapshotId} on ${node.id} for ${promiseId}`, promiseId);
      }
    }
    return promised;
  }

  #noteGivenUp(): void {
    for (const { promiseId, state } of this.#catalogue.unsettledCopies())
      if (state === 'ending') this.givenUp.add(promiseId);
  }

  #side(): NodeSide {
    const catalogue = this.#asynchronous();
    const registry = { owning: () => ({ snapshots: { check: async () => undefined } }) } as never;
    return {
      copies: this.#copies,
      clearance: { isGiven: async () => true },
      successions: { untold: async () => [] },
      findRoom: async () => ({ serves: true, pool: '', holds: false, roomBytes: 0n, newestSequence: 0n }),
      findCopy: (id: string) => findCopy({ catalogue, registry, lacksRows: () => false }, id),
      createCopiedSnapshot: async (request: { name: string }, nodeId: string | null) =>
        this.#taken(request.name, nodeId),
    } as never;
  }

  /** As the node's manager does it. */
  async #taken(name: string, nodeId: string | null): Promise<object | null> {
    let row = this.#catalogue.snapshotByName(name);
    if (row === null && nodeId === null) return null;
    if (row === null) {
      const volume = this.#catalogue.volumeById(this.#volumeId);
      assert.ok(volume !== null && nodeId !== null);
      const snapshotId = newSnapshotId(nodeKey('a'));
      this.snapshots.push(snapshotId);
      const fresh = snapshotRecord(volume, { snapshotId, name, state: 'creating', awaitsCopy: true });
      this.#catalogue.insertSnapshot(fresh, newCopy(snapshotId, nodeId));
      row = this.#catalogue.commitSnapshot(snapshotId, 1n, volume.sizeBytes);
    }
    return { snapshot: { snapshot_id: row.snapshotId, ready_to_use: !row.awaitsCopy } };
  }

  #router(): Copies {
    const all = () => [this.owner, ...this.targets.map(({ node }) => node)];
    const sources = {
      ask: async (node: NodeConnection, rpc: NodeRpc, request: object) => {
        this.#asking += 1;
        try {
          if (!node.isConnected) throw CsiError.unavailable(`node ${node.id} is away`);
          const encoded = rpc === 'CreateCopiedSnapshot' ? named(request) : request;
          return await (node as unknown as { ask(rpc: NodeRpc, request: object): Promise<object> }).ask(rpc, encoded);
        } finally {
          this.#asking -= 1;
        }
      },
      pull: async (node: NodeConnection, snapshotId: string) => {
        const target = this.targets.find((each) => each.node === node);
        if (this.#catalogue.snapshotById(snapshotId)?.state !== 'ready') throw CsiError.notFound('no such snapshot');
        if (target?.pull(snapshotId) !== true) throw CsiError.resourceExhausted(`node ${node.id} is full`);
      },
      closeTransfer: async () => undefined,
    };
    return new Copies({
      nodes: all,
      successions: { clear: async () => undefined, tell: async () => undefined },
      sources: sources as never,
      patience: () => new Promise(() => undefined),
      logger: quiet as never,
      now: () => this.clock,
      roundMs: 3_600_000,
    });
  }

  #newCopies(): CopiesOfNode {
    return new CopiesOfNode({ catalogue: this.#asynchronous(), lacksRows: () => false });
  }

  #asynchronous() {
    const ask =
      (_: object, name: string) =>
      async (...args: unknown[]) =>
        (this.#catalogue as unknown as Record<string, (...args: unknown[]) => unknown>)[name]?.(...args);
    return new Proxy({}, { get: ask }) as never;
  }

  #open(file: string | null): DirectCatalogue {
    const catalogue = openCatalogueHere(file ?? this.#file());
    if (file !== null) return catalogue;
    catalogue.registerPool('default', 'uuid');
    catalogue.insertVolume(volumeRecord({ volumeId: this.#volumeId }));
    return catalogue;
  }

  #reopen(file: string | null): void {
    this.#catalogue.close();
    this.#catalogue = this.#open(file);
    this.#backup = null;
    this.#told.clear();
    this.restart();
  }

  #file(): string {
    this.#files += 1;
    return join(this.#directory, `${this.#files}.sqlite`);
  }

  async #rest(): Promise<void> {
    for (let turns = 0; turns < 5; turns += 1) {
      await turn();
      if (this.#asking > 0) turns = 0;
    }
  }
}

/** The name of the snapshot as the whole request. */
const named = ({ request, ...rest }: { request?: Buffer }): object => ({
  ...rest,
  request: encodeMessage('CreateSnapshotRequest', { name: request?.toString() ?? '' }),
});

type Move = readonly [string, (world: World, random: Random) => unknown];

const some = (random: Random, world: World): string => world.snapshots[random.below(world.snapshots.length || 1)] ?? '';
const target = (random: Random, world: World): Target => world.targets[random.below(2)] as Target;

const MOVES: readonly Move[] = [
  ['take', (world, random) => world.take(random.below(2), `s${random.below(8)}`)],
  ['take', (world, random) => world.take(random.below(2), `s${random.below(8)}`)],
  ['round', (world) => world.rounds()],
  ['round', (world) => world.rounds()],
  [
    'delete',
    (world, random) => (world.snapshots.length > 0 ? world.delete(random.below(2), some(random, world)) : undefined),
  ],
  ['messages are lost', (world) => world.lose(3)],
  ['no message is lost', (world) => world.lose(0)],
  [
    'a node goes or comes',
    (world, random) => {
      const { node } = target(random, world);
      const isConnected = !node.isConnected;
      Object.assign(node, { isConnected, unreachableSince: isConnected ? null : world.clock });
    },
  ],
  [
    'a node is full, or not any more',
    (world, random) => {
      const found = target(random, world);
      found.isFull = !found.isFull;
    },
  ],
  ['eleven minutes', (world) => world.pass(660_000)],
  ['the owner restarts', (world) => world.restart()],
  ['a backup', (world) => world.backUp()],
  ['the backup is restored', (world) => world.restore()],
  ['the owner is reinstalled', (world, random) => (random.below(4) === 0 ? world.reinstall() : undefined)],
  ['eight days', async (world, random) => target(random, world).age()],
];

test('no copy goes but for a deletion or another choice, a ready snapshot has one, and nothing is left at the end', async (t) => {
  const random = seededRandom('histories of copies');
  let copies = 0;
  for (let history = 0; history < HISTORIES; history += 1) {
    const world = new World(random);
    for (let step = 0; step < STEPS; step += 1) {
      const [name, move] = MOVES[random.below(MOVES.length)] as Move;
      await world.run(name, async () => move(world, random));
    }
    copies += world.snapshots.length;
    await world.finish();
  }
  assert.ok(copies > HISTORIES);
  t.diagnostic(`${copies} copies in ${HISTORIES} histories`);
});
