/** Steps that the jobs have in common: a volume that is filled, changed and snapshotted, and raw volumes from the snapshots. */
import { join } from 'node:path';
import { detail, mib, say } from './steps.mjs';
import { changeTree, copyTree } from './tree.mjs';

/** How the volume of makeVolume is used. */
export const FILE_SYSTEM = { mount: { fs_type: 'ext4' }, access_mode: { mode: 'SINGLE_NODE_WRITER' } };

/**
 * Mounts it at <place>/data.
 *
 * @param node where it is made; undefined if there is only one
 */
export async function makeVolume(session, csi, node) {
  const where = node === undefined ? '' : ` on node ${node}`;
  say(`creating a file system volume of ${mib(session.volumeBytes)}${where}, staging and publishing it`);
  const capability = FILE_SYSTEM;
  const volume = await csi.createVolume(session, { name: 'data', capability, bytes: session.volumeBytes, node });
  await csi.publish(session, { volume, capability, name: 'data', node });
  detail(`volume ${volume.volume_id} at ${join(session.place, 'data')}`);
  return volume;
}

export async function fillVolume({ tree: limits }, tree) {
  say(`copying ${mib(limits.bytes)} of this machine's /usr into it, ${limits.files} files at most`);
  const copied = await copyTree('/usr', tree, limits);
  detail(`${copied.files} files, ${mib(copied.bytes)}`);
}

export async function change(tree, name) {
  say('changing the tree: append, overwrite in place, delete, new files');
  const changes = await changeTree(tree, name);
  detail(Object.entries(changes).map(([kind, count]) => `${count} ${kind}`).join(', '));
}

/** @param onPending with it, another node keeps a copy; it is awaited before the call is repeated because there is none yet */
export async function snapshot(session, csi, volume, label, onPending) {
  say(`snapshot ${label}${onPending === undefined ? '' : ', with a copy on another node'}`);
  const started = performance.now();
  const made = await csi.createSnapshot(session, { volume, name: `snapshot-${label}`, onPending });
  session.labels = { ...session.labels, [made.snapshot_id]: label };
  detail(`${made.snapshot_id} in ${(performance.now() - started).toFixed(0)} ms`);
  return made;
}

/**
 * A raw block volume made from a snapshot, and the path at which it is published read-only.
 *
 * @param placement as in createVolume
 */
export async function publishRaw(session, csi, { name, source, ...placement }) {
  const capability = { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } };
  const volume = await csi.createVolume(session, { name, capability, bytes: session.volumeBytes, source, ...placement });
  await csi.publish(session, { volume, capability, name, readonly: true, node: placement.node });
  return { volume, path: join(session.place, name) };
}
