/**
 * Rows lifecycle-<operation>: the median time of each call of a volume's life by one client, in a catalogue of many
 * objects beside an empty catalogue. The facts include p99 and calls per second at 1, 4 and 16 clients.
 */
import type { MeasuredDriver } from './measured-driver.js';
import { BLOCK, type Volume, type Volumes } from './measured-volumes.js';
import { missingSide, type Row, type Side } from './row.js';
import { median, quantile } from './statistics.js';
import type { Settings } from './suite.js';

const MIB = 2 ** 20;
const VOLUME_BYTES = 16 * MIB;
const EXPANDED_BYTES = 32 * MIB;
const SIZES = {
  full: { clients: [1, 4, 16], objects: 16 },
  tiny: { clients: [1, 2], objects: 2 },
} as const;

const OPERATIONS = [
  ['create', 'CreateVolume'],
  ['stage', 'NodeStageVolume'],
  ['publish', 'NodePublishVolume'],
  ['unpublish', 'NodeUnpublishVolume'],
  ['unstage', 'NodeUnstageVolume'],
  ['expand', 'ControllerExpandVolume'],
  ['snapshot', 'CreateSnapshot'],
  ['restore', 'CreateVolume from a snapshot'],
  ['delete-snapshot', 'DeleteSnapshot'],
  ['delete', 'DeleteVolume'],
] as const;
type Operation = (typeof OPERATIONS)[number][0];

type Catalogue = Pick<MeasuredDriver, 'label' | 'volumes'>;

interface Batch {
  /** The time of each call in milliseconds. */
  times: number[];
  perSecond: number;
}

/** @param catalogues the measured catalogue, and the catalogue with which it is compared, if any */
export async function operationRows(settings: Settings, catalogues: readonly [Catalogue, Catalogue?]): Promise<Row[]> {
  const { clients } = SIZES[settings.size];
  const contenders = catalogues
    .filter((each) => each !== undefined)
    .flatMap((catalogue) => {
      return clients.map((count) => ({ catalogue, count, batches: newBatches() }));
    });
  for (let round = 0; round < settings.rounds; round += 1) {
    for (const { catalogue, count, batches } of settings.random.shuffled(contenders)) {
      await lifeOf(catalogue.volumes, count, SIZES[settings.size].objects, (operation, batch) =>
        batches[operation].push(batch),
      );
    }
    settings.say(`round ${round + 1} of ${settings.rounds}: every call at ${clients.join(', ')} clients`);
  }
  const batchesOf = (catalogue: Catalogue, count: number) =>
    contenders.find((each) => each.catalogue === catalogue && each.count === count)?.batches;
  const [ours, peer] = catalogues;
  return OPERATIONS.map(([operation, rpc]) => {
    const sideOf = (catalogue: Catalogue): Side => ({
      label: catalogue.label,
      unit: 'ms',
      rounds: (batchesOf(catalogue, 1)?.[operation] ?? []).map(({ times }) => median(times)),
    });
    const facts: Record<string, string> = {};
    for (const count of clients) {
      const batches = batchesOf(ours, count)?.[operation] ?? [];
      const times = batches.flatMap((batch) => batch.times);
      const figures = [quantile(times, 0.5), quantile(times, 0.99)].map((ms) => ms.toFixed(1));
      const perSecond = median(batches.map((batch) => batch.perSecond)).toFixed(0);
      facts[`${count} clients`] = `p50 ${figures[0]} ms, p99 ${figures[1]} ms, ${perSecond} calls/s`;
    }
    return {
      name: `lifecycle-${operation}`,
      measures: `median time of ${rpc} by one client, ${ours.label} beside ${peer?.label ?? 'nothing'}`,
      ours: sideOf(ours),
      peer:
        peer === undefined
          ? missingSide('empty catalogue', 'ms', 'a driver of others is measured as it is')
          : sideOf(peer),
      facts,
    };
  });
}

function newBatches(): Record<Operation, Batch[]> {
  return Object.fromEntries(OPERATIONS.map(([name]) => [name, []])) as unknown as Record<Operation, Batch[]>;
}

/** Runs each operation once on each object, and on all objects before the next operation. */
async function lifeOf(
  volumes: Volumes,
  clients: number,
  objects: number,
  report: (operation: Operation, batch: Batch) => void,
): Promise<void> {
  const each = async <I, O>(
    operation: Operation,
    inputs: readonly I[],
    call: (input: I) => Promise<O>,
  ): Promise<O[]> => {
    const outputs: O[] = [];
    const times: number[] = [];
    const queue = inputs.entries();
    const started = performance.now();
    const client = async (): Promise<void> => {
      for (const [index, input] of queue) {
        const called = performance.now();
        outputs[index] = await call(input);
        times.push(performance.now() - called);
      }
    };
    await Promise.all(Array.from({ length: clients }, client));
    const seconds = (performance.now() - started) / 1000;
    report(operation, { times, perSecond: inputs.length / seconds });
    return outputs;
  };
  const numbers = Array.from({ length: objects }, (_, index) => index);
  const made = await each('create', numbers, () => volumes.create(BLOCK, VOLUME_BYTES));
  await each('stage', made, (volume) => volumes.stage(volume));
  await each('publish', made, (volume) => volumes.publish(volume));
  await each('unpublish', made, (volume) => volumes.unpublish(volume));
  await each('unstage', made, (volume) => volumes.unstage(volume));
  await each('expand', made, (volume) => volumes.expand(volume, EXPANDED_BYTES));
  const snapshots = await each('snapshot', made, (volume) => volumes.snapshot(volume));
  const restored = await each('restore', snapshots, (id) => volumes.create(BLOCK, EXPANDED_BYTES, id));
  await each('delete-snapshot', snapshots, (id) => volumes.deleteSnapshot(id));
  await each('delete', [...made, ...restored], (volume: Volume) => volumes.deleteVolume(volume));
}
