/**
 * Which capabilities(7) a process has, and which capability the plugin requires to start.
 *
 * Knows what the plugin uses them for only in the texts for the operator who has to grant them.
 */
import { readFile } from 'node:fs/promises';
import { CsiError } from '../../base/errors.js';

/** The capabilities that the plugin uses, and the bit of each in CapEff. */
const BITS = {
  CAP_DAC_OVERRIDE: 1n,
  CAP_DAC_READ_SEARCH: 2n,
  CAP_LINUX_IMMUTABLE: 9n,
  CAP_SYS_ADMIN: 21n,
  CAP_SYS_RESOURCE: 24n,
} as const;
export type Capability = keyof typeof BITS;

export async function hasCapability(capability: Capability): Promise<boolean> {
  return (await heldCapabilities()).includes(capability);
}

/** What the plugin uses each capability for. */
export const CAPABILITY_USES: Readonly<Record<Exclude<Capability, 'CAP_DAC_OVERRIDE'>, string>> = {
  CAP_SYS_ADMIN: 'attach, mount, freeze and grow volumes',
  CAP_LINUX_IMMUTABLE: 'keep snapshot files from being changed',
  CAP_DAC_READ_SEARCH: 'open directories that a pod has closed to others',
  CAP_SYS_RESOURCE: 'grow a mounted ext4',
};

/**
 * Which of the capabilities that the plugin uses a process has.
 *
 * @param process the id of the process; default: this process
 */
export async function heldCapabilities(process = 'self'): Promise<Capability[]> {
  const status = await readFile(`/proc/${process}/status`, 'utf8');
  const effective = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? '0'}`);
  const names = Object.keys(BITS) as Capability[];
  return names.filter((name) => ((effective >> BITS[name]) & 1n) === 1n);
}

/**
 * FAILED_PRECONDITION if this process cannot open a directory that its owner has closed to everybody. The root directory of a
 * file system belongs to the pod that uses the volume: a root directory with mode 0 would keep the volume from being frozen and
 * grown, long after the volume was handed out.
 */
export async function assertCanOpenDirectories(): Promise<void> {
  if (await hasCapability('CAP_DAC_READ_SEARCH')) return;
  // CAP_DAC_OVERRIDE also permits reading and searching any directory.
  if (await hasCapability('CAP_DAC_OVERRIDE')) return;
  throw CsiError.failedPrecondition(
    'the plugin lacks CAP_DAC_READ_SEARCH: a pod that takes all permissions off the root directory of its volume ' +
      'would keep it from being snapshotted and grown; grant that capability',
  );
}
