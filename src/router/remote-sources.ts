/**
 * Brings snapshots of one node to another, so that volumes can be made from them there: asks the node that has the snapshot to
 * serve it piece by piece, and the other to fetch it.
 *
 * Keeps no state that a restart would lose: the node that pulls records what it has, and reports pulls that a call waits for, so
 * that each round goes on with them. Two routers may bring the same snapshot. Each call to a node may be repeated.
 */
import { lookup } from 'node:dns/promises';
import type { Logger } from 'pino';
import { bestEffort, unreported } from '../base/best-effort.js';
import { nodeKeyOf } from '../base/csi/handles.js';
import type { NodeRpc, NodeRpcs, PullStateMessage } from '../base/csi/node-proto.js';
import type { CallContext } from '../base/csi/service.js';
import { CsiError, messageOf, StatusCode } from '../base/errors.js';
import { Periodic } from '../base/periodic.js';
import { parseHostPort } from '../base/settings/values.js';
import { SingleFlight } from '../base/single-flight.js';
import { withTimeout } from '../base/timeout.js';
import { callNode } from './node-calls.js';
import type { NodeConnection } from './node-connection.js';
import type { Clock } from './node-list.js';

export interface RemoteSourcesDependencies {
  nodes(): readonly NodeConnection[];
  /** The node of a handle. Throws UNAVAILABLE if it is not listed. */
  owning(key: string, handle: string): NodeConnection;
  readonly logger: Logger;
  readonly now: Clock;
  roundMs?: number;
}

export interface Wanted {
  /** As in the parameters of the volume. */
  readonly pool: string;
  /** The name of the volume, if the snapshot was taken for it; otherwise empty. */
  readonly cloneName: string;
}

const ROUND_MS = 10_000;
/** How long a pull goes on after the last call that asked for it. */
const ASKED_MS = 3_600_000;
/** How long a node may wait for the end of a piece before it answers. The transfer is then prolonged. */
const PIECE_MS = 10_000;
/** How long a node may take for any call here. The list of a large snapshot takes a few seconds. */
const CALL_MS = 300_000;
/** How long a CreateVolume waits for the snapshot before it says how far it is. */
const ANSWER_MS = 4000;
const BEFORE_DEADLINE_MS = 1000;

export class RemoteSources {
  readonly #bringing = new SingleFlight<string, void>();
  /** When a call last asked for a snapshot that is being brought, by the router's clock; Infinity while one waits for its end. */
  readonly #asked = new Map<string, number>();
  /** What the last answer of the node that pulls says, while a snapshot is being brought. */
  readonly #states = new Map<string, PullStateMessage>();
  readonly #rounds: Periodic;

  constructor(private readonly deps: RemoteSourcesDependencies) {
    this.#rounds = new Periodic(deps.roundMs ?? ROUND_MS, () => this.round());
    this.#rounds.start();
  }

  async stop(): Promise<void> {
    await this.#rounds.stop();
  }

  /**
   * Resolves when the node has the snapshot. ABORTED, with the progress, if that takes longer than a call should; the node goes
   * on. UNAVAILABLE if the snapshot's node cannot be reached, RESOURCE_EXHAUSTED if the other has no room, NOT_FOUND if there is
   * no such snapshot.
   *
   * @param deadline of the call, ms since the epoch
   */
  async bring(node: NodeConnection, snapshotId: string, wanted: Wanted, deadline: number): Promise<void> {
    const waitMs = Math.min(ANSWER_MS, deadline - BEFORE_DEADLINE_MS - Date.now());
    const pull = this.#askFor(node, snapshotId, wanted, this.deps.now());
    await withTimeout(pull, Math.max(0, waitMs), () => {
      throw underWay(node, snapshotId, this.#states.get(keyOf(node, snapshotId)));
    });
  }

  /** As bring, but waits as long as it takes. */
  pull(node: NodeConnection, snapshotId: string, wanted: Wanted): Promise<void> {
    return this.#askFor(node, snapshotId, wanted, Infinity);
  }

  #askFor(node: NodeConnection, snapshotId: string, wanted: Wanted, askedAt: number): Promise<void> {
    const key = keyOf(node, snapshotId);
    this.#asked.set(key, Math.max(askedAt, this.#asked.get(key) ?? 0));
    return this.#bringing.run(key, () => this.#bring(node, snapshotId, wanted));
  }

  /** The snapshot of a volume that a clone with this name is made from on another node. NOT_FOUND if there is no such volume. */
  async snapshotForClone(volumeId: string, cloneName: string): Promise<string> {
    const owner = this.deps.owning(nodeKeyOf(volumeId) ?? '', volumeId);
    return (await this.ask(owner, 'SnapshotForClone', { volume_id: volumeId, clone_name: cloneName })).snapshot_id;
  }

  /** Whether the node has a complete replica of the snapshot. False if it does not answer. */
  async hasReplica(node: NodeConnection, snapshotId: string): Promise<boolean> {
    const found = await this.ask(node, 'FindSnapshot', { snapshot_id: snapshotId, snapshot: null }).catch(() => null);
    return found?.pull?.status === 'COMPLETE';
  }

  /** Goes on with the pulls that calls wait for, wherever they were begun. Never rejects. */
  async round(): Promise<void> {
    const asking = this.deps.nodes().filter(({ isConnected }) => isConnected);
    await Promise.all(
      asking.map(async (node) => {
        const { pulls } = await this.ask(node, 'ListPulls', {}).catch(() => ({ pulls: [] }));
        for (const { snapshot, pool, clone_name: cloneName } of pulls) {
          const id = snapshot?.snapshot_id ?? '';
          const bring = this.#bringing.run(keyOf(node, id), () => this.#bring(node, id, { pool, cloneName }));
          bring.catch((thrown) => {
            this.deps.logger.info({ node: node.id, snapshot: id, why: messageOf(thrown) }, 'a pull does not go on yet');
          });
        }
      }),
    );
  }

  async #bring(node: NodeConnection, snapshotId: string, wanted: Wanted): Promise<void> {
    const key = keyOf(node, snapshotId);
    const since = this.deps.now();
    let told: number | undefined;
    try {
      for (;;) {
        const askedAt = this.#asked.get(key);
        if (this.deps.now() - (askedAt ?? since) >= ASKED_MS) throw notAsked(node, snapshotId);
        const asked = askedAt !== undefined && (askedAt !== told || askedAt === Infinity);
        told = askedAt;
        const found = await this.ask(node, 'FindSnapshot', { snapshot_id: snapshotId, snapshot: null });
        if (found.pull?.status === 'COMPLETE') {
          void this.closeTransfer(node, snapshotId);
          return;
        }
        const state = await this.#fetchPiece(node, snapshotId, wanted, asked, found.pull);
        this.#states.set(key, state);
        if (state.status === 'WAITING' && state.failure !== '') throw notFetched(node, snapshotId, state);
      }
    } finally {
      this.#asked.delete(key);
      this.#states.delete(key);
    }
  }

  /** Has the piece opened, or prolonged, that the node wants or fetches now, and fetched. */
  async #fetchPiece(
    node: NodeConnection,
    snapshotId: string,
    { pool, cloneName }: Wanted,
    asked: boolean,
    pull: PullStateMessage | null,
  ): Promise<PullStateMessage> {
    const owner = this.deps.owning(nodeKeyOf(snapshotId) ?? '', snapshotId);
    const { snapshot } = await this.ask(owner, 'FindSnapshot', { snapshot_id: snapshotId, snapshot: null });
    if (snapshot === null) throw notThere(owner, snapshotId);
    const { bases } = await this.ask(node, 'FindSnapshot', { snapshot_id: snapshotId, snapshot });
    const begun = pull?.base_snapshot_id ?? '';
    // Its size was compared when the pull began.
    const own =
      begun === '' ? [] : [bases.find((each) => each.snapshot_id === begun) ?? { snapshot_id: begun, size_bytes: '0' }];
    const goesOn = pull !== null && (pull.status === 'RUNNING' || pull.offset !== '0');
    const offered = goesOn ? own : [...own, ...bases.filter((each) => each.snapshot_id !== begun)];
    const offset = goesOn ? pull.offset : '0';
    const opening = { snapshot_id: snapshotId, reader: node.id, bases: offered, offset };
    const piece = await this.ask(owner, 'OpenTransfer', opening);
    const host = await hostOf(owner);
    const order = { snapshot, pool, host, piece, asked, wait_ms: PIECE_MS, clone_name: cloneName };
    return this.ask(node, 'PullSnapshot', order);
  }

  /** Frees the port of a transfer to a node. Whoever has opened it may have ended since. Never rejects. */
  async closeTransfer(node: NodeConnection, snapshotId: string): Promise<void> {
    // If it fails, the transfer ends by itself.
    await bestEffort(async () => {
      const owner = this.deps.owning(nodeKeyOf(snapshotId) ?? '', snapshotId);
      await this.ask(owner, 'CloseTransfer', { snapshot_id: snapshotId, reader: node.id });
    }, unreported);
  }

  /**
   * Asks a node. FAILED_PRECONDITION if its version does not know the question.
   *
   * @param of the call that the question belongs to; left out if it belongs to none
   */
  async ask<R extends NodeRpc>(
    node: NodeConnection,
    rpc: R,
    request: NodeRpcs[R][0],
    of?: Pick<CallContext, 'deadline' | 'signal'>,
  ): Promise<NodeRpcs[R][1]> {
    // The node ends the call at the deadline, and a connection that is lost ends it at once.
    const { deadline, signal } = of ?? { deadline: Date.now() + CALL_MS, signal: new AbortController().signal };
    const call = { deadline, signal, caller: 'router' };
    try {
      return await callNode(node, rpc, request, call);
    } catch (thrown) {
      if (CsiError.from(thrown).code !== StatusCode.UNIMPLEMENTED) throw thrown;
      throw CsiError.failedPrecondition(
        `node '${node.id}' has a version that cannot pass snapshots to other nodes: upgrade it, or make the volume on the node ` +
          'of its source',
      );
    }
  }
}

const keyOf = (node: NodeConnection, snapshotId: string): string => `${snapshotId} to ${node.id}`;

/** The IPv4 address where the node serves transfers. */
async function hostOf({ id, address }: NodeConnection): Promise<string> {
  const { host } = parseHostPort('address', address ?? '');
  const found = await lookup(host, { family: 4 }).catch(() => null);
  if (found !== null) return found.address;
  throw CsiError.failedPrecondition(
    `node '${id}' has the address ${host}, which is no IPv4 address and the name of none: other nodes read its snapshots by ` +
      'IPv4 only',
  );
}

const notThere = (owner: NodeConnection, snapshotId: string): CsiError =>
  CsiError.notFound(
    `volume_content_source: snapshot ${snapshotId} does not exist on its node '${owner.id}', or is not ready`,
  );

const notAsked = (node: NodeConnection, snapshotId: string): CsiError =>
  CsiError.aborted(
    `snapshot ${snapshotId} is not copied to node '${node.id}' any more, because no call has asked for an hour`,
  );

const notFetched = (node: NodeConnection, snapshotId: string, { failure }: PullStateMessage): CsiError =>
  CsiError.unavailable(`node '${node.id}' could not fetch snapshot ${snapshotId}: ${failure}; it is tried again`);

function underWay(node: NodeConnection, snapshotId: string, state: PullStateMessage | undefined): CsiError {
  const { done_bytes: done, total_bytes: total, bytes_per_second: rate } = state ?? NOTHING_YET;
  const percent = total === '0' ? 0n : (BigInt(done) * 100n) / BigInt(total);
  return CsiError.aborted(
    `snapshot ${snapshotId} is being copied to node '${node.id}': ${done} of ${total} bytes (${percent} %), ${rate} bytes/s; ` +
      'the volume is made when it is there',
  );
}

const NOTHING_YET = { done_bytes: '0', total_bytes: '0', bytes_per_second: '0' };
