/**
 * The directories of a reflink pool, and which names in them belong to the plugin.
 *
 *   volumes/<volume id>          sparse file, the content of a volume; on btrfs `volumes` is a subvolume
 *   snapshots/<snapshot id>      clone of a volume's file: mode 0400, immutable
 *   snapshots/<id>.replica       frozen copy of a snapshot of another node, as a snapshot is
 *   snapshots/<id>.pull          unfinished replica; stays at a start
 *   snapshots/<id>.promise-<id>  empty; the replica is promised to the node of its snapshot, by the promise with this id
 *   <either>/<id>.tmp            being created, also <id>.pull.tmp; removed at the next start
 *   initialized/<volume id>      empty; the volume is initialized: it may hold data of its users
 *   <object id>.copy             btrfs only: read-only snapshot of `volumes`, from which the snapshot or volume
 *                                is being cloned; removed at the next start
 *   lists/, bases/               change lists, and marks of deleted snapshots; list-files.ts, deleted-marks.ts
 *   pool-id                      the pool's uuid, and the version of this layout
 *
 * Paths are built from well-formed handles only.
 */
import { basename, join } from 'node:path';
import { CsiError } from '../../../base/errors.js';

const OBJECT_NAME = /^(?:vol|snap)-[0-9a-f]{12}-[0-9a-f-]{36}$/;
const TEMPORARY_SUFFIX = '.tmp';
const COPY_SUFFIX = '.copy';
const REPLICA_SUFFIX = '.replica';
const UNFINISHED_SUFFIX = '.pull';
const PROMISE = /^(.+)\.promise-([0-9a-f]{32})$/;
/** The version of the layout above and of the formats of its files; docs/engineering/formats.md. */
const VERSION = 1;

export class PoolLayout {
  readonly volumes: string;
  readonly snapshots: string;
  readonly initialized: string;
  readonly identityFile: string;

  /** @param parts paths of its directories, if they are not reached through the root */
  constructor(
    readonly root: string,
    parts = {
      volumes: join(root, 'volumes'),
      snapshots: join(root, 'snapshots'),
      initialized: join(root, 'initialized'),
    },
  ) {
    this.volumes = parts.volumes;
    this.snapshots = parts.snapshots;
    this.initialized = parts.initialized;
    this.identityFile = join(root, 'pool-id');
  }

  /** All of them exist in a usable pool. */
  get directories(): string[] {
    return [this.volumes, this.snapshots, this.initialized];
  }

  /** Their names in the root, in the same order. */
  get names(): string[] {
    return this.directories.map((path) => basename(path));
  }

  volume(volumeId: string): string {
    return join(this.volumes, checked(volumeId));
  }

  initializedMark(volumeId: string): string {
    return join(this.initialized, checked(volumeId));
  }

  snapshot(snapshotId: string): string {
    return join(this.snapshots, checked(snapshotId));
  }

  /** @param snapshotId of another node */
  replica(snapshotId: string): string {
    return `${this.snapshot(snapshotId)}${REPLICA_SUFFIX}`;
  }

  unfinishedReplica(snapshotId: string): string {
    return `${this.snapshot(snapshotId)}${UNFINISHED_SUFFIX}`;
  }

  promise(snapshotId: string, promiseId: string): string {
    return `${this.snapshot(snapshotId)}.promise-${promiseId}`;
  }

  /** @param objectId the snapshot or volume that is being made */
  copyFor(objectId: string): string {
    return join(this.root, `${checked(objectId)}${COPY_SUFFIX}`);
  }
}

/** The text of the file `pool-id`. */
export function formatPoolId(uuid: string): string {
  return `${uuid} ${VERSION}\n`;
}

/** The uuid in the trimmed text of a `pool-id`. FAILED_PRECONDITION if the plugin does not know the version. */
export function poolUuidIn(text: string, root: string): string {
  const [uuid = '', version = String(VERSION)] = text.split(' ');
  if (version === String(VERSION)) return uuid;
  throw CsiError.failedPrecondition(
    `the pool in ${root} cannot be used: its layout has version ${version} and this plugin knows ${VERSION}: a ` +
      'newer blockdelta has made it; run that version, or a newer one',
  );
}

export function temporary(path: string): string {
  return `${path}${TEMPORARY_SUFFIX}`;
}

export function isObjectName(name: string): boolean {
  return OBJECT_NAME.test(name);
}

/** Whether the name is a temporary one of the plugin, and not a foreign file with the same ending. */
export function isTemporaryName(name: string): boolean {
  if (!name.endsWith(TEMPORARY_SUFFIX)) return false;
  const made = name.slice(0, -TEMPORARY_SUFFIX.length);
  return isObjectName(made) || isUnfinishedName(made);
}

export function isReplicaName(name: string): boolean {
  return name.endsWith(REPLICA_SUFFIX) && isObjectName(snapshotOf(name));
}

export function isUnfinishedName(name: string): boolean {
  return name.endsWith(UNFINISHED_SUFFIX) && isObjectName(snapshotOf(name));
}

/** The snapshot and the promise that a mark of a promise names; null if the name is that of another file. */
export function promiseIn(name: string): { snapshotId: string; promiseId: string } | null {
  const [, snapshotId = '', promiseId = ''] = PROMISE.exec(name) ?? [];
  return isObjectName(snapshotId) ? { snapshotId, promiseId } : null;
}

/** The snapshot that a replica, complete or not, is of. */
export const snapshotOf = (replicaName: string): string => replicaName.slice(0, replicaName.lastIndexOf('.'));

export function isCopyName(name: string): boolean {
  return name.endsWith(COPY_SUFFIX) && isObjectName(name.slice(0, -COPY_SUFFIX.length));
}

function checked(id: string): string {
  if (!isObjectName(id)) throw CsiError.internal(`'${id}' is not a handle of this plugin`);
  return id;
}
