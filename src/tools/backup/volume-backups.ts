/** Reads the manifests of a volume, wherever they are kept, and finds which of them are its backups. */
import { basename, join } from 'node:path';
import { CsiError, messageOf } from '../../base/errors.js';
import { chooseComplete, type VolumeBackups } from './chains.js';
import { encodeId, generationOf, snapshotStem, withoutGeneration } from './file-names.js';
import type { BackupImages } from './images.js';
import { type Manifest, parseManifest } from './manifest.js';
import { type Backup, type Problem, timeOf } from './stored-backup.js';

/** The endings of the names of images and manifests. */
export const IMAGE = '.qcow2';
export const MANIFEST = '.json';

export interface VolumeFiles {
  /** The directory of the volume. */
  readonly directory: string;
  readonly volumeId: string;
  /** All names there. */
  readonly files: readonly string[];
  /** Returns the text of a manifest. */
  read(name: string): Promise<string>;
  /** Whether the image of a manifest is there, as far as names and sizes tell. */
  hasImage(image: Manifest['image']): boolean;
  /** Whether another command is about to remove the backup with that manifest. */
  isLeaving?(name: string): boolean;
  readonly images: BackupImages;
}

export async function readVolume(volume: VolumeFiles): Promise<VolumeBackups> {
  const { directory, volumeId, files, read, hasImage, isLeaving, images } = volume;
  const found: Backup[] = [];
  const problems: Problem[] = [];
  for (const name of files.filter((each) => each.endsWith(MANIFEST))) {
    const path = join(directory, name);
    try {
      const manifest = parseManifest(await read(name), path);
      const stem = name.slice(0, -MANIFEST.length);
      assertNamesItsImage(path, stem, manifest.image.file);
      assertNamedAfterItsSnapshot(path, stem, manifest);
      found.push({ manifest, name, directory });
    } catch (thrown) {
      problems.push({ path, found: messageOf(thrown) });
    }
  }
  found.sort(
    (a, b) => timeOf(a) - timeOf(b) || generationOf(a.name) - generationOf(b.name) || (a.name < b.name ? -1 : 1),
  );
  const { backups, superseded } = chooseComplete(found, hasImage);
  problems.push(...contradictionsIn(directory, backups));
  const leaving = new Set(found.filter(({ name }) => isLeaving?.(name)));
  // The directory's name does not hold the whole of a long id.
  const id = backups[0]?.manifest.volume.id ?? volumeId;
  return { volumeId: id, directory, backups, superseded, problems, leaving, images };
}

/** A renamed copy of a manifest would count as another backup, and removing that backup would remove the original's image. */
export function assertNamesItsImage(path: string, stem: string, image: string): void {
  if (image === `${stem}${IMAGE}`) return;
  throw CsiError.failedPrecondition(
    `${path} names the image ${image}; expected ${stem}${IMAGE}: it was renamed or copied; give it its own name, or remove it`,
  );
}

/** Ensures that only pruning and compacting give a snapshot several backups. */
function assertNamedAfterItsSnapshot(path: string, stem: string, { snapshot }: Manifest): void {
  const own = snapshotStem(snapshot.id, new Date(snapshot.creationTime));
  if (withoutGeneration(stem) === own) return;
  throw CsiError.failedPrecondition(
    `${path} is a backup of snapshot ${snapshot.id}, taken at ${snapshot.creationTime}: give it and its image the name ` +
      `${own}, or remove it`,
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
