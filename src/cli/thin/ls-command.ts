/** `blockdelta thin-ls`: lists the thin devices of any dm-thin pool from its metadata. Needs no plugin. */
import { type Command, Option } from 'commander';
import { ThinTrees } from '../../driver/inspection/thin-trees.js';
import type { NativeRunner } from '../../driver/native/pool.js';
import type { ThinDeviceDetails } from '../../driver/native/thin-addon.js';
import { formatTable } from '../inspection/tables.js';
import { FORMATS, type Format, jsonOption } from '../metadata/formats.js';
import { print } from '../output.js';
import {
  addMetadataOptions,
  METADATA_HELP,
  type MetadataOptions,
  type NamedMetadata,
  namedMetadata,
  runOnMetadata,
  warnOfNeedsCheck,
} from './options.js';

interface LsOptions extends MetadataOptions {
  format: Format;
}

export function addThinLsCommand(program: Command): void {
  const command = program.command('thin-ls').description("list the thin devices of a pool, from the pool's metadata");
  addMetadataOptions(command)
    .addOption(new Option('--format <format>', 'output format').choices(FORMATS).default('table'))
    .addOption(jsonOption())
    .addHelpText('after', HELP + METADATA_HELP)
    .action(async (positional: string | undefined, options: LsOptions) => {
      const metadata = namedMetadata(command, positional, options);
      process.exitCode = await runOnMetadata(metadata, (runner, signal) =>
        printThinDevices(runner, metadata, options.format, signal),
      );
    });
}

const HELP = `
For each device: its id, the blocks and bytes it maps, the pool's transaction id at its creation, and the
pool's time (a counter of snapshots) at its creation and at its last snapshot.
`;

export async function printThinDevices(
  runner: NativeRunner,
  metadata: NamedMetadata,
  format: Format,
  signal: AbortSignal,
): Promise<void> {
  const trees = await ThinTrees.open(runner, metadata.path, metadata.snapshot);
  warnOfNeedsCheck(trees);
  const devices = await trees.devices(signal);
  signal.throwIfAborted();
  await print(formatDevices(format, devices, trees.superblock.dataBlockBytes));
}

const COLUMNS = [
  'device_id',
  'mapped_blocks',
  'mapped_bytes',
  'transaction_id',
  'creation_time',
  'snapshotted_time',
] as const;
const HEADINGS = ['DEVICE', 'BLOCKS', 'BYTES', 'TRANSACTION', 'CREATED', 'SNAPSHOTTED'];

type Row = Record<(typeof COLUMNS)[number], string | number>;

/** Counts are strings because they may exceed what JSON readers represent exactly; device ids and times are small. */
function rowOf(device: ThinDeviceDetails, blockBytes: bigint): Row {
  return {
    device_id: device.deviceId,
    mapped_blocks: device.mappedBlocks.toString(),
    mapped_bytes: (device.mappedBlocks * blockBytes).toString(),
    transaction_id: device.transactionId.toString(),
    creation_time: device.creationTime,
    snapshotted_time: device.snapshottedTime,
  };
}

export function formatDevices(format: Format, devices: readonly ThinDeviceDetails[], blockBytes: bigint): string {
  const rows = devices.map((device) => rowOf(device, blockBytes));
  switch (format) {
    case 'ndjson':
      return rows.map((row) => `${JSON.stringify(row)}\n`).join('');
    case 'csv':
      return [COLUMNS, ...rows.map(cellsOf)].map((cells) => `${cells.join(',')}\n`).join('');
    case 'table':
      return formatTable(HEADINGS, HEADINGS, rows.map(cellsOf));
  }
}

function cellsOf(row: Row): string[] {
  return COLUMNS.map((column) => String(row[column]));
}
