/**
 * Suite driver: SnapshotMetadata end to end, of any driver, through its socket alone. Writes a raw block volume, takes
 * snapshots, and measures the lists. Without an endpoint it measures this plugin on an XFS pool.
 */
import { CsiConnection } from '../csi-connection.js';
import { BLOCK_BYTES, BlockWriter } from '../driver/block-writer.js';
import { Coverage } from '../driver/coverage.js';
import { driverCurves } from '../driver/curves.js';
import { Orchestrator } from '../driver/orchestrator.js';
import { ownDriver } from '../driver/own-driver.js';
import type { Curve, Row, Side } from '../row.js';
import { spread } from '../statistics.js';
import { type Settings, type Suite, shuffledRounds } from '../suite.js';
import { Workspace } from '../workspace.js';

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
  describes:
    'SnapshotMetadata of the driver at --endpoint, end to end; without one, of this plugin on XFS (root)',

  async run(settings: Settings): Promise<Row[]> {
    const { orchestrator, connection } = await connect(settings, 'driver');
    const { bytes } = SIZES[settings.size];
    const volume = await orchestrator.createVolume(settings.volumeBytes ?? bytes);
    const writer = await BlockWriter.open(volume.device, volume.sizeBytes, settings.random);
    settings.cleanup.defer(() => writer.close());
    settings.say(`writing a volume of ${volume.sizeBytes / MIB} MiB`);
    const lists = await prepare(orchestrator, writer, volume.volumeId, volume.sizeBytes);
    return measure(settings, connection, writer, lists, volume.sizeBytes);
  },

  async curves(settings: Settings): Promise<Curve[]> {
    return driverCurves(settings, await connect(settings, 'driver-curves'));
  },
};

async function connect(
  settings: Settings,
  label: string,
): Promise<{ orchestrator: Orchestrator; connection: CsiConnection }> {
  const { cleanup } = settings;
  const workspace = Workspace.make(settings, label);
  const endpoint = settings.endpoint ?? (await ownDriver(settings, workspace));
  const connection = new CsiConnection(endpoint);
  cleanup.defer(() => connection.close());
  const prefix = `blockdelta-bench-${process.pid}-${Date.now()}`;
  const { parameters } = settings;
  return {
    connection,
    orchestrator: new Orchestrator({ connection, workspace, cleanup, parameters, prefix }),
  };
}

/** Two snapshots of a full volume, with a tenth of its blocks written in between. */
async function prepare(
  orchestrator: Orchestrator,
  writer: BlockWriter,
  volumeId: string,
  sizeBytes: number,
): Promise<Lists> {
  const snapshotMs: number[] = [];
  const snapshot = async (): Promise<string> => {
    const started = performance.now();
    const id = await orchestrator.createSnapshot(volumeId);
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
  sizeBytes: number,
): Promise<Row[]> {
  const delta = { base_snapshot_id: base, target_snapshot_id: target };
  const allocated = { snapshot_id: target };
  const changed = new Coverage(written);
  await connection.read('GetMetadataDelta', delta, { onMessage: changed.onMessage });
  changed.end();
  const held = new Coverage([]);
  const { messages } = await connection.read('GetMetadataAllocated', allocated, {
    onMessage: held.onMessage,
  });
  settings.say(
    `${changed.entries} changed and ${held.entries} allocated entries; no written block is missing`,
  );

  const first: number[] = [];
  const contenders = ['delta', 'allocated', 'read'] as const;
  const found = await shuffledRounds(settings, contenders, async (contender) => {
    const started = performance.now();
    if (contender === 'read') {
      await writer.readAll();
      return performance.now() - started;
    }
    const reading =
      contender === 'delta'
        ? await connection.read('GetMetadataDelta', delta)
        : await connection.read('GetMetadataAllocated', allocated);
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
    driver: settings.endpoint ?? 'this plugin on XFS',
    'volume GiB': sizeBytes / GIB,
    'changed entries': changed.entries,
    'allocated entries': held.entries,
    'messages of allocated': messages,
    'snapshot ms': spread(snapshotMs).median.toFixed(1),
  };
  const none = { target: null, facts };
  return [
    {
      name: 'driver-delta',
      measures: `time of a whole GetMetadataDelta with ${CHANGED * 100} % of the blocks changed, beside reading the volume once`,
      ours: deltas,
      peer: reads,
      ...none,
    },
    {
      name: 'driver-allocated',
      measures:
        'time of a whole GetMetadataAllocated of a full volume, beside reading the volume once',
      ours: all,
      peer: reads,
      ...none,
    },
    {
      name: 'driver-coverage',
      measures: 'volume covered a second by GetMetadataDelta, beside reading the volume once',
      ours: perSecond('delta', 'GiB/s', sizeBytes / GIB, deltas),
      peer: perSecond('one read', 'GiB/s', sizeBytes / GIB, reads),
      better: 'higher',
      ...none,
    },
    {
      name: 'driver-entries',
      measures: 'entries a second of GetMetadataDelta, beside those of GetMetadataAllocated',
      ours: perSecond('delta', 'entries/s', changed.entries, deltas),
      peer: perSecond('allocated', 'entries/s', held.entries, all),
      better: 'higher',
      ...none,
    },
    {
      name: 'driver-first-message',
      measures: 'time to the first message of GetMetadataDelta, beside that to the last one',
      ours: { label: 'first', unit: 'ms', rounds: first },
      peer: deltas,
      ...none,
    },
    {
      name: 'driver-over-report',
      measures: 'bytes reported as changed, beside the bytes of the blocks that were written',
      ours: { label: 'reported', unit: 'MiB', rounds: [changed.bytes / MIB] },
      peer: { label: 'written', unit: 'MiB', rounds: [(written.length * BLOCK_BYTES) / MIB] },
      ...none,
    },
  ];
}
