/**
 * Handles of volumes, snapshots and group snapshots: `vol-<node key>-<uuid>`, `snap-` and `group-`.
 *
 * The node key names the owning node, so that a router can find it from a handle alone. Handles are
 * at most 60 bytes and safe as file names, device-mapper names and loop labels. A string that is not
 * of this form is simply not one of ours: not found, never an invalid argument.
 */
import { createHash, randomUUID } from 'node:crypto';

/** The short name of a node, for handles and wherever its own name does not fit: 12 hex digits. */
export function nodeKey(nodeId: string): string {
  return createHash('sha256').update(nodeId).digest('hex').slice(0, 12);
}

const NODE_KEY = '[0-9a-f]{12}';
const UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';
const VOLUME_ID = new RegExp(`^vol-${NODE_KEY}-${UUID}$`);
const VOLUME_ID_ANYWHERE = new RegExp(`vol-${NODE_KEY}-${UUID}`);
const SNAPSHOT_ID = new RegExp(`^snap-${NODE_KEY}-${UUID}$`);

export function newVolumeId(key: string): string {
  return `vol-${key}-${randomUUID()}`;
}

export function newSnapshotId(key: string): string {
  return `snap-${key}-${randomUUID()}`;
}

export function newGroupSnapshotId(key: string): string {
  return `group-${key}-${randomUUID()}`;
}

export function isVolumeId(id: string): boolean {
  return VOLUME_ID.test(id);
}

/** The volume's handle in a text such as the path of its file; null if there is none. */
export function volumeIdIn(text: string): string | null {
  return VOLUME_ID_ANYWHERE.exec(text)?.[0] ?? null;
}

/** The UUID at the end of one of our handles. */
export function uuidOf(id: string): string {
  return id.slice(-36);
}

export function isSnapshotId(id: string): boolean {
  return SNAPSHOT_ID.test(id);
}
