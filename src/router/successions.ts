/**
 * Volumes that have taken the place of others: what an operator says, and what a node has to know of it before it stages volumes
 * that have had copies.
 *
 * The node of the new volume keeps the record, because that of the old one may be retired. An old volume refuses its staging, or its
 * node is retired, before the record is there. A node that was retired is told in the first round after that.
 */
import { nodeKeyOf } from '../base/csi/handles.js';
import type { SuccessionMessage } from '../base/csi/node-proto.js';
import type { CordonMessage, SupersedeMessage } from '../base/csi/router-proto.js';
import type { CallContext } from '../base/csi/service.js';
import { CsiError } from '../base/errors.js';
import type { NodeConnection } from './node-connection.js';
import type { RemoteSources } from './remote-sources.js';
import { requireKey } from './routes.js';

export interface SuccessionsDependencies {
  nodes(): readonly NodeConnection[];
  /** The node of a handle. Throws UNAVAILABLE if it is not listed, and FAILED_PRECONDITION if it is retired. */
  owning(key: string, handle: string): NodeConnection;
  isRetired(key: string): boolean;
  /** Whether it is known which nodes are retired: then `nodes` has none of them. */
  knowsRetired(): boolean;
  readonly sources: Pick<RemoteSources, 'ask'>;
}

export class Successions {
  constructor(private readonly deps: SuccessionsDependencies) {}

  /** As Router.Supersede of proto/router.proto. */
  async supersede(request: SupersedeMessage, context: CallContext): Promise<void> {
    const { old_volume_id: oldId, new_volume_id: newId } = request;
    const [oldKey, newKey] = [
      requireKey(oldId, 'old_volume_id', 'volume'),
      requireKey(newId, 'new_volume_id', 'volume'),
    ];
    if (oldId === newId) throw CsiError.invalidArgument('old_volume_id and new_volume_id are the same');
    const told = !this.deps.isRetired(oldKey);
    const succession = { ...request, told };
    if (told) await this.deps.sources.ask(this.deps.owning(oldKey, oldId), 'SupersedeVolume', succession, context);
    await this.deps.sources.ask(this.deps.owning(newKey, newId), 'RecordSuccession', succession, context);
  }

  /** As Router.Cordon of proto/router.proto. */
  async cordon(request: CordonMessage, context: CallContext): Promise<void> {
    const { volume_id: id } = request;
    await this.deps.sources.ask(
      this.deps.owning(requireKey(id, 'volume_id', 'volume'), id),
      'CordonVolume',
      request,
      context,
    );
  }

  /**
   * Tells the node of an old volume, once it is not retired any more: it may have come back without a boot. Nothing while it is
   * retired.
   *
   * @param owner the node of the new volume, which has recorded the succession
   */
  async tell(owner: NodeConnection, succession: SuccessionMessage): Promise<void> {
    const { old_volume_id: oldId } = succession;
    const oldKey = requireKey(oldId, 'old_volume_id', 'volume');
    if (!this.deps.knowsRetired() || this.deps.isRetired(oldKey)) return;
    await this.deps.sources.ask(this.deps.owning(oldKey, oldId), 'SupersedeVolume', succession);
    await this.deps.sources.ask(owner, 'RecordSuccession', { ...succession, told: true });
  }

  /**
   * Tells a node that has booted what is superseded, and then that it may stage volumes that have had copies. Rejects unless all
   * nodes that are not retired answer.
   */
  async clear(owner: NodeConnection): Promise<void> {
    if (!this.deps.knowsRetired()) throw CsiError.unavailable('it is not known which nodes are retired');
    const { sources } = this.deps;
    const answers = await Promise.all(this.deps.nodes().map((node) => sources.ask(node, 'ListSuccessions', {})));
    for (const succession of answers.flatMap(({ successions }) => successions)) {
      if (nodeKeyOf(succession.old_volume_id) !== owner.key) continue;
      await sources.ask(owner, 'SupersedeVolume', succession);
    }
    await sources.ask(owner, 'ClearStaging', {});
  }
}
