/**
 * Limits on what one pod reads from and writes to a block device: io.max of cgroup v2.
 *
 * The pod's cgroup is found below the cgroup root in the layouts the kubelet makes:
 * `kubepods/burstable/pod<uid>` (cgroupfs) and `kubepods.slice/kubepods-burstable.slice/
 * kubepods-burstable-pod<uid with underscores>.slice` (systemd), below any directories that
 * the kubelet's cgroup root adds. Only directories that look like the kubelet's are searched. Enables no
 * controller: only the manager of the cgroups may do that. Knows no volumes.
 */
import { access, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CsiError, errorCode, insteadOf } from '../../base/errors.js';
import type { DeviceNumber } from '../../base/system/device-attributes.js';

/** Limits per second; null if there is no limit. */
export interface IoLimits {
  readonly readBytesPerSecond: bigint | null;
  readonly writeBytesPerSecond: bigint | null;
  readonly readOperationsPerSecond: bigint | null;
  readonly writeOperationsPerSecond: bigint | null;
}

const NO_LIMITS: IoLimits = {
  readBytesPerSecond: null,
  writeBytesPerSecond: null,
  readOperationsPerSecond: null,
  writeOperationsPerSecond: null,
};

/** The errors of a removed cgroup: by its path, and through a file that was opened before the removal. */
const GONE: readonly unknown[] = ['ENOENT', 'ENODEV'];

/** The depth of kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-...-pod<uid>.slice, plus one. */
const MAX_DEPTH = 5;
const KUBELETS_OWN = /kube|^burstable$|^besteffort$/;

/** The pod's directory below the cgroup root; null if there is none. */
export async function findPodCgroup(root: string, podUid: string): Promise<string | null> {
  const endings = [`pod${podUid}`, `pod${podUid.replaceAll('-', '_')}.slice`];
  let level = [root];
  for (let depth = 0; depth < MAX_DEPTH && level.length > 0; depth += 1) {
    const next: string[] = [];
    for (const directory of level) {
      for (const name of await directoriesIn(directory)) {
        const path = join(directory, name);
        if (endings.some((ending) => name === ending || name.endsWith(`-${ending}`))) return path;
        if (KUBELETS_OWN.test(name)) next.push(path);
      }
    }
    level = next;
  }
  return null;
}

/**
 * Sets the limits of the device. FAILED_PRECONDITION, with the reason, if the cgroup cannot limit I/O; ABORTED if the cgroup
 * disappears with its pod during the call.
 */
export async function setLimits(cgroup: string, device: DeviceNumber, limits: IoLimits): Promise<void> {
  try {
    await writeLimits(cgroup, device, limits);
  } catch (thrown) {
    if (!(await exists(cgroup))) {
      throw CsiError.aborted(`the pod's cgroup ${cgroup} has gone; try again`, { cause: thrown });
    }
    const code = errorCode(thrown) ?? 'unknown error';
    const reason =
      code === 'ENOENT'
        ? 'it has no io.max: the io controller of cgroup v2 is not switched on for it (cgroup.subtree_control of its parents)'
        : `io.max refused the limits: ${code}`;
    throw CsiError.failedPrecondition(`the pod's cgroup ${cgroup} cannot limit I/O: ${reason}`, {
      cause: thrown,
    });
  }
}

/** Lifts all limits of the device. Succeeds if the cgroup, its io.max or the device's line in io.max does not exist. */
export async function liftLimits(cgroup: string, device: DeviceNumber): Promise<void> {
  try {
    await writeLimits(cgroup, device, NO_LIMITS);
  } catch (thrown) {
    if (!(await isLimited(cgroup, device))) return;
    const code = errorCode(thrown) ?? 'unknown error';
    throw CsiError.internal(
      `the limits of device ${device.major}:${device.minor} in the pod's cgroup ${cgroup} could not be lifted: ${code}`,
      { cause: thrown },
    );
  }
}

async function writeLimits(cgroup: string, device: DeviceNumber, limits: IoLimits): Promise<void> {
  // Writes only to an existing file: a file made here would be no control file.
  await writeFile(join(cgroup, 'io.max'), limitLine(device, limits), { flag: 'r+' });
}

async function isLimited(cgroup: string, { major, minor }: DeviceNumber): Promise<boolean> {
  try {
    const text = await readFile(join(cgroup, 'io.max'), 'utf8');
    return text.split('\n').some((line) => line.startsWith(`${major}:${minor} `));
  } catch (thrown) {
    return !GONE.includes(errorCode(thrown));
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    (thrown) => !GONE.includes(errorCode(thrown)),
  );
}

export function isCgroup2(root: string): Promise<boolean> {
  const controllers = readFile(join(root, 'cgroup.controllers'), 'utf8');
  return controllers.then(() => true, insteadOf(['ENOENT'], false));
}

/** A line for io.max. The line names every limit, so that it also lifts earlier limits. */
export function limitLine({ major, minor }: DeviceNumber, limits: IoLimits): string {
  const text = (limit: bigint | null): string => (limit === null ? 'max' : limit.toString());
  return (
    `${major}:${minor} rbps=${text(limits.readBytesPerSecond)} wbps=${text(limits.writeBytesPerSecond)} ` +
    `riops=${text(limits.readOperationsPerSecond)} wiops=${text(limits.writeOperationsPerSecond)}`
  );
}

async function directoriesIn(directory: string): Promise<string[]> {
  // A cgroup may disappear at any time.
  const found = readdir(directory, { withFileTypes: true }).catch(insteadOf(['ENOENT'], []));
  return (await found).filter((entry) => entry.isDirectory()).map((entry) => entry.name);
}
