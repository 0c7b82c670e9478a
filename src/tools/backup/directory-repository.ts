/**
 * A repository that is a directory. Finds the backups of each volume, and adds and removes backups.
 *
 *   DIR/<volume id>/<time>-<snapshot id>.qcow2    the image; an incremental image is based on another image
 *   DIR/<volume id>/<time>-<snapshot id>@N.qcow2  the Nth image that prune or compact has made in place of the first one
 *   DIR/<volume id>/<the same>.json               its manifest
 *   DIR/<volume id>/<the same>.json.next          a manifest that is complete before its image has its name
 *   DIR/<volume id>/<the same>.json.removed       the manifest of a backup whose image is being removed
 *   DIR/<volume id>/<any>.partial                 an unfinished file
 *   DIR/<volume id>/.lock                         locked by the command that writes there
 *
 * An image with a manifest never changes and never gets another name. The next command that locks the volume finishes or
 * removes the .json.next, .json.removed and .partial files of a killed command. Ids are percent-encoded. Knows nothing of
 * drivers, and nothing of the content of images.
 */
import { closeSync, constants } from 'node:fs';
import { mkdir, readdir, rename, rm, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CsiError, errorCode, insteadOf, messageOf } from '../../base/errors.js';
import { createNew, flush, openCheckedSync, withFile } from '../../base/system/checked-files.js';
import { tryLock } from '../../base/system/file-lock.js';
import { ownDirectory } from '../../base/system/own-files.js';
import { readPlain } from '../nbd/plain-file.js';
import type { VolumeBackups } from './chains.js';
import { DIRECTORY_IMAGES } from './directory-images.js';
import { decodeId, encodeId, generationOf, snapshotStem } from './file-names.js';
import { formatManifest, MANIFEST_MAX_BYTES, type Manifest, parseManifest } from './manifest.js';
import type { NewBackupPaths, Repository, VolumeLock } from './repository.js';
import type { Backup, Problem } from './stored-backup.js';
import { assertNamesItsImage, IMAGE, MANIFEST, readVolume } from './volume-backups.js';

const { O_CREAT, O_RDWR } = constants;

const PARTIAL = '.partial';
const NEXT = '.json.next';
const REMOVED = '.json.removed';

const TRUST = 'run the command as the user to whom it belongs, or trust them with --allow-shared';

export interface RepositoryAccess {
  /** Accepts a directory to which others can write, and trusts them not to. */
  allowShared?: boolean;
  /** Makes the directory if it does not exist. */
  create?: boolean;
}

export class DirectoryRepository implements Repository {
  private constructor(
    /** Without links, unless `allowShared` is set. */
    readonly location: string,
    private readonly allowShared: boolean,
  ) {}

  /** Throws, unless `allowShared`: NOT_FOUND if the directory is missing, FAILED_PRECONDITION if others can write there. */
  static async open(
    directory: string,
    { allowShared = false, create = false }: RepositoryAccess = {},
  ): Promise<DirectoryRepository> {
    if (create) await mkdir(directory, { recursive: true, mode: 0o700 });
    try {
      const own = allowShared ? directory : await ownDirectory(directory, TRUST);
      return new DirectoryRepository(own, allowShared);
    } catch (thrown) {
      if (errorCode(thrown) !== 'ENOENT') throw thrown;
      throw CsiError.notFound(`there is no directory ${directory}`);
    }
  }

  async close(): Promise<void> {}

  async assertRoom(): Promise<void> {}

  async addWaiting(): Promise<void> {}

  async all(): Promise<VolumeBackups[]> {
    const entries = await readdir(this.location, { withFileTypes: true }).catch((thrown: unknown) => {
      if (errorCode(thrown) !== 'ENOENT') throw thrown;
      throw CsiError.notFound(`there is no directory ${this.location}`);
    });
    const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    const volumes: VolumeBackups[] = [];
    for (const name of names.filter((each) => !each.startsWith('.')).sort()) {
      volumes.push(await this.#read(join(this.location, name), decodeId(name)));
    }
    return volumes;
  }

  async backupsOf(volumeId: string): Promise<VolumeBackups> {
    return this.#read(this.volumeDirectory(volumeId), volumeId);
  }

  volumeDirectory(volumeId: string): string {
    return join(this.location, encodeId(volumeId));
  }

  async lock(volumeId: string): Promise<VolumeLock> {
    const directory = this.volumeDirectory(volumeId);
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await this.#assertOwn(directory);
    const lock = lockFile(join(directory, '.lock'), volumeId);
    try {
      return { ...lock, problems: await this.#settle(directory) };
    } catch (thrown) {
      lock.release();
      throw thrown;
    }
  }

  async begin(volumeId: string, snapshot: { id: string; creationTime: Date }): Promise<NewBackupPaths> {
    const { directory, backups } = await this.backupsOf(volumeId);
    const known = backups.find(({ manifest }) => manifest.snapshot.id === snapshot.id);
    if (known !== undefined) {
      throw CsiError.alreadyExists(`snapshot ${snapshot.id} has a backup: ${join(directory, known.name)}`);
    }
    return newPaths(directory, snapshotStem(snapshot.id, snapshot.creationTime));
  }

  async beginNext({ manifest, directory }: Backup): Promise<NewBackupPaths> {
    const { id, creationTime } = manifest.snapshot;
    const stem = snapshotStem(id, new Date(creationTime));
    const generations = (await namesIn(directory)).map((name) => (name.startsWith(stem) ? generationOf(name) : 0));
    return newPaths(directory, `${stem}@${Math.max(...generations) + 1}`);
  }

  /** After a kill at any moment, `lock` completes or removes both. Throws ALREADY_EXISTS if an image of this name exists. */
  async commit(paths: NewBackupPaths, manifest: Manifest): Promise<Backup> {
    const { directory, name, imagePartial, rangesPartial } = paths;
    const image = join(directory, manifest.image.file);
    if ((await namesIn(directory)).includes(manifest.image.file)) {
      throw CsiError.alreadyExists(
        `${image} exists and has no manifest: restore ${name} from another copy, or move the image away`,
      );
    }
    const next = join(directory, stemOf(name, MANIFEST) + NEXT);
    await flush(imagePartial);
    await writeManifest(next, manifest);
    await rename(imagePartial, image);
    await flush(directory);
    await rename(next, join(directory, name));
    await flush(directory);
    await rm(rangesPartial, { force: true });
    return { manifest, name, directory };
  }

  /** Renames the manifest first, so that no backup is without its image. */
  async remove({ directory, name }: Backup): Promise<void> {
    const removed = stemOf(name, MANIFEST) + REMOVED;
    await rename(join(directory, name), join(directory, removed));
    await flush(directory);
    await this.#finishRemoval(directory, removed);
  }

  async #read(directory: string, volumeId: string): Promise<VolumeBackups> {
    await this.#assertOwn(directory);
    const files = await namesIn(directory);
    const read = (name: string): Promise<string> => readPlain(join(directory, name), MANIFEST_MAX_BYTES);
    const hasImage = ({ file }: Manifest['image']): boolean => files.includes(file);
    return readVolume({ directory, volumeId, files, read, hasImage, images: DIRECTORY_IMAGES });
  }

  /** Throws FAILED_PRECONDITION if others can write to the directory. A missing directory holds nothing to exchange. */
  async #assertOwn(directory: string): Promise<void> {
    if (this.allowShared) return;
    await ownDirectory(directory, TRUST).catch(insteadOf(['ENOENT'], null));
  }

  /** Finishes or removes leftovers. If that fails, a leftover stays and is returned: it is no backup, and hinders no backup. */
  async #settle(directory: string): Promise<Problem[]> {
    const problems: Problem[] = [];
    const attempt = async (name: string, work: () => Promise<void>): Promise<void> => {
      try {
        await work();
      } catch (thrown) {
        if (!(thrown instanceof CsiError) && errorCode(thrown) === undefined) throw thrown;
        problems.push({ path: join(directory, name), found: messageOf(thrown) });
      }
    };
    for (const name of await namesIn(directory)) {
      if (name.endsWith(NEXT)) await attempt(name, () => this.#finishAdding(directory, name));
      if (name.endsWith(REMOVED)) await attempt(name, () => this.#finishRemoval(directory, name));
    }
    for (const name of await namesIn(directory)) {
      if (name.endsWith(PARTIAL)) await attempt(name, () => unlink(join(directory, name)));
    }
    return problems;
  }

  /** The image has its final name if and only if it is complete. */
  async #finishAdding(directory: string, next: string): Promise<void> {
    const path = join(directory, next);
    const { image } = await readManifest(path);
    assertNamesItsImage(path, stemOf(next, NEXT), image.file);
    const isThere = (await namesIn(directory)).includes(image.file);
    if (isThere) await rename(path, join(directory, stemOf(next, NEXT) + MANIFEST));
    else await rm(path);
    await flush(directory);
  }

  /** The manifest goes last, because it alone names the image. */
  async #finishRemoval(directory: string, removed: string): Promise<void> {
    const path = join(directory, removed);
    const { image } = await readManifest(path);
    assertNamesItsImage(path, stemOf(removed, REMOVED), image.file);
    await rm(join(directory, image.file), { force: true });
    await flush(directory);
    await rm(path);
  }
}

async function readManifest(path: string): Promise<Manifest> {
  return parseManifest(await readPlain(path, MANIFEST_MAX_BYTES), path);
}

async function writeManifest(path: string, manifest: Manifest): Promise<void> {
  await withFile(createNew(`${path}${PARTIAL}`), async (file) => {
    await file.writeFile(formatManifest(manifest));
    await file.sync();
  });
  await rename(`${path}${PARTIAL}`, path);
  await flush(dirname(path));
}

/** The file stays when the lock is released: another command may have opened it. Nobody reads it, so its kind does not matter. */
function lockFile(path: string, volumeId: string): { release(): void } {
  const descriptor = openCheckedSync(path, O_RDWR | O_CREAT, () => undefined);
  const release = (): void => closeSync(descriptor);
  try {
    if (tryLock(descriptor)) return { release };
  } catch (thrown) {
    release();
    throw thrown;
  }
  release();
  throw CsiError.aborted(
    `another command is writing backups of volume ${volumeId} (${path}); try again when it has ended`,
  );
}

async function namesIn(directory: string): Promise<string[]> {
  return readdir(directory).catch(insteadOf(['ENOENT'], []));
}

const stemOf = (name: string, ending: string): string => name.slice(0, -ending.length);

/** The paths of a backup that is made in the directory. */
export function newPaths(directory: string, stem: string): NewBackupPaths {
  const imageFile = `${stem}${IMAGE}`;
  return {
    directory,
    name: `${stem}${MANIFEST}`,
    imageFile,
    imagePartial: join(directory, `${imageFile}${PARTIAL}`),
    rangesPartial: join(directory, `${stem}.ranges${PARTIAL}`),
  };
}
