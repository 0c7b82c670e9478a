/**
 * Has copies of snapshots made on other nodes, and removed, as the nodes of the snapshots have recorded it.
 *
 * Keeps no state: each round asks the nodes what is left to do. Two routers may do the same. The order makes a copy sure: the
 * node that holds it promises it before the node of the snapshot counts on it, and removes it before that node forgets it.
 */
import type { Logger } from 'pino';
import { bestEffort } from '../base/best-effort.js';
import { nodeKeyOf } from '../base/csi/handles.js';
import type { CopyMessage, RoomMessage } from '../base/csi/node-proto.js';
import type { CallContext } from '../base/csi/service.js';
import { CsiError, messageOf, StatusCode } from '../base/errors.js';
import { Periodic } from '../base/periodic.js';
import { SingleFlight } from '../base/single-flight.js';
import type { NodeConnection } from './node-connection.js';
import type { Clock } from './node-list.js';
import type { RemoteSources } from './remote-sources.js';
import type { Successions } from './successions.js';

export interface CopiesDependencies {
  nodes(): readonly NodeConnection[];
  readonly successions: Pick<Successions, 'clear' | 'tell'>;
  readonly sources: Pick<RemoteSources, 'ask' | 'pull' | 'closeTransfer'>;
  /** Resolves when the time is up that a node has to say what room it has. */
  patience(): Promise<void>;
  readonly logger: Logger;
  readonly now: Clock;
  roundMs?: number;
}

interface Candidate {
  readonly node: NodeConnection;
  readonly room: RoomMessage;
}

const ROUND_MS = 10_000;
/** How long the node of a copy is away before another one is chosen. */
const AWAY_MS = 600_000;

export class Copies {
  /** By promises. */
  readonly #work = new SingleFlight<string, void>();
  readonly #rounds: Periodic;

  constructor(private readonly deps: CopiesDependencies) {
    this.#rounds = new Periodic(deps.roundMs ?? ROUND_MS, () => this.round());
    this.#rounds.start();
  }

  async stop(): Promise<void> {
    await this.#rounds.stop();
  }

  /**
   * Takes a snapshot with a copy on another node, or finds the one that was taken. Begins to make the copy and does not wait for
   * it. FAILED_PRECONDITION, before anything is taken, if no node can hold a copy.
   */
  async createSnapshot(owner: NodeConnection, volumeId: string, context: CallContext): Promise<Buffer> {
    const take = async (nodeId: string): Promise<Buffer> => {
      const request = { request: context.encodedRequest, node_id: nodeId };
      return (await this.deps.sources.ask(owner, 'CreateCopiedSnapshot', request, context)).response;
    };
    try {
      const known = await take('');
      if (known.length > 0) return known;
      const [best] = await this.#candidates(owner, volumeId);
      if (best === undefined) throw noCandidate(volumeId);
      return await take(best.node.id);
    } finally {
      // A repeated call has the copy tried again at once.
      void this.#roundOf(owner);
    }
  }

  /**
   * Deletes a snapshot. Its node has its copies removed. A node that has lost its catalogue knows neither; then all nodes remove
   * theirs, on the word of the caller.
   *
   * @param remove passes the call on to the node
   */
  async deleteSnapshot(
    owner: NodeConnection,
    snapshotId: string,
    context: CallContext,
    remove: () => Promise<Buffer>,
  ): Promise<Buffer> {
    const asked = this.deps.sources.ask(owner, 'FindCopy', { snapshot_id: snapshotId }, context);
    const isKnown = await asked.then(({ own }) => own !== 'ABSENT', knownToOlder);
    const answer = await remove();
    if (isKnown) void this.#roundOf(owner);
    else await this.deleteReplicas(snapshotId);
    return answer;
  }

  /** Has all nodes that can be reached remove their copies of a snapshot. Resolves to the ids of the others, whose copies stay. */
  async deleteReplicas(snapshotId: string): Promise<string[]> {
    const others = this.deps.nodes().filter((node) => node.key !== nodeKeyOf(snapshotId));
    const away = others.filter(({ isConnected }) => !isConnected).map(({ id }) => id);
    if (away.length > 0) this.deps.logger.warn({ nodes: away, snapshot: snapshotId }, 'a copy may be left');
    const reached = others.filter(({ isConnected }) => isConnected);
    const deleted = reached.map((node) => this.deps.sources.ask(node, 'DeleteReplica', { snapshot_id: snapshotId }));
    await Promise.all(deleted.map((each) => each.catch(knownToOlder)));
    return away;
  }

  /** Does what is left to do for a node that can be reached again. Never rejects. */
  async connected(key: string): Promise<void> {
    for (const node of this.deps.nodes()) if (node.key === key) await this.#roundOf(node);
  }

  /** Goes on with what is left to do for all copies. Never rejects. */
  async round(): Promise<void> {
    await Promise.all(this.deps.nodes().map((node) => this.#roundOf(node)));
  }

  async #roundOf(owner: NodeConnection): Promise<void> {
    if (!owner.isConnected) return;
    const nothing = { copies: [], awaits_clearance: false, untold: [] };
    const { copies, awaits_clearance, untold } = await this.deps.sources
      .ask(owner, 'ListCopies', { kept: false })
      .catch(() => nothing);
    const { successions, logger } = this.deps;
    if (awaits_clearance) {
      await bestEffort(
        () => successions.clear(owner),
        (thrown) => logger.info({ node: owner.id, why: messageOf(thrown) }, 'a node that has booted waits'),
      );
    }
    for (const succession of untold) {
      await bestEffort(
        () => successions.tell(owner, succession),
        (thrown) => logger.warn({ why: messageOf(thrown) }, 'a volume that is superseded may be staged'),
      );
    }
    for (const copy of copies) {
      const work = () => (copy.state === 'ENDING' ? this.#end(owner, copy) : this.#make(owner, copy));
      void this.#work.run(copy.promise_id, () =>
        work().catch((thrown) => {
          const { snapshot_id: snapshot, node_id: node } = copy;
          this.deps.logger.info({ node, snapshot, why: messageOf(thrown) }, 'a copy is not settled yet');
        }),
      );
    }
  }

  async #make(owner: NodeConnection, copy: CopyMessage): Promise<void> {
    const { snapshot_id, promise_id, pool } = copy;
    try {
      const node = this.#connected(copy.node_id);
      await this.deps.sources.pull(node, snapshot_id, { pool, cloneName: '' });
      await this.deps.sources.ask(node, 'KeepReplica', { snapshot_id, promise_id });
      await this.deps.sources.ask(owner, 'ReportCopy', { snapshot_id, promise_id, outcome: 'KEPT', failure: '' });
    } catch (thrown) {
      if (await this.#chooseAnew(owner, copy, CsiError.from(thrown))) return;
      const failure = `${messageOf(thrown)}; it is tried again`;
      await this.deps.sources.ask(owner, 'ReportCopy', { snapshot_id, promise_id, outcome: 'FAILED', failure });
      throw thrown;
    }
  }

  async #end(owner: NodeConnection, { snapshot_id, promise_id, node_id }: CopyMessage): Promise<void> {
    const node = this.#connected(node_id);
    // The pull may still be reading.
    await this.deps.sources.closeTransfer(node, snapshot_id);
    await this.deps.sources.ask(node, 'EndReplica', { snapshot_id, promise_id });
    await this.deps.sources.ask(owner, 'ReportCopy', { snapshot_id, promise_id, outcome: 'ENDED', failure: '' });
  }

  /**
   * Gives the copy to another node if its node has been away for long, or has no room. The other has more room, so that two nodes
   * without enough are not chosen in turn. Resolves to whether one was found.
   */
  async #chooseAnew(owner: NodeConnection, copy: CopyMessage, { code }: CsiError): Promise<boolean> {
    const { snapshot_id, promise_id, volume_id, pool } = copy;
    const node = this.deps.nodes().find(({ id }) => id === copy.node_id);
    const isAway = node === undefined || this.deps.now() - (node.unreachableSince ?? Infinity) >= AWAY_MS;
    const isRefused = code === StatusCode.RESOURCE_EXHAUSTED || code === StatusCode.FAILED_PRECONDITION;
    if (!isAway && !isRefused) return false;
    const candidates = await this.#candidates(owner, volume_id);
    const own = candidates.find((each) => each.node === node) ?? null;
    // A node that refuses for another reason than its room is not to blame: another one would refuse, too.
    if (!isAway && own !== null && code !== StatusCode.RESOURCE_EXHAUSTED) return false;
    const room = isAway || own === null ? -1n : BigInt(own.room.room_bytes);
    const other = candidates.find((each) => each.node !== node && BigInt(each.room.room_bytes) > room);
    if (other === undefined) return false;
    await this.deps.sources.ask(owner, 'ChooseCopy', { snapshot_id, promise_id, node_id: other.node.id });
    this.deps.logger.info(
      { snapshot: snapshot_id, from: copy.node_id, to: other.node.id, pool },
      'another node is to keep a copy',
    );
    void this.#roundOf(owner);
    return true;
  }

  /** The nodes that could keep a copy: those with the newest replica of the volume first, then those with most room. */
  async #candidates(owner: NodeConnection, volumeId: string): Promise<Candidate[]> {
    const own = await this.deps.sources.ask(owner, 'FindRoom', { volume_id: volumeId, pool: '' });
    if (!own.serves) throw notServed(owner, volumeId);
    const others = this.deps.nodes().filter((node) => node !== owner && node.isConnected);
    const question = { volume_id: volumeId, pool: own.pool };
    const answers = others.map(async (node): Promise<Candidate | null> => {
      const late = this.deps.patience().then(() => null);
      const answer = this.deps.sources.ask(node, 'FindRoom', question).catch(() => null);
      const room = await Promise.race([answer, late]);
      return room === null || !room.holds || room.room_bytes === '0' ? null : { node, room };
    });
    const found = (await Promise.all(answers)).filter((each) => each !== null);
    const rank = ({ room }: Candidate): [bigint, bigint] => [BigInt(room.newest_sequence), BigInt(room.room_bytes)];
    return found.sort((a, b) => {
      const [[aNewest, aRoom], [bNewest, bRoom]] = [rank(a), rank(b)];
      return Number(bNewest - aNewest) || Number(bRoom - aRoom);
    });
  }

  #connected(id: string): NodeConnection {
    const node = this.deps.nodes().find((each) => each.id === id);
    if (node?.isConnected === true) return node;
    throw CsiError.unavailable(`node '${id}', which is to keep the copy, cannot be reached`);
  }
}

/** A node whose version knows no copies has none, and loses none. */
function knownToOlder(thrown: unknown): true {
  if (CsiError.from(thrown).code === StatusCode.FAILED_PRECONDITION) return true;
  throw thrown;
}

const noCandidate = (volumeId: string): CsiError =>
  CsiError.failedPrecondition(
    `parameters['copies']: no other node can hold a copy of a snapshot of ${volumeId}: it needs a reflink or thin pool of the ` +
      "name that the volume's class has, with room, and a router that reaches it",
  );

const notServed = (owner: NodeConnection, volumeId: string): CsiError =>
  CsiError.failedPrecondition(
    `parameters['copies']: node '${owner.id}' does not have ${volumeId}, or serves no snapshots to other nodes: set ` +
      'BLOCKDELTA_TRANSFER_PORTS on it',
  );
