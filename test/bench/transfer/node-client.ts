/** Another client of a node: it stages and publishes a volume and takes it back, and reads lists of snapshots. */
import { readAllocated, readDelta } from '../../../src/tools/bench/list-reader.js';
import { BLOCK, type Volume, type Volumes, XFS } from '../../../src/tools/bench/measured-volumes.js';
import { sizeOfExtents, writeBlocks, writeExtents } from '../storage/fragments.js';
import { backingFileOf } from '../storage/pool-files.js';

/** mkfs.xfs makes no file system below 300 MiB. */
const VOLUME_BYTES = 320 * 2 ** 20;
/** Of each snapshot. */
export const EXTENTS = 10_000;
const CHANGED = EXTENTS / 10;
const WARM_UPS = 2;

export class NodeClient {
  private constructor(
    private readonly volumes: Volumes,
    private readonly volume: Volume,
    private readonly snapshots: readonly [base: string, target: string],
  ) {}

  /** All that the client uses is on the node of the volumes. */
  static async make(volumes: Volumes): Promise<NodeClient> {
    const listed = await volumes.create(BLOCK, sizeOfExtents(EXTENTS));
    await volumes.bringUp(listed);
    const file = backingFileOf(listed.targetPath);
    await writeExtents(file, EXTENTS);
    const base = await volumes.snapshot(listed);
    await writeBlocks(file, CHANGED, (index) => (2 * index * EXTENTS) / CHANGED);
    const target = await volumes.snapshot(listed);
    const client = new NodeClient(volumes, await volumes.create(XFS, VOLUME_BYTES), [base, target]);
    // The first stage formats the volume.
    for (let warmUp = 0; warmUp < WARM_UPS; warmUp += 1) {
      await client.calls();
      await client.lists();
    }
    return client;
  }

  /** Resolves to the milliseconds of NodeStageVolume, NodePublishVolume and what undoes them. */
  calls(): Promise<number> {
    return timed(async () => {
      const { volumes, volume } = this;
      await volumes.stage(volume);
      await volumes.publish(volume);
      await volumes.unpublish(volume);
      await volumes.unstage(volume);
    });
  }

  /** Resolves to the milliseconds of GetMetadataAllocated and GetMetadataDelta, until their last messages. */
  lists(): Promise<number> {
    return timed(async () => {
      const { connection } = this.volumes.driver;
      const [base, target] = this.snapshots;
      await readAllocated(connection, target);
      await readDelta(connection, base, target);
    });
  }
}

async function timed(work: () => Promise<void>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}
