/**
 * Room beside a database that is kept for the day its directory is full: a file of random bytes, so that
 * no file system stores it as less, which is removed when what frees space could not be written.
 */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';

/** Of the space that has to be free beside the reserve, so that making it fills nothing up. */
const ROOM_FACTOR = 3;

export class SpaceReserve {
  /** @param bytes what a database needs to grow by while space is being freed */
  constructor(
    private readonly file: string,
    private readonly bytes: number,
  ) {}

  isThere(): boolean {
    return (statSync(this.file, { throwIfNoEntry: false })?.size ?? 0) >= this.bytes;
  }

  /** False: there was none. */
  giveUp(): boolean {
    if (statSync(this.file, { throwIfNoEntry: false }) === undefined) return false;
    rmSync(this.file, { force: true });
    return true;
  }

  /** Makes it where it is missing and there is room for it. Returns whether it is there then. */
  restore(): boolean {
    if (this.isThere()) return true;
    try {
      const { bavail, bsize } = statfsSync(dirname(this.file));
      if (bavail * bsize < this.bytes * ROOM_FACTOR) return false;
      this.#make();
      return true;
    } catch {
      // No room after all, or no permission: the database works without it for as long as there is room.
      rmSync(this.#temporary, { force: true });
      return false;
    }
  }

  #make(): void {
    const fd = openSync(this.#temporary, 'w', 0o600);
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
