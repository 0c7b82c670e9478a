/** Device-mapper on this node: the requirements of a thin pool, and the pool's devices. */
import { CsiError } from '../../../../base/errors.js';
import type { NativeRunner } from '../../../native/pool.js';
import { DEVICE_PREFIX, type PoolNames } from './pool-names.js';

/** FAILED_PRECONDITION with the remedy if the kernel has no device-mapper, or no thin pools. */
export async function assertDeviceMapper(native: NativeRunner): Promise<void> {
  let hasTargets: boolean;
  try {
    await native.run('dmVersion', {});
    const targets = ['thin-pool', 'thin'].map((type) => native.run('dmHasTarget', { type }));
    hasTargets = (await Promise.all(targets)).every(({ present }) => present);
  } catch (thrown) {
    throw CsiError.failedPrecondition(
      'device-mapper cannot be used, and a thin pool needs it: load the module dm-mod, and give the ' +
        'plugin /dev/mapper/control and CAP_SYS_ADMIN',
      { cause: thrown },
    );
  }
  if (hasTargets) return;
  throw CsiError.failedPrecondition('the kernel has no thin provisioning: run modprobe dm-thin-pool on this node');
}

/**
 * Resumes every suspended device of the pool, and removes devices that never had a live table. A plugin that is killed with
 * its guardian during a snapshot, or while it replaces a table, leaves such devices. Tries all devices, then throws the first
 * failure.
 */
export async function recoverDevices(native: NativeRunner, names: PoolNames): Promise<void> {
  const { devices } = await native.run('dmList', { prefix: DEVICE_PREFIX });
  const ours = devices.filter((device) => names.isOurs(device)).map(({ name }) => name);
  // The pool resumes first, because its volumes cannot resume before it.
  const failures: unknown[] = [];
  for (const name of ours.sort((a, b) => Number(b === names.pool) - Number(a === names.pool))) {
    await recoverDevice(native, name).catch((thrown: unknown) => failures.push(thrown));
  }
  if (failures.length > 0) throw failures[0];
}

async function recoverDevice(native: NativeRunner, name: string): Promise<void> {
  const { device } = await native.run('dmFind', { name });
  if (device === null) return;
  if (device.targets.length === 0) await native.run('dmRemove', { name, deferred: false });
  else if (device.suspended) await native.run('dmResume', { name });
}

export async function attachedVolumes(native: NativeRunner, names: PoolNames): Promise<string[]> {
  const { devices } = await native.run('dmList', { prefix: DEVICE_PREFIX });
  return devices
    .filter((device) => names.isOurs(device) && device.name !== names.pool)
    .map(({ name }) => name.slice(DEVICE_PREFIX.length));
}
