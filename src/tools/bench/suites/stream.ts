/**
 * Suite stream: measures what a driver's lists cost its other callers. Several clients read one snapshot of many
 * extents at once, or one client reads beside a client that reads nothing. Both are compared with one client alone.
 */
import type { CsiConnection } from '../../client/connection.js';
import { BLOCK_BYTES, BlockWriter } from '../block-writer.js';
import { type Reading, readAllocated } from '../list-reader.js';
import { measuredDriver } from '../measured-driver.js';
import { BLOCK } from '../measured-volumes.js';
import type { Curve, Row, Side } from '../row.js';
import { type Settings, type Suite, shuffledRounds } from '../suite.js';

const MIB = 2 ** 20;
const SIZES = { full: { bytes: 2048 * MIB }, tiny: { bytes: 16 * MIB } } as const;
/** Every second block is written, so that each written block is a separate extent. */
const SHARE = 0.5;
const STREAMS = { full: [1, 2, 4, 8, 16], tiny: [1, 2] } as const;
const TOGETHER = 4;

interface Bed {
  label: string;
  entries: number;
  snapshot: string;
  clients: readonly CsiConnection[];
}

export const suite: Suite = {
  name: 'stream',
  describes: "several clients at the driver's lists at once, and one that reads nothing",

  async run(settings: Settings): Promise<Row[]> {
    const bed = await makeBed(settings, 'stream', TOGETHER + 1);
    const contenders = {
      alone: () => together(bed, 1),
      four: () => together(bed, TOGETHER),
      stalled: () => besideStalled(bed),
    };
    const seen: Record<keyof typeof contenders, Reading[]> = { alone: [], four: [], stalled: [] };
    const names = ['alone', 'four', 'stalled'] as const;
    for (const name of names) await contenders[name]();
    const times = await shuffledRounds(settings, names, async (name) => {
      const { ms, reading } = await contenders[name]();
      seen[name].push(reading);
      return ms;
    });
    const rate = (label: string, name: (typeof names)[number], streams: number): Side => ({
      label,
      unit: 'M entries/s',
      rounds: (times.get(name) ?? []).map((ms) => (streams * bed.entries) / ms / 1000),
    });
    const firstMs = (label: string, name: (typeof names)[number]): Side => ({
      label,
      unit: 'ms',
      rounds: seen[name].map((reading) => reading.firstMs),
    });
    const facts = { driver: bed.label, entries: bed.entries };
    return [
      {
        name: 'stream-together',
        measures: `entries a second of ${TOGETHER} streams at once in all, beside one stream alone`,
        ours: rate(`${TOGETHER} streams`, 'four', TOGETHER),
        peer: rate('one stream', 'alone', 1),
        better: 'higher',
        facts,
      },
      {
        name: 'stream-first-message',
        measures: `time to the first message while ${TOGETHER - 1} other streams run, beside one stream alone`,
        ours: firstMs('among others', 'four'),
        peer: firstMs('alone', 'alone'),
        facts,
      },
      {
        name: 'stream-beside-stalled',
        measures: 'entries a second of a stream beside one whose client reads nothing, beside one alone',
        ours: rate('beside a stalled one', 'stalled', 1),
        peer: rate('one stream', 'alone', 1),
        better: 'higher',
        facts,
      },
    ];
  },

  async curves(settings: Settings): Promise<Curve[]> {
    const counts = STREAMS[settings.size];
    const bed = await makeBed(settings, 'stream-curves', Math.max(...counts));
    await together(bed, 1);
    const found = await shuffledRounds(settings, counts, async (streams) => {
      const { ms } = await together(bed, streams);
      return (streams * bed.entries) / ms / 1000;
    });
    return [
      {
        name: 'stream-streams',
        title: `Lists of ${bed.entries} entries by streams at the same time`,
        x: 'streams',
        y: 'M entries a second in all',
        lines: [
          {
            label: 'all streams',
            points: counts.map((x) => ({ x, rounds: found.get(x) ?? [] })),
          },
        ],
      },
    ];
  },
};

async function makeBed(settings: Settings, label: string, clients: number): Promise<Bed> {
  const measured = await measuredDriver(settings, label);
  const { volumes, driver } = measured;
  const bytes = settings.volumeBytes ?? SIZES[settings.size].bytes;
  const volume = await volumes.bringUp(await volumes.create(BLOCK, bytes));
  const writer = await BlockWriter.open(volume.targetPath, volume.sizeBytes, settings.random);
  settings.cleanup.defer(() => writer.close());
  const entries = Math.floor((volume.sizeBytes / BLOCK_BYTES) * SHARE);
  settings.say(`writing ${entries} blocks of a volume of ${volume.sizeBytes / MIB} MiB`);
  await writer.writeEverySecond();
  const snapshot = await volumes.snapshot(volume);
  const connections = Array.from({ length: clients }, () => driver.connect());
  settings.cleanup.defer(() => {
    for (const connection of connections) connection.close();
  });
  return { label: measured.label, entries, snapshot, clients: connections };
}

/** Measures until the last message of the last stream. `reading` is the reading of the first stream. */
async function together({ clients, snapshot }: Bed, streams: number): Promise<{ ms: number; reading: Reading }> {
  const started = performance.now();
  const readings = await Promise.all(clients.slice(0, streams).map((client) => readAllocated(client, snapshot)));
  return { ms: performance.now() - started, reading: readings[0] as Reading };
}

async function besideStalled(bed: Bed): Promise<{ ms: number; reading: Reading }> {
  const stalled = bed.clients.at(-1)?.bytes('GetMetadataAllocated', { snapshot_id: bed.snapshot });
  // The stream is cancelled below.
  stalled?.on('error', () => undefined);
  await new Promise<void>((resolve) => stalled?.once('readable', resolve));
  const found = await together(bed, 1);
  stalled?.cancel();
  return found;
}
