/**
 * Finds the nodes on which volumes can be made from a snapshot whose own node has lost it, or is retired: those that have promised
 * a copy. A node that merely does not answer has lost nothing, and one that has the catalogue and no such snapshot has deleted it.
 */
import { nodeKeyOf } from '../base/csi/handles.js';
import type { NodeRpcs } from '../base/csi/node-proto.js';
import type { CallContext } from '../base/csi/service.js';
import { CsiError, StatusCode } from '../base/errors.js';
import type { NodeConnection } from './node-connection.js';
import type { RemoteSources } from './remote-sources.js';

export interface RecoveryDependencies {
  nodes(): readonly NodeConnection[];
  /** Whether an operator has said that the node with this key is gone, and nothing of it is used any more. */
  isRetired(key: string): boolean;
  readonly sources: Pick<RemoteSources, 'ask'>;
}

type Known = NodeRpcs['FindCopy'][1];

/** What the node of a snapshot answers if it has lost it, or if it is retired. */
const LOSSES: readonly number[] = [StatusCode.NOT_FOUND, StatusCode.FAILED_PRECONDITION, StatusCode.UNAVAILABLE];

export class Recovery {
  constructor(private readonly deps: RecoveryDependencies) {}

  /**
   * The nodes with a promised copy of a snapshot from which no volume could be made otherwise; none if the snapshot is not lost.
   *
   * @param refusal why no volume could be made
   */
  async holders(snapshotId: string, refusal: unknown, context: CallContext): Promise<readonly NodeConnection[]> {
    if (!LOSSES.includes(CsiError.from(refusal).code)) return [];
    const key = nodeKeyOf(snapshotId) ?? '';
    const ask = (node: NodeConnection): Promise<Known | null> =>
      this.deps.sources.ask(node, 'FindCopy', { snapshot_id: snapshotId }, context).catch(() => null);
    const nodes = this.deps.nodes().filter(({ isConnected }) => isConnected);
    const owner = nodes.find((node) => node.key === key);
    const own = owner === undefined ? null : await ask(owner);
    if (own === null && !this.deps.isRetired(key)) return [];
    const others = nodes.filter((node) => node !== owner);
    const answers = await Promise.all(others.map(async (node) => ({ node, kept: (await ask(node))?.kept ?? null })));
    return answers.flatMap(({ node, kept }) => (kept !== null && (own === null || isLost(own, kept)) ? [node] : []));
  }
}

/** A node that was reinstalled has another catalogue than the one that took the snapshot. */
const isLost = ({ own, catalogue_uuid: uuid }: Known, kept: NonNullable<Known['kept']>): boolean =>
  own === 'LOST' || (own === 'ABSENT' && uuid !== kept.catalogue_uuid);
