/**
 * Suite driver: measures SnapshotMetadata of any driver end to end, only through its socket. Writes a raw block volume,
 * takes snapshots, and measures the lists. Without an endpoint, measures this plugin on an XFS pool.
 */
import type { CsiConnection } from '../../client/connection.js';
import { BLOCK_BYTES, BlockWriter } from '../block-writer.js';
import { Coverage } from '../coverage.js';
import { driverCurves } from '../curves.js';
import { readAllocated, readDelta } from '../list-reader.js';
import { measuredDriver } from '../measured-driver.js';
import { BLOCK } from '../measured-volumes.js';
import type { Curve, Row, Side } from '../row.js';
import { spread } from '../statistics.js';
import { type Settings, type Suite, shuffledRounds } from '../suite.js';

const MIB = 2 ** 20;
const GIB = 2 ** 30;
const SIZES = { full: { bytes: GIB }, tiny: { bytes: 32 * MIB } } as const;
const CHANGED = 0.1;

interface Lists {
  base: string;
  target: string;
  written: number[];
  snapshotMs: number[];
}

export const suite: Suite = {
  name: 'driver',
  describes: 'SnapshotMetadata of the driver at --endpoint, end to end; without one, of this plugin on XFS (root)',

  async run(settings: Settings): Promise<Row[]> {
    const { label, driver, volumes } = await measuredDriver(settings, 'driver');
    const { bytes } = SIZES[settings.size];
    const volume = await volumes.create(BLOCK, settings.volumeBytes ?? bytes);
    await volumes.bringUp(volume);
    const { sizeBytes } = volume;
    const writer = await BlockWriter.open(volume.targetPath, sizeBytes, settings.random);
    settings.cleanup.defer(() => writer.close());
    settings.say(`writing a volume of ${sizeBytes / MIB} MiB`);
    const lists = await prepare(() => volumes.snapshot(volume), writer, sizeBytes);
    return measure(settings, driver.connection, writer, lists, { label, sizeBytes });
  },

  async curves(settings: Settings): Promise<Curve[]> {
    return driverCurves(settings, await measuredDriver(settings, 'driver-curves'));
  },
};

/** Takes two snapshots of a full volume, and writes a tenth of its blocks in between. */
async function prepare(take: () => Promise<string>, writer: BlockWriter, sizeBytes: number): Promise<Lists> {
  const snapshotMs: number[] = [];
  const snapshot = async (): Promise<string> => {
    const started = performance.now();
    const id = await take();
    snapshotMs.push(performance.now() - started);
    return id;
  };
  await writer.fill();
  const base = await snapshot();
  writer.takeWritten();
  await writer.writeBlocks(Math.floor((sizeBytes / BLOCK_BYTES) * CHANGED));
  const target = await snapshot();
  return { base, target, written: writer.takeWritten(), snapshotMs };
}

async function measure(
  settings: Settings,
  connection: CsiConnection,
  writer: BlockWriter,
  { base, target, written, snapshotMs }: Lists,
  { label, sizeBytes }: { label: string; sizeBytes: number },
): Promise<Row[]> {
  const changed = new Coverage(written);
  await readDelta(connection, base, target, { onMessage: changed.onMessage });
  changed.end();
  const held = new Coverage([]);
  const { messages } = await readAllocated(connection, target, { onMessage: held.onMessage });
  settings.say(`${changed.entries} changed and ${held.entries} allocated entries; no written block is missing`);

  const first: number[] = [];
  const contenders = ['delta', 'allocated', 'read'] as const;
  const found = await shuffledRounds(settings, contenders, async (contender) => {
    const started = performance.now();
    if (contender === 'read') {
      await writer.readAll();
      return performance.now() - started;
    }
    const reading =
      contender === 'delta' ? await readDelta(connection, base, target) : await readAllocated(connection, target);
    if (contender === 'delta') first.push(reading.firstMs);
    return performance.now() - started;
  });
  const side = (label: string, contender: (typeof contenders)[number]): Side => ({
    label,
    unit: 'ms',
    rounds: found.get(contender) ?? [],
  });
  const [deltas, all, reads] = [
    side('delta', 'delta'),
    side('allocated', 'allocated'),
    side('one read of the volume', 'read'),
  ];
  const perSecond = (label: string, unit: string, amount: number, { rounds }: Side): Side => ({
    label,
    unit,
    rounds: rounds.map((ms) => amount / (ms / 1000)),
  });
  const facts = {
    driver: label,
    'volume GiB': sizeBytes / GIB,
    'changed entries': changed.entries,
    'allocated entries': held.entries,
    'messages of allocated': messages,
    'snapshot ms': spread(snapshotMs).median.toFixed(1),
  };
  return [
    {
      name: 'driver-delta',
      measures: `time of a whole GetMetadataDelta with ${CHANGED * 100} % of the blocks changed, beside reading the volume once`,
      ours: deltas,
      peer: reads,
      facts,
    },
    {
      name: 'driver-allocated',
      measures: 'time of a whole GetMetadataAllocated of a full volume, beside reading the volume once',
      ours: all,
      peer: reads,
      facts,
    },
    {
      name: 'driver-coverage',
      measures: 'volume covered a second by GetMetadataDelta, beside reading the volume once',
      ours: perSecond('delta', 'GiB/s', sizeBytes / GIB, deltas),
      peer: perSecond('one read', 'GiB/s', sizeBytes / GIB, reads),
      better: 'higher',
      facts,
    },
    {
      name: 'driver-entries',
      measures: 'entries a second of GetMetadataDelta, beside those of GetMetadataAllocated',
      ours: perSecond('delta', 'entries/s', changed.entries, deltas),
      peer: perSecond('allocated', 'entries/s', held.entries, all),
      better: 'higher',
      facts,
    },
    {
      name: 'driver-first-message',
      measures: 'time to the first message of GetMetadataDelta, beside that to the last one',
      ours: { label: 'first', unit: 'ms', rounds: first },
      peer: deltas,
      facts,
    },
    {
      name: 'driver-over-report',
      measures: 'bytes reported as changed, beside the bytes of the blocks that were written',
      ours: { label: 'reported', unit: 'MiB', rounds: [changed.bytes / MIB] },
      peer: { label: 'written', unit: 'MiB', rounds: [(written.length * BLOCK_BYTES) / MIB] },
      facts,
    },
  ];
}
