/**
 * Where things lie inside a reflink pool, and which names are ours.
 *
 *   volumes/<volume id>          sparse file, the content of a volume
 *   snapshots/<snapshot id>      frozen clone: mode 0400, immutable
 *   <either>/<id>.tmp            being made; removed at the next start
 *   used/<volume id>             empty; somebody else may have written to the volume
 *   pool-id                      the pool's uuid
 *
 * Paths are built from handles only, and only from well-formed ones.
 */
import { join } from 'node:path';
import { CsiError } from '../../base/errors.js';

const OBJECT_NAME = /^(?:vol|snap)-[0-9a-f]{12}-[0-9a-f-]{36}$/;
const TEMPORARY_SUFFIX = '.tmp';

export class PoolLayout {
  readonly volumes: string;
  readonly snapshots: string;
  readonly used: string;
  readonly identityFile: string;

  /** `parts`: where its directories are, if not below the root by their names. */
  constructor(
    readonly root: string,
    parts = {
      volumes: join(root, 'volumes'),
      snapshots: join(root, 'snapshots'),
      used: join(root, 'used'),
    },
  ) {
    this.volumes = parts.volumes;
    this.snapshots = parts.snapshots;
    this.used = parts.used;
    this.identityFile = join(root, 'pool-id');
  }

  /** Of a pool that can be used, all of them exist. */
  get directories(): string[] {
    return [this.volumes, this.snapshots, this.used];
  }

  volume(volumeId: string): string {
    return join(this.volumes, checked(volumeId));
  }

  initializedMark(volumeId: string): string {
    return join(this.used, checked(volumeId));
  }

  snapshot(snapshotId: string): string {
    return join(this.snapshots, checked(snapshotId));
  }
}

export function temporary(path: string): string {
  return `${path}${TEMPORARY_SUFFIX}`;
}

export function isObjectName(name: string): boolean {
  return OBJECT_NAME.test(name);
}

/** A temporary name of ours, as opposed to a foreign file that merely ends alike. */
export function isTemporaryName(name: string): boolean {
  return name.endsWith(TEMPORARY_SUFFIX) && isObjectName(name.slice(0, -TEMPORARY_SUFFIX.length));
}

function checked(id: string): string {
  if (!isObjectName(id)) throw CsiError.internal(`'${id}' is not a handle of this plugin`);
  return id;
}
