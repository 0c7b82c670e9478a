/** Restores a snapshot as a raw block volume for as long as somebody reads it, also that of a volume with a file system. */
import { StatusCode } from '../../base/errors.js';
import type { CheckContext } from './check.js';
import { CheckSkipped, ConformanceFailure } from './failure.js';
import type { Snapshot } from './objects.js';
import { describeRefusal } from './refusal.js';

/** Statuses of a driver that does not restore the snapshot of a file system as a raw block volume. */
const UNSUPPORTED: readonly number[] = [
  StatusCode.INVALID_ARGUMENT,
  StatusCode.FAILED_PRECONDITION,
  StatusCode.UNIMPLEMENTED,
];

/**
 * @param sizeBytes of the snapshot
 * @throws CheckSkipped if the driver refuses
 */
export async function withRestored<T>(
  { volumes, driver }: CheckContext,
  snapshot: Snapshot,
  sizeBytes: number,
  read: (path: string, sizeBytes: number) => Promise<T>,
): Promise<T> {
  const name = volumes.name();
  const spec = { access: 'block', snapshotId: snapshot.id, sizeBytes } as const;
  const { response, refusal } = await driver.outcome('CreateVolume', volumes.createRequest(name, spec));
  if (refusal !== null) {
    const found = describeRefusal(refusal);
    if (UNSUPPORTED.includes(refusal.code)) {
      throw new CheckSkipped(
        `the content cannot be read: restoring the snapshot as a raw block volume was refused: ${found}`,
      );
    }
    throw new ConformanceFailure('CreateVolume from a snapshot', 'OK', found);
  }
  const restored = volumes.adopt(name, spec, response['volume']);
  const result = await read(await volumes.publish(restored), restored.sizeBytes);
  await volumes.unpublish(restored);
  await volumes.delete(restored);
  return result;
}
