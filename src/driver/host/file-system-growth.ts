/**
 * Grows a file system that is not mounted, and says whether this process may grow a mounted one.
 *
 * xfs and btrfs grow only while they are mounted; ext4 grows mounted and unmounted. The kernel grows a file system through its
 * journal and may be stopped at any point, but requires CAP_SYS_RESOURCE for ext4. resize2fs needs no capability and must not
 * be stopped: when it was killed half way, it left file systems that fsck -p refused (6 of 41 tries). So resize2fs continues if
 * the plugin is killed, and nothing else touches the device until resize2fs has ended. Knows no volumes.
 */
import { run, toolFailure } from '../../base/process/exec.js';
import type { FileSystem } from './file-systems.js';
import { FSCK_FINE } from './filesystem.js';
import { hasCapability } from './process-capabilities.js';

const RESIZE_TIMEOUT_MS = 3_600_000;

/** Whether this process may grow a mounted file system of that type. */
export async function canGrowMounted(type: FileSystem): Promise<boolean> {
  if (type !== 'ext4') return true;
  return hasCapability('CAP_SYS_RESOURCE');
}

/**
 * Grows an ext4 to its device's size. FAILED_PRECONDITION if the file system is mounted or damaged; ABORTED if another process
 * is already growing it, or if the growth has not ended at the timeout.
 */
export async function growUnmountedExt4(devicePath: string): Promise<void> {
  try {
    await run('fsck.ext4', ['-f', '-p', { path: devicePath }], {
      timeoutMs: RESIZE_TIMEOUT_MS,
      accept: FSCK_FINE,
      device: devicePath,
    });
    await run('resize2fs', [{ path: devicePath }], {
      timeoutMs: RESIZE_TIMEOUT_MS,
      outlivesLocking: devicePath,
      device: devicePath,
    });
  } catch (thrown) {
    throw toolFailure(
      `the ext4 file system on ${devicePath} could not be grown to its device: it is damaged or in use; ` +
        'repair it by hand with fsck.ext4',
      thrown,
    );
  }
}
