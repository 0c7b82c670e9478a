/**
 * Growing a file system that is not mounted, and what growing a mounted one needs of this process.
 *
 * xfs and btrfs grow while mounted and no other way; ext4 does both. The kernel does it by journal and
 * may be stopped anywhere, but wants CAP_SYS_RESOURCE of ext4. resize2fs needs no capability and must
 * not be stopped: killed half way it left file systems that fsck -p refused (6 of 41 tries), so
 * it continues if the plugin is killed, and nothing else touches the device until it has ended. Knows no
 * volumes.
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
 * Grows an ext4 to its device's size. FAILED_PRECONDITION if it is mounted or damaged; ABORTED if it is
 * being grown already, or still when time is over.
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
