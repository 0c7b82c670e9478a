/**
 * The backups of a volume in a store that several commands write to, and that has no locks.
 *
 *   <volume id>/<time>-<snapshot id>@N-<own>.qcow2      an image; no two commands give the same name
 *   <volume id>/<the same>.json                         its manifest, which comes last and goes first
 *   <volume id>/<the same>.going-<time><writer>         a command is about to remove the backup
 *
 * Whoever adds a backup writes the image and the manifest, and then looks; whoever removes one writes that it is going, and then
 * looks. So of two that concern each other at least one sees the other, and gives up: no command succeeds with a backup that lacks
 * what it is based on, and none removes what a backup is based on. What is not removed within GRACE_MS is left by a command that
 * was killed. test/unit/backup/shared-volume.test.ts runs all orders of two commands.
 */
import { CsiError, errorCode, messageOf, StatusCode } from '../../base/errors.js';
import { baseNameOf, completeAmong, isNamed, type VolumeBackups } from './chains.js';
import { begunAt, decodeId, timeDigits } from './file-names.js';
import type { BackupImages } from './images.js';
import { MANIFEST_MAX_BYTES, type Manifest, parseManifest } from './manifest.js';
import { type ObjectStore, StoreError } from './object-store.js';
import { type Backup, type Problem, timeOf } from './stored-backup.js';
import { IMAGE, MANIFEST, readVolume } from './volume-backups.js';

/** Longer than any upload of an image takes. */
export const GRACE_MS = 3 * 86_400_000;
const GOING = /\.going-([0-9a-f]{12})([0-9a-f]{16})$/;
/** How often a manifest may go between a list and its reading. */
const LOOKS = 10;

/** What a command keeps on its machine. */
export interface WriterFiles {
  /** Of this writer: 16 hexadecimal digits. No two commands of one writer write to a volume at a time. */
  readonly id: string;
  /** Returns the copy of a manifest; null if there is none. */
  manifest(name: string): Promise<string | null>;
  keepManifest(name: string, text: string): Promise<void>;
  /** Forgets the copies of all others. */
  keepManifestsOf(names: ReadonlySet<string>): Promise<void>;
  /** Makes a file of that name until `use` ends. Its content does not matter. */
  withFile(name: string, use: (path: string) => Promise<void>): Promise<void>;
}

interface Look {
  readonly volume: VolumeBackups;
  readonly objects: ReadonlyMap<string, bigint>;
  /** An image that is cut off has another size. */
  hasImage(image: Manifest['image']): boolean;
  /** Sorted by the times of their snapshots. */
  readonly all: readonly Backup[];
  /** Names of the manifests that others are about to remove. */
  readonly going: ReadonlySet<string>;
}

export class SharedVolume {
  readonly #stem: string;

  /** @param directory the name of the volume's directory */
  constructor(
    private readonly store: ObjectStore,
    private readonly directory: string,
    private readonly files: WriterFiles,
    private readonly imagesIn: (objects: ReadonlyMap<string, bigint>) => BackupImages,
  ) {
    this.#stem = `${store.location.replace(/\/+$/, '')}/${directory}`;
  }

  async read(): Promise<VolumeBackups> {
    return (await this.#look()).volume;
  }

  /**
   * Adds a finished backup. Throws ABORTED, and leaves nothing of it, if a backup that it is based on is gone or going.
   *
   * @param name of the manifest
   * @param paths of the files on this machine
   */
  async add(
    { manifest, name }: Pick<Backup, 'manifest' | 'name'>,
    paths: { readonly image: string; readonly manifest: string },
  ): Promise<Backup> {
    const image = this.#object(manifest.image.file);
    await this.store.put(image, paths.image);
    await this.store.compare(image, paths.image);
    const before = await this.#look();
    if (manifest.base === null || hasBaseOf(manifest, before)) {
      // Its own checksum shows whether it came whole, when it is read.
      await this.store.put(this.#object(name), paths.manifest);
      const after = await this.#look();
      const added = after.all.find((each) => each.name === name);
      if (added !== undefined && completeBeside(after).has(added)) return added;
      await this.store.remove(this.#object(name));
    }
    await this.store.remove(image);
    throw CsiError.aborted(
      `the backup ${this.#stem}/${name} was not added: the backup of snapshot ${manifest.base?.snapshotId ?? ''}, on which it is ` +
        'based, was removed meanwhile; run the command again',
    );
  }

  /** Throws ABORTED, and leaves the backup, if another backup needs it. */
  async remove(backup: Backup, now: () => number = Date.now): Promise<void> {
    const begun = now();
    const marker = `${stemOf(backup.name)}.going-${timeDigits(begun)}${this.files.id}`;
    await this.files.withFile(marker, (path) => this.store.put(this.#object(marker), path));
    try {
      const found = await this.#look();
      const [problem] = found.volume.problems;
      if (problem !== undefined) {
        throw CsiError.aborted(
          `${this.#stem}/${backup.name} stays, because it is not known whether ${problem.path} needs it: ${problem.found}`,
        );
      }
      const needing = losersWithout(backup, found);
      if (needing.length > 0) {
        throw CsiError.aborted(
          `${this.#stem}/${backup.name} stays: ${needing.map(({ name }) => name).join(', ')}, which another command has made ` +
            'or is removing, needs it; run the command again',
        );
      }
      if (now() - begun > GRACE_MS / 2) {
        throw CsiError.aborted(`${this.#stem}/${backup.name} stays: the store took too long; run the command again`);
      }
      await this.store.remove(this.#object(backup.name));
      await this.store.remove(this.#object(backup.manifest.image.file));
    } finally {
      await this.store.remove(this.#object(marker));
    }
  }

  /** Removes what killed commands have left, as far as no other command may still need it. Returns what could not be removed. */
  async settle(now = Date.now()): Promise<Problem[]> {
    const { objects } = await this.#look();
    await this.files.keepManifestsOf(new Set(objects.keys()));
    const isOld = (time: number | null): boolean => time !== null && now - time > GRACE_MS;
    const left = [...objects.keys()].filter((name) => {
      const going = GOING.exec(name);
      if (going !== null) return going[2] === this.files.id || isOld(timeIn(going));
      return name.endsWith(IMAGE) && !objects.has(manifestOf(name)) && isOld(begunAt(name));
    });
    const problems: Problem[] = [];
    for (const name of left) {
      const path = `${this.#stem}/${name}`;
      await this.store.remove(this.#object(name)).catch((thrown: unknown) => {
        if (!(thrown instanceof CsiError) && errorCode(thrown) === undefined) throw thrown;
        problems.push({ path, found: `${path} is left by another command and stays: ${messageOf(thrown)}` });
      });
    }
    return problems;
  }

  #object(name: string): string {
    return `${this.directory}/${name}`;
  }

  async #look(): Promise<Look> {
    for (let looks = 1; ; looks += 1) {
      try {
        return await this.#lookOnce();
      } catch (thrown) {
        // A manifest went after it was listed.
        if (!(thrown instanceof CsiError) || thrown.code !== StatusCode.NOT_FOUND || looks === LOOKS) throw thrown;
      }
    }
  }

  async #lookOnce(): Promise<Look> {
    const objects = await this.store.list(this.directory);
    const now = Date.now();
    const [leaving, going] = [new Set<string>(), new Set<string>()];
    for (const name of objects.keys()) {
      const found = GOING.exec(name);
      if (found === null || now - timeIn(found) > GRACE_MS) continue;
      const manifest = `${name.slice(0, found.index)}${MANIFEST}`;
      leaving.add(manifest);
      if (found[2] !== this.files.id) going.add(manifest);
    }
    const hasImage = ({ file, bytes }: Manifest['image']): boolean => objects.get(file) === bytes;
    let failure: CsiError | null = null;
    const volume = await readVolume({
      directory: this.#stem,
      volumeId: decodeId(this.directory),
      files: [...objects.keys()],
      read: (name) =>
        this.#manifest(name).catch((thrown: unknown) => {
          const isGone = thrown instanceof CsiError && thrown.code === StatusCode.NOT_FOUND;
          // Nothing can be said of a volume with manifests that a store keeps back.
          if (isGone || thrown instanceof StoreError) failure = thrown;
          throw thrown;
        }),
      hasImage,
      isLeaving: (name) => leaving.has(name),
      images: this.imagesIn(objects),
    });
    if (failure !== null) throw failure;
    const all = [...volume.backups, ...volume.superseded].sort((a, b) => timeOf(a) - timeOf(b));
    return { volume, objects, hasImage, all, going };
  }

  async #manifest(name: string): Promise<string> {
    const known = await this.files.manifest(name);
    if (known !== null) return known;
    const text = await this.store.readText(this.#object(name), MANIFEST_MAX_BYTES);
    parseManifest(text, `${this.#stem}/${name}`);
    await this.files.keepManifest(name, text);
    return text;
  }
}

const stemOf = (name: string): string => name.slice(0, -MANIFEST.length);
const manifestOf = (image: string): string => `${image.slice(0, -IMAGE.length)}${MANIFEST}`;
const timeIn = ([, time]: RegExpExecArray): number => Number.parseInt(time ?? '', 16);

/** The complete ones, if all goes that anybody is about to remove. */
const completeBeside = (look: Look): ReadonlySet<Backup> =>
  completeAmong(
    look.all.filter((each) => !look.volume.leaving.has(each)),
    look.hasImage,
  );

function hasBaseOf({ base }: Manifest, look: Look): boolean {
  return [...completeBeside(look)].some((each) => base !== null && isNamed(each, base));
}

/** The backups that are complete, and would not be without this one and those that others are about to remove. */
function losersWithout(backup: Backup, look: Look): Backup[] {
  const { all, going, hasImage } = look;
  const rest = all.filter(({ name }) => name !== backup.name && !going.has(name));
  const left = [...completeAmong(rest, hasImage)];
  const before = [...completeAmong(all, hasImage)].filter(({ name }) => name !== backup.name);
  return before.filter((each) => !left.some((other) => isNamed(other, baseNameOf(each))));
}
