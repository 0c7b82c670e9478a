/** Measures how the time of a delta grows with the changed blocks, the volume's size, and the snapshots in between. */
import type { CsiConnection } from '../client/connection.js';
import { BLOCK_BYTES, BlockWriter } from './block-writer.js';
import { Coverage } from './coverage.js';
import { readDelta } from './list-reader.js';
import type { MeasuredDriver } from './measured-driver.js';
import { BLOCK, type Volume } from './measured-volumes.js';
import type { Curve, CurveLine } from './row.js';
import type { Settings } from './suite.js';

const MIB = 2 ** 20;
interface Sizes {
  volumeMiB: number;
  changes: readonly number[];
  volumesMiB: readonly number[];
  chain: readonly number[];
  blocks: number;
}

const SIZES: Readonly<Record<Settings['size'], Sizes>> = {
  full: {
    volumeMiB: 1024,
    changes: [10, 100, 1000, 10_000, 100_000],
    volumesMiB: [64, 256, 1024, 4096],
    chain: [1, 2, 4, 8, 16, 32],
    blocks: 1000,
  },
  tiny: { volumeMiB: 32, changes: [10, 100], volumesMiB: [16, 32], chain: [1, 2], blocks: 20 },
};
/** Of the largest volume, if --volume-size gives it. */
const SHARES = [1 / 64, 1 / 16, 1 / 4, 1];
const TIME = 'time of GetMetadataDelta (ms)';

/** A pair of snapshots and the point of the curve that it stands for. */
interface Pair {
  x: number;
  base: string;
  target: string;
}

export async function driverCurves(settings: Settings, driver: MeasuredDriver): Promise<Curve[]> {
  return [await byChanges(settings, driver), await byVolumeSize(settings, driver), await bySnapshots(settings, driver)];
}

/** With a volume size of the run, no volume is larger. */
export function sizesOf({ size, volumeBytes }: Pick<Settings, 'size' | 'volumeBytes'>): Sizes {
  const sizes = SIZES[size];
  if (volumeBytes === null) return sizes;
  const volumeMiB = Math.ceil(volumeBytes / MIB);
  const volumesMiB = [...new Set(SHARES.map((share) => Math.ceil(share * volumeMiB)))];
  return {
    ...sizes,
    volumeMiB,
    changes: sizes.changes.filter((count) => count * BLOCK_BYTES <= volumeBytes),
    volumesMiB,
    blocks: Math.min(sizes.blocks, (Math.min(...volumesMiB) * MIB) / BLOCK_BYTES),
  };
}

async function byChanges(settings: Settings, driver: MeasuredDriver): Promise<Curve> {
  const { volumeMiB, changes } = sizesOf(settings);
  const { volume, writer } = await volumeOf(settings, driver, volumeMiB);
  await writer.fill();
  let base = await driver.volumes.snapshot(volume);
  const pairs: Pair[] = [];
  for (const count of changes) {
    writer.takeWritten();
    await writer.writeBlocks(count);
    const target = await driver.volumes.snapshot(volume);
    await assertComplete(driver.driver.connection, { base, target }, writer.takeWritten());
    pairs.push({ x: count, base, target });
    base = target;
  }
  return {
    name: 'driver-changes',
    title: `Delta by blocks of 4 KiB changed, in a full volume of ${volumeMiB} MiB`,
    x: 'blocks changed',
    y: TIME,
    lines: await timed(settings, driver, pairs),
  };
}

async function byVolumeSize(settings: Settings, driver: MeasuredDriver): Promise<Curve> {
  const { volumesMiB, blocks } = sizesOf(settings);
  const pairs: Pair[] = [];
  for (const sizeMiB of volumesMiB) {
    const { volume, writer } = await volumeOf(settings, driver, sizeMiB);
    await writer.fill();
    const base = await driver.volumes.snapshot(volume);
    await writer.writeBlocks(blocks);
    const target = await driver.volumes.snapshot(volume);
    pairs.push({ x: sizeMiB, base, target });
  }
  return {
    name: 'driver-volume-size',
    title: `Delta by the size of a full volume, ${blocks} blocks changed`,
    x: 'volume (MiB)',
    y: TIME,
    lines: await timed(settings, driver, pairs),
  };
}

async function bySnapshots(settings: Settings, driver: MeasuredDriver): Promise<Curve> {
  const { volumeMiB, chain, blocks } = sizesOf(settings);
  const { volume, writer } = await volumeOf(settings, driver, volumeMiB);
  await writer.fill();
  const base = await driver.volumes.snapshot(volume);
  const pairs: Pair[] = [];
  for (let made = 1; made <= Math.max(...chain); made += 1) {
    await writer.writeBlocks(blocks);
    const target = await driver.volumes.snapshot(volume);
    if (chain.some((wanted) => wanted === made)) pairs.push({ x: made, base, target });
  }
  return {
    name: 'driver-snapshots',
    title: `Delta by the snapshots from base to target, ${blocks} blocks changed in each`,
    x: 'snapshots',
    y: TIME,
    lines: await timed(settings, driver, pairs),
  };
}

async function volumeOf(
  settings: Settings,
  { volumes }: MeasuredDriver,
  sizeMiB: number,
): Promise<{ volume: Volume; writer: BlockWriter }> {
  const volume = await volumes.bringUp(await volumes.create(BLOCK, sizeMiB * MIB));
  const writer = await BlockWriter.open(volume.targetPath, volume.sizeBytes, settings.random);
  settings.cleanup.defer(() => writer.close());
  settings.say(`a volume of ${volume.sizeBytes / MIB} MiB, ${volume.sizeBytes / BLOCK_BYTES} blocks`);
  return { volume, writer };
}

async function assertComplete(
  connection: CsiConnection,
  { base, target }: Omit<Pair, 'x'>,
  written: readonly number[],
): Promise<void> {
  const coverage = new Coverage(written);
  await readDelta(connection, base, target, { onMessage: coverage.onMessage });
  coverage.end();
}

/** Times each pair once in each round, in random order. */
async function timed(
  { rounds, random }: Settings,
  { driver }: MeasuredDriver,
  pairs: readonly Pair[],
): Promise<CurveLine[]> {
  const last = new Map<Pair, number[]>(pairs.map((pair) => [pair, []]));
  const first = new Map<Pair, number[]>(pairs.map((pair) => [pair, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (const pair of random.shuffled(pairs)) {
      const { firstMs, totalMs } = await readDelta(driver.connection, pair.base, pair.target);
      last.get(pair)?.push(totalMs);
      first.get(pair)?.push(firstMs);
    }
  }
  const line = (label: string, found: Map<Pair, number[]>): CurveLine => ({
    label,
    points: pairs.map((pair) => ({ x: pair.x, rounds: found.get(pair) ?? [] })),
  });
  return [line('last message', last), line('first message', first)];
}
