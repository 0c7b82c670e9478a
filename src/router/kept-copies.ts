/**
 * What an operator asks about the copies that nodes keep: which there are, whether they are what was taken, and their removal once
 * the node of the snapshot has lost it. As the RPCs of proto/router.proto say.
 */
import { parseBytes } from '../base/csi/fields.js';
import type { RouterRpcs } from '../base/csi/router-proto.js';
import type { CallContext } from '../base/csi/service.js';
import { CsiError, messageOf, StatusCode } from '../base/errors.js';
import type { Copies } from './copies.js';
import type { NodeConnection } from './node-connection.js';
import type { RemoteSources } from './remote-sources.js';
import { requireKey } from './routes.js';

export interface KeptCopiesDependencies {
  nodes(): readonly NodeConnection[];
  /** The node of a handle. Throws UNAVAILABLE if it is not listed, and FAILED_PRECONDITION if it is retired. */
  owning(key: string, handle: string): NodeConnection;
  isRetired(key: string): boolean;
  readonly sources: Pick<RemoteSources, 'ask'>;
  readonly copies: Pick<Copies, 'deleteReplicas'>;
}

type Requests = { [R in keyof RouterRpcs]: RouterRpcs[R][0] };
type Responses = { [R in keyof RouterRpcs]: RouterRpcs[R][1] };

/** How much is compared at once: a slow disk reads it within a few seconds. */
const PART_BYTES = 1n << 28n;

export class KeptCopies {
  constructor(private readonly deps: KeptCopiesDependencies) {}

  async list({ snapshot_id: id }: Requests['ListCopies'], context: CallContext): Promise<Responses['ListCopies']> {
    const asked = id === '' ? this.deps.nodes() : [this.deps.owning(requireKey(id, 'snapshot_id', 'snapshot'), id)];
    const reached = asked.filter(({ isConnected }) => isConnected);
    const lists = reached.map((node) => this.deps.sources.ask(node, 'ListCopies', { kept: true }, context));
    const copies = (await Promise.all(lists)).flatMap((list) => list.copies);
    return {
      // A node of an older version answers with what is left to do instead.
      copies: copies.filter(({ snapshot_id, state }) => state === 'KEPT' && (id === '' || snapshot_id === id)),
      unreachable: asked.filter((node) => !reached.includes(node)).map((node) => node.id),
    };
  }

  async compare(request: Requests['CompareCopy'], context: CallContext): Promise<Responses['CompareCopy']> {
    const { snapshot_id, node_id, offset } = request;
    const owner = this.deps.owning(requireKey(snapshot_id, 'snapshot_id', 'snapshot'), snapshot_id);
    const holder = this.deps.nodes().find(({ id }) => id === node_id);
    if (holder === undefined) throw CsiError.unavailable(`node '${node_id}', which keeps the copy, is not listed`);
    const part = { snapshot_id, offset, length_bytes: String(PART_BYTES) };
    const digest = (node: NodeConnection) => this.deps.sources.ask(node, 'DigestSnapshot', part, context);
    const [own, copy] = await Promise.all([digest(owner), digest(holder).catch(lossIn)]);
    const { size_bytes } = own;
    const ends = [parseBytes(offset, 'offset') + PART_BYTES, BigInt(size_bytes)] as const;
    const end = String(ends[0] < ends[1] ? ends[0] : ends[1]);
    if ('why' in copy) return { result: 'LOST', why: copy.why, end, size_bytes };
    const isEqual = copy.size_bytes === size_bytes && copy.sha256.equals(own.sha256);
    return { result: isEqual ? 'EQUAL' : 'DIFFERENT', why: '', end, size_bytes };
  }

  async delete(
    { snapshot_id: id }: Requests['DeleteCopies'],
    context: CallContext,
  ): Promise<Responses['DeleteCopies']> {
    const key = requireKey(id, 'snapshot_id', 'snapshot');
    if (!this.deps.isRetired(key)) {
      const owner = this.deps.owning(key, id);
      const { own } = await this.deps.sources.ask(owner, 'FindCopy', { snapshot_id: id }, context);
      if (own === 'HELD') {
        throw CsiError.failedPrecondition(
          `snapshot_id: node '${owner.id}' has snapshot ${id} and counts on its copy: delete the snapshot, and its copy goes`,
        );
      }
    }
    return { unreachable: await this.deps.copies.deleteReplicas(id) };
  }
}

function lossIn(thrown: unknown): { why: string } {
  if (CsiError.from(thrown).code === StatusCode.NOT_FOUND) return { why: messageOf(thrown) };
  throw thrown;
}
