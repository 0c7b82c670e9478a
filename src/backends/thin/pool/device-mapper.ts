/** What a thin pool needs of the machine's kernel. */
import { CsiError } from '../../../base/errors.js';
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
  throw CsiError.failedPrecondition(
    'the kernel has no thin provisioning: run modprobe dm-thin-pool on this node',
  );
}

/**
 * Lets every device of the pool go on that stands still: a plugin that was killed in a cut, or while it
 * replaced a table, has left it so. Removes those that never had a table in use. One that cannot be
 * helped keeps none of the others from it; the first failure is thrown in the end.
 */
export async function recoverDevices(native: NativeRunner, names: PoolNames): Promise<void> {
  const { devices } = await native.run('dmList', { prefix: DEVICE_PREFIX });
  const ours = devices.filter((device) => names.isOurs(device)).map(({ name }) => name);
  // The pool first: its volumes cannot go on before it does.
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

/** Ids of the volumes of the pool that are attached. */
export async function attachedVolumes(native: NativeRunner, names: PoolNames): Promise<string[]> {
  const { devices } = await native.run('dmList', { prefix: DEVICE_PREFIX });
  return devices
    .filter((device) => names.isOurs(device) && device.name !== names.pool)
    .map(({ name }) => name.slice(DEVICE_PREFIX.length));
}
