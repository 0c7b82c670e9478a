/**
 * Which operations the table has, by the files of tests that run them. In the plain suite the first of those that differ
 * in the kind of their volume alone.
 */
import type { VolumeKind } from '../support/contents.js';
import type { Operation } from './faults.js';
import { legacy } from './legacy.js';
import {
  CHANGE_LIST,
  CONTROLLER_PUBLISH,
  CONTROLLER_UNPUBLISH,
  CREATE_GROUP,
  cloneVolume,
  createIdleSnapshot,
  createSnapshot,
  createVolume,
  DELETE_GROUP,
  DELETE_SNAPSHOT,
  DELETE_VOLUME_WITH_BASES,
  deleteBase,
  deleteStagedVolume,
  deleteVolume,
  expandVolume,
  modifyVolume,
  nodeExpandVolume,
  publishVolume,
  restoreVolume,
  START,
  stageCopy,
  stageVolume,
  startAfter,
  unpublishVolume,
  unstageVolume,
} from './operations.js';
import type { Scene } from './scene.js';

const KINDS: readonly VolumeKind[] = ['ext4', 'xfs', 'block', 'btrfs'];

/** With residents of the kinds block, ext4 and xfs. */
export const VOLUMES: readonly Operation[] = [
  createVolume('block'),
  createVolume('xfs'),
  restoreVolume('block'),
  restoreVolume('xfs'),
  cloneVolume('block'),
  cloneVolume('ext4'),
  cloneVolume('xfs'),
  deleteVolume('block'),
  deleteStagedVolume('ext4'),
  deleteStagedVolume('block'),
  expandVolume('xfs'),
  expandVolume('ext4'),
  expandVolume('block'),
  modifyVolume('block'),
  CONTROLLER_PUBLISH,
  CONTROLLER_UNPUBLISH,
];

/** With a resident of each kind. */
export const SNAPSHOTS: readonly Operation[] = [
  createIdleSnapshot('block'),
  createSnapshot('ext4'),
  createSnapshot('block'),
  createSnapshot('xfs'),
  createSnapshot('btrfs'),
  DELETE_SNAPSHOT,
  CREATE_GROUP,
  DELETE_GROUP,
];

/** With change lists and retained bases. */
export const LISTS: readonly Operation[] = [
  CHANGE_LIST,
  deleteBase(0),
  deleteBase(1),
  deleteBase(0, true),
  DELETE_VOLUME_WITH_BASES,
];

/** With the versions before CSI v1. */
export const NODE: readonly Operation[] = [
  ...KINDS.map(stageVolume),
  ...(['xfs', 'ext4', 'btrfs'] as const).map(stageCopy),
  ...KINDS.map(publishVolume),
  ...KINDS.map(unpublishVolume),
  ...KINDS.map(unstageVolume),
  // ext4 is grown at its next stage, where the capability to grow it mounted is missing.
  ...(['xfs', 'block', 'btrfs'] as const).map(nodeExpandVolume),
  ...(['NodePublishVolume', 'NodeUnpublishVolume'] as const).flatMap((rpc) => [
    legacy('0.1', rpc, 'ext4'),
    legacy('0.1', rpc, 'block'),
    legacy('0.3', rpc, 'block'),
  ]),
];

/** After `startOften`. */
export const STARTS: readonly Operation[] = [
  START,
  startAfter(createVolume('block'), 'rename <pool>/volumes/<vol>.tmp <pool>/volumes/<vol> #1'),
  startAfter(createIdleSnapshot('block'), 'fsync <pool>/snapshots/<snap>.tmp #1'),
  startAfter(deleteVolume('block'), 'unlink <pool>/volumes/<vol> #1'),
];

/** From the fourth start on, one backup of the catalogue goes for each that is made. */
export async function startOften(scene: Scene): Promise<void> {
  for (let starts = 1; starts < 4; starts += 1) {
    await scene.stop();
    await scene.start();
  }
}
