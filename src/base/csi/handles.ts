/**
 * Handles of volumes, snapshots and group snapshots: `vol-<node key>-<uuid>`, `snap-` and `group-`.
 *
 * The node key names the owning node, so that a router can find the node from a handle alone. A handle
 * is at most 60 bytes and safe as a file name, device-mapper name and loop label. A string of another
 * form is the handle of an object that does not exist: NOT_FOUND, never INVALID_ARGUMENT.
 */
import { createHash, randomUUID } from 'node:crypto';

/** 12 hex digits that stand for a node in handles, and wherever its id is too long. */
export function nodeKey(nodeId: string): string {
  return createHash('sha256').update(nodeId).digest('hex').slice(0, 12);
}

const NODE_KEY = '[0-9a-f]{12}';
const UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';
const VOLUME_ID = new RegExp(`^vol-${NODE_KEY}-${UUID}$`);
const VOLUME_ID_ANYWHERE = new RegExp(`vol-${NODE_KEY}-${UUID}`);
const SNAPSHOT_ID = new RegExp(`^snap-${NODE_KEY}-${UUID}$`);
const HANDLE = new RegExp(`^(?:vol|snap|group)-(${NODE_KEY})-${UUID}$`);

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

export function isSnapshotId(id: string): boolean {
  return SNAPSHOT_ID.test(id);
}

/** The key of the node that a handle names; null for a string that is not a handle. */
export function nodeKeyOf(handle: string): string | null {
  return HANDLE.exec(handle)?.[1] ?? null;
}

/** The first volume handle in a text such as the path of a volume's file; null if there is none. */
export function volumeIdIn(text: string): string | null {
  return VOLUME_ID_ANYWHERE.exec(text)?.[0] ?? null;
}

/** The UUID at the end of a handle. */
export function uuidOf(id: string): string {
  return id.slice(-36);
}
