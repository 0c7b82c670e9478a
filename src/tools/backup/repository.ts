/**
 * A directory of backups: which backups of which volumes it holds, and how a new one becomes part of it.
 *
 *   DIR/<volume id>/<time>-<snapshot id>.qcow2    the image; incremental ones are based on another one
 *   DIR/<volume id>/<the same>.json               its manifest
 *   DIR/<volume id>/<the same>.json.next          a manifest that is complete before its image has its name
 *   DIR/<volume id>/<the same>.json.removed       that of a backup whose image is being removed
 *   DIR/<volume id>/<any>.partial                 unfinished
 *   DIR/<volume id>/.lock                         held by whoever writes there
 *
 * Whoever locks the volume next finishes or removes what a killed command has left of the last three. Ids are
 * percent-encoded. Knows nothing of drivers, and nothing of what is in an image.
 */
import { createHash } from 'node:crypto';
import { closeSync, constants, openSync } from 'node:fs';
import { mkdir, readdir, rename, rm, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { CsiError, errorCode, messageOf } from '../../base/errors.js';
import { tryLock } from '../../base/system/file-lock.js';
import { CHAIN_MAX, readImageHeader } from '../nbd/image-header.js';
import { createPlain, flush, readPlain } from '../nbd/plain-file.js';
import { formatManifest, MANIFEST_MAX_BYTES, type Manifest, parseManifest } from './manifest.js';
import { ownDirectory } from './own-directory.js';

const { O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDWR } = constants;

export interface Backup {
  readonly manifest: Manifest;
  /** Name of the manifest's file. */
  readonly name: string;
  /** The directory of its volume. */
  readonly directory: string;
}

/** Something that is not as it should be, named by its path. */
export interface Problem {
  readonly path: string;
  readonly found: string;
}

export interface VolumeBackups {
  readonly volumeId: string;
  readonly directory: string;
  /** By the creation time of the snapshots, oldest first. */
  readonly backups: readonly Backup[];
  /** Manifests that cannot be read, or contradict their place or each other. */
  readonly problems: readonly Problem[];
}

/** Where a new backup is made. */
export interface NewBackupPaths {
  readonly directory: string;
  /** Name of the manifest's file once it is complete. */
  readonly name: string;
  readonly imageFile: string;
  /** Unfinished files, complete paths. */
  readonly imagePartial: string;
  readonly rangesPartial: string;
}

const IMAGE = '.qcow2';
const PARTIAL = '.partial';
const MANIFEST = '.json';
const NEXT = '.json.next';
const REMOVED = '.json.removed';

export interface RepositoryAccess {
  /** Others may be able to write there: they are trusted not to. */
  allowShared?: boolean;
  /** Makes the directory if it is not there. */
  create?: boolean;
}

/** Excludes other writers of a volume's backups. */
export interface VolumeLock {
  /** What an interrupted command has left and could not be finished or removed. */
  readonly problems: readonly Problem[];
  release(): void;
}

export class Repository {
  private constructor(
    /** Without links. */
    readonly directory: string,
    private readonly allowShared: boolean,
  ) {}

  /** NOT_FOUND if there is no such directory, FAILED_PRECONDITION if others can write there. */
  static async open(
    directory: string,
    { allowShared = false, create = false }: RepositoryAccess = {},
  ): Promise<Repository> {
    if (create) await mkdir(directory, { recursive: true, mode: 0o700 });
    try {
      const own = allowShared ? directory : await ownDirectory(directory);
      return new Repository(own, allowShared);
    } catch (thrown) {
      if (errorCode(thrown) !== 'ENOENT') throw thrown;
      throw CsiError.notFound(`there is no directory ${directory}`);
    }
  }

  /** The backups of every volume that has a directory. NOT_FOUND if there is no such repository. */
  async all(): Promise<VolumeBackups[]> {
    const entries = await readdir(this.directory, { withFileTypes: true }).catch(
      (thrown: unknown) => {
        if (errorCode(thrown) !== 'ENOENT') throw thrown;
        throw CsiError.notFound(`there is no directory ${this.directory}`);
      },
    );
    const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    const volumes: VolumeBackups[] = [];
    for (const name of names.filter((each) => !each.startsWith('.')).sort()) {
      volumes.push(await this.#read(join(this.directory, name), decodeId(name)));
    }
    return volumes;
  }

  /** All backups of a volume; none if there is no such directory. */
  async backupsOf(volumeId: string): Promise<VolumeBackups> {
    return this.#read(this.volumeDirectory(volumeId), volumeId);
  }

  volumeDirectory(volumeId: string): string {
    return join(this.directory, encodeId(volumeId));
  }

  /**
   * Excludes every other writer of the volume's backups until it is released, or this process ends. Finishes or
   * removes what an interrupted one has left. ABORTED if another one holds it.
   */
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

  /** The caller holds the lock of the volume. ALREADY_EXISTS if there is a backup of that snapshot. */
  async begin(
    volumeId: string,
    snapshot: { id: string; creationTime: Date },
  ): Promise<NewBackupPaths> {
    const { directory, backups } = await this.backupsOf(volumeId);
    const known = backups.find(({ manifest }) => manifest.snapshot.id === snapshot.id);
    if (known !== undefined) {
      throw CsiError.alreadyExists(
        `snapshot ${snapshot.id} has a backup: ${join(directory, known.name)}`,
      );
    }
    const stem = `${compactTime(snapshot.creationTime)}-${encodeId(snapshot.id)}`;
    const imageFile = `${stem}${IMAGE}`;
    return {
      directory,
      name: `${stem}${MANIFEST}`,
      imageFile,
      imagePartial: join(directory, `${imageFile}${PARTIAL}`),
      rangesPartial: join(directory, `${stem}.ranges${PARTIAL}`),
    };
  }

  /** Makes the finished image and its manifest part of the repository. Durable when it resolves. */
  async commit(paths: NewBackupPaths, manifest: Manifest): Promise<Backup> {
    const { directory, name, imagePartial, rangesPartial } = paths;
    const backup = { manifest, name, directory };
    await this.putImage(backup, imagePartial);
    await rm(rangesPartial, { force: true });
    return backup;
  }

  /**
   * Gives a finished image its name, for a new backup or in place of one with the same content that is based on
   * another image. A kill at any moment leaves what was there or what is to be; `lock` finds out which.
   */
  async putImage({ directory, name, manifest }: Backup, partial: string): Promise<void> {
    const next = stemOf(name, MANIFEST) + NEXT;
    await flush(partial);
    await writeManifest(join(directory, next), manifest);
    await rename(partial, join(directory, manifest.image.file));
    await flush(directory);
    await rename(join(directory, next), join(directory, name));
    await flush(directory);
  }

  /** Removes a backup on which no other one is based. It is none any more before its image goes. */
  async remove({ directory, name }: Backup): Promise<void> {
    const removed = stemOf(name, MANIFEST) + REMOVED;
    await rename(join(directory, name), join(directory, removed));
    await flush(directory);
    await this.#finishRemoval(directory, removed);
  }

  async #read(directory: string, volumeId: string): Promise<VolumeBackups> {
    await this.#assertOwn(directory);
    return readVolume(directory, volumeId);
  }

  /** One that is not there holds nothing that others could exchange. */
  async #assertOwn(directory: string): Promise<void> {
    if (this.allowShared) return;
    try {
      await ownDirectory(directory);
    } catch (thrown) {
      if (errorCode(thrown) !== 'ENOENT') throw thrown;
    }
  }

  /** What cannot be settled stays, and is returned: it is no backup, and hinders none. */
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
      if (name.endsWith(NEXT)) await attempt(name, () => this.#finishPutting(directory, name));
      if (name.endsWith(REMOVED)) await attempt(name, () => this.#finishRemoval(directory, name));
    }
    for (const name of await namesIn(directory)) {
      if (name.endsWith(PARTIAL)) await attempt(name, () => unlink(join(directory, name)));
    }
    return problems;
  }

  /** The image is the one that the manifest describes if it is there and based on what that says. */
  async #finishPutting(directory: string, next: string): Promise<void> {
    const path = join(directory, next);
    const { image, base } = await readManifest(path);
    assertNamesItsImage(path, stemOf(next, NEXT), image.file);
    const isThere = (await namesIn(directory)).includes(image.file);
    const backing = isThere
      ? (await readImageHeader(join(directory, image.file))).backing
      : undefined;
    if (isThere && backing === (await this.#imageOf(directory, base))) {
      await rename(path, join(directory, stemOf(next, NEXT) + MANIFEST));
    } else {
      await rm(path);
    }
    await flush(directory);
  }

  /** The manifest goes last: it alone names the image. */
  async #finishRemoval(directory: string, removed: string): Promise<void> {
    const path = join(directory, removed);
    const { image } = await readManifest(path);
    assertNamesItsImage(path, stemOf(removed, REMOVED), image.file);
    await rm(join(directory, image.file), { force: true });
    await flush(directory);
    await rm(path);
  }

  async #imageOf(directory: string, base: Manifest['base']): Promise<string | null> {
    if (base === null) return null;
    return (await readManifest(join(directory, base.manifest))).image.file;
  }
}

async function readManifest(path: string): Promise<Manifest> {
  return parseManifest(await readPlain(path, MANIFEST_MAX_BYTES), path);
}

async function writeManifest(path: string, manifest: Manifest): Promise<void> {
  const file = await createPlain(`${path}${PARTIAL}`);
  try {
    await file.writeFile(formatManifest(manifest));
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(`${path}${PARTIAL}`, path);
  await flush(dirname(path));
}

async function readVolume(directory: string, volumeId: string): Promise<VolumeBackups> {
  const names = (await namesIn(directory)).filter((name) => name.endsWith(MANIFEST));
  const backups: Backup[] = [];
  const problems: Problem[] = [];
  for (const name of names) {
    const path = join(directory, name);
    try {
      const manifest = await readManifest(path);
      assertNamesItsImage(path, stemOf(name, MANIFEST), manifest.image.file);
      backups.push({ manifest, name, directory });
    } catch (thrown) {
      problems.push({ path, found: messageOf(thrown) });
    }
  }
  backups.sort((a, b) => timeOf(a) - timeOf(b) || (a.name < b.name ? -1 : 1));
  problems.push(...contradictionsIn(directory, backups));
  // The name of a directory with a long id is cut off.
  return { volumeId: backups[0]?.manifest.volume.id ?? volumeId, directory, backups, problems };
}

/** A copy under another name would count as a backup of its own, and its image would go with it. */
function assertNamesItsImage(path: string, stem: string, image: string): void {
  if (image === `${stem}${IMAGE}`) return;
  throw CsiError.failedPrecondition(
    `${path} names the image ${image}; expected ${stem}${IMAGE}: it was renamed or copied; give it its own name, or remove it`,
  );
}

function contradictionsIn(directory: string, backups: readonly Backup[]): Problem[] {
  const found: Problem[] = [];
  const ofSnapshot = new Map<string, Backup>();
  for (const backup of backups) {
    const { volume, snapshot } = backup.manifest;
    const path = join(directory, backup.name);
    const own = encodeId(volume.id);
    if (own !== basename(directory)) {
      found.push({
        path,
        found: `${path} is a backup of volume ${volume.id}: name the directory ${own}, or move the backup there`,
      });
    }
    const other = ofSnapshot.get(snapshot.id);
    if (other !== undefined) {
      found.push({
        path,
        found: `${path} and ${other.name} are both backups of snapshot ${snapshot.id}: remove one of them`,
      });
    }
    ofSnapshot.set(snapshot.id, backup);
  }
  return found;
}

/**
 * The backup and all that it is based on, the full one first. FAILED_PRECONDITION that names the missing link if the
 * chain is not complete.
 */
export function chainOf(backup: Backup, { backups, directory }: VolumeBackups): Backup[] {
  const byName = byNameIn(backups);
  const chain = [backup];
  for (;;) {
    const first = chain.at(-1) as Backup;
    const { base } = first.manifest;
    if (base === null) return chain.reverse();
    const below = byName.get(base.manifest);
    if (below === undefined || below.manifest.snapshot.id !== base.snapshotId) {
      throw CsiError.failedPrecondition(
        `the backup ${join(directory, first.name)} is based on ${base.manifest} of snapshot ${base.snapshotId}, which is ` +
          'missing or damaged: restore that file from another copy, or use an older backup',
      );
    }
    if (chain.length === CHAIN_MAX) {
      throw CsiError.failedPrecondition(
        `the backup ${join(directory, backup.name)} is based on more than ${CHAIN_MAX - 1} others, or on itself by way of ` +
          base.manifest,
      );
    }
    chain.push(below);
  }
}

const indexes = new WeakMap<readonly Backup[], ReadonlyMap<string, Backup>>();

/** Made once for all chains of a volume: there may be as many as backups. */
function byNameIn(backups: readonly Backup[]): ReadonlyMap<string, Backup> {
  const known = indexes.get(backups) ?? new Map(backups.map((each) => [each.name, each]));
  indexes.set(backups, known);
  return known;
}

export const imagePathOf = ({ directory, manifest }: Backup): string =>
  join(directory, manifest.image.file);

/** The file stays when the lock is released: another command may have opened it. */
function lockFile(path: string, volumeId: string): { release(): void } {
  const descriptor = openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600);
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
  return readdir(directory).catch((thrown: unknown) => {
    if (errorCode(thrown) === 'ENOENT') return [];
    throw thrown;
  });
}

const stemOf = (name: string, ending: string): string => name.slice(0, -ending.length);

const timeOf = ({ manifest }: Backup): number => Date.parse(manifest.snapshot.creationTime);

/** As 20261123T101500.123Z. */
const compactTime = (time: Date): string => time.toISOString().replaceAll(/[-:]/g, '');

/** Leaves room for a time and an ending in a file name of 255 bytes. */
const ENCODED_MAX = 180;

/** A name of a file: what is not a letter, digit, '-', '_' or an inner '.' as %XX; a long one ends with a digest. */
export function encodeId(id: string): string {
  const encoded = [...Buffer.from(id, 'utf8')]
    .map((byte, index) => {
      const character = String.fromCharCode(byte);
      const isPlain = /[A-Za-z0-9_-]/.test(character) || (character === '.' && index > 0);
      return isPlain ? character : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
    })
    .join('');
  if (encoded.length <= ENCODED_MAX) return encoded;
  const digest = createHash('sha256').update(id).digest('hex').slice(0, 32);
  return `${encoded.slice(0, ENCODED_MAX - 33)}~${digest}`;
}

function decodeId(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
