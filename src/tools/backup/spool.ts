/**
 * A directory of this machine in which the images for a remote are made, and wait until the remote has them:
 *
 *   DIR/<digest of the remote's name>/id          names this spool among the writers of the remote
 *   DIR/<digest of the remote's name>/backups/    the finished backups, a repository
 *   DIR/<digest of the remote's name>/manifests/  copies of the manifests of the remote, by volume
 *
 * Nobody else may write there.
 */
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CsiError, insteadOf } from '../../base/errors.js';
import { ownDirectory } from '../../base/system/own-files.js';
import { readPlain } from '../nbd/plain-file.js';
import { DirectoryRepository } from './directory-repository.js';
import { MANIFEST_MAX_BYTES } from './manifest.js';

/** What the tables of an image take, beside its data. */
const TABLES_SHARE = 64n;
const RESERVE_BYTES = 64n << 20n;

export class Spool {
  private constructor(
    /** 16 hexadecimal digits. */
    readonly id: string,
    readonly repository: DirectoryRepository,
    private readonly manifests: string,
  ) {}

  /** Throws FAILED_PRECONDITION if others can write to the directory. */
  static async open(directory: string, location: string): Promise<Spool> {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const own = await ownDirectory(directory, 'use another --spool');
    const place = join(own, createHash('sha256').update(location).digest('hex').slice(0, 16));
    const manifests = join(place, 'manifests');
    await mkdir(manifests, { recursive: true, mode: 0o700 });
    const repository = await DirectoryRepository.open(join(place, 'backups'), { create: true });
    return new Spool(await idIn(place), repository, manifests);
  }

  /** Throws RESOURCE_EXHAUSTED if there is no room for an image with that much data. */
  async assertRoom(bytes: bigint): Promise<void> {
    const { location } = this.repository;
    const { bavail, bsize } = await statfs(location, { bigint: true });
    const [free, needed] = [bavail * bsize, bytes + bytes / TABLES_SHARE + RESERVE_BYTES];
    if (free >= needed) return;
    throw CsiError.resourceExhausted(
      `the image may need ${needed} bytes in the spool ${location}, and ${free} are free: free some, or use another --spool`,
    );
  }

  /**
   * Returns the copy of a manifest, which never changes at the remote; null if there is none.
   *
   * @param volume the name of the volume's directory
   */
  async manifest(volume: string, name: string): Promise<string | null> {
    return readPlain(join(this.manifests, volume, name), MANIFEST_MAX_BYTES).catch(() => null);
  }

  async keepManifest(volume: string, name: string, text: string): Promise<void> {
    const directory = join(this.manifests, volume);
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await write(join(directory, name), text);
  }

  /** Removes the copies of all other manifests of the volume. */
  async keepManifestsOf(volume: string, names: ReadonlySet<string>): Promise<void> {
    const directory = join(this.manifests, volume);
    for (const name of await readdir(directory).catch(insteadOf(['ENOENT'], []))) {
      if (!names.has(name)) await rm(join(directory, name), { force: true });
    }
  }
}

async function idIn(place: string): Promise<string> {
  const path = join(place, 'id');
  const known = await readFile(path, 'utf8').catch(insteadOf(['ENOENT'], ''));
  if (/^[0-9a-f]{16}$/.test(known)) return known;
  // Of two commands that begin at a time, one has an id that no other command will have, which only keeps its marks for longer.
  const id = randomBytes(8).toString('hex');
  await write(path, id);
  return id;
}

/** Whoever reads meanwhile reads all of it or nothing. */
async function write(path: string, text: string): Promise<void> {
  await writeFile(`${path}.partial`, text, { mode: 0o600 });
  await rename(`${path}.partial`, path);
}
