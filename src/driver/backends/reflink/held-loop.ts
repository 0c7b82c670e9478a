/**
 * A loop device that lasts for as long as this process, or a program that it has started, has it open. The kernel detaches it
 * then, also after a kill, and also if its file is gone.
 */
import { open } from 'node:fs/promises';
import { CsiError } from '../../../base/errors.js';
import { detachOpenLoop } from '../../native/block-device.js';
import type { NativeRunner } from '../../native/pool.js';

export interface HeldLoop {
  readonly path: string;
  /**
   * Makes everything that was written durable. Fails if the kernel could not write some of it since the device was opened here,
   * also if the writer was told so: the kernel tells each of those who have the device open once.
   */
  flush(): Promise<void>;
  /** The device goes as soon as nobody else has it open. */
  close(): Promise<void>;
}

/** Several holders of one file share the device. Fails as loopAttach does; ABORTED if another program detaches the device. */
export async function holdLoop(
  native: NativeRunner,
  request: { backingPath: string; readOnly: boolean; label: string },
): Promise<HeldLoop> {
  const { backingPath } = request;
  const { path } = (await native.run('loopAttach', request)).device;
  const holder = await open(path);
  try {
    const { device } = await native.run('loopFind', { backingPath, hint: null });
    // From now on, the number cannot be given to another file.
    if (device?.path !== path) {
      throw CsiError.aborted(`${path}, the device of ${request.label}, was detached by another program; try again`);
    }
    const second = await open(path);
    try {
      detachOpenLoop(second, path);
    } finally {
      await second.close();
    }
  } catch (thrown) {
    await holder.close();
    throw thrown;
  }
  return { path, flush: () => holder.sync(), close: () => holder.close() };
}
