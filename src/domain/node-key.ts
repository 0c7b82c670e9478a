/** The short name of a node, for handles and wherever its own name does not fit. */
import { createHash } from 'node:crypto';

/** 12 hex digits, the same for the same node id for ever. */
export function nodeKey(nodeId: string): string {
  return createHash('sha256').update(nodeId).digest('hex').slice(0, 12);
}
