/**
 * Disk space that is held for the time when a database's directory is full: a file beside the database, which is removed when a
 * call that frees space cannot be recorded otherwise. The file has random bytes, so that a file system that compresses gives
 * the file its full size.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, renameSync, rmSync, statfsSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

/** The reserve is created only while this many times its size is free, so that it does not fill the directory itself. */
const ROOM_FACTOR = 3;

export class SpaceReserve {
  /** @param bytes how much a database may grow while space is being freed */
  constructor(
    private readonly file: string,
    private readonly bytes: number,
  ) {}

  isThere(): boolean {
    return (statSync(this.file, { throwIfNoEntry: false })?.size ?? 0) >= this.bytes;
  }

  /** Removes the reserve. Returns false if there was none. */
  release(): boolean {
    if (statSync(this.file, { throwIfNoEntry: false }) === undefined) return false;
    rmSync(this.file, { force: true });
    return true;
  }

  /** Creates the reserve if it is missing and there is room. Returns whether it exists afterwards. */
  restore(): boolean {
    if (this.isThere()) return true;
    try {
      const { bavail, bsize } = statfsSync(dirname(this.file));
      if (bavail * bsize < this.bytes * ROOM_FACTOR) return false;
      this.#make();
      return true;
    } catch {
      // No space after all, or no permission. The database works without a reserve until the disk is full.
      rmSync(this.#temporary, { force: true });
      return false;
    }
  }

  #make(): void {
    rmSync(this.#temporary, { force: true });
    const fd = openSync(this.#temporary, 'wx', 0o600);
    try {
      const content = randomBytes(this.bytes);
      for (let done = 0; done < this.bytes; ) done += writeSync(fd, content, done);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(this.#temporary, this.file);
  }

  get #temporary(): string {
    return `${this.file}.tmp`;
  }
}
