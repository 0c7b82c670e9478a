/**
 * The part of a harness shared by backends whose volumes are block devices: it attaches a volume
 * when it is first used, and holds it open, since the last close of a block device writes it out.
 */
import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import type { Backend } from '../../src/driver/backends/backend.js';
import { blockDiscard } from '../support/ioctls.js';

export abstract class DeviceHarness {
  abstract readonly backend: Backend;
  readonly attaches = true;
  readonly #fds = new Map<string, number>();

  async write(volumeId: string, offset: number, bytes: Buffer): Promise<void> {
    writeSync(await this.#fd(volumeId), bytes, 0, bytes.length, offset);
  }

  async discard(volumeId: string, offset: number, length: number): Promise<void> {
    const fd = await this.#fd(volumeId);
    // The page cache drops what it holds of the range, also of parts of blocks that keep their content.
    fsyncSync(fd);
    blockDiscard(fd, offset, length);
  }

  async read(volumeId: string): Promise<Buffer> {
    const fd = await this.#fd(volumeId);
    const device = await this.backend.attachments.find(volumeId);
    const content = Buffer.alloc(Number(device?.sizeBytes));
    readSync(fd, content, 0, content.length, 0);
    return content;
  }

  async release(volumeId: string): Promise<void> {
    const fd = this.#fds.get(volumeId);
    if (fd !== undefined) closeSync(fd);
    this.#fds.delete(volumeId);
  }

  protected releaseAll(): void {
    for (const fd of this.#fds.values()) closeSync(fd);
    this.#fds.clear();
  }

  async #fd(volumeId: string): Promise<number> {
    const known = this.#fds.get(volumeId);
    if (known !== undefined) return known;
    const { devicePath } = await this.backend.attachments.attach(volumeId, { readOnly: false });
    const fd = openSync(devicePath, 'r+');
    this.#fds.set(volumeId, fd);
    return fd;
  }
}
