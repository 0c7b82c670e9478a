/** `blockdelta volumes`, `snapshots` and `pools`: what this node holds, as a table or as JSON. */
import type { Command } from 'commander';
import { humanSize } from '../../base/human-size.js';
import type { SnapshotRecord, VolumeRecord } from '../../driver/catalogue/records.js';
import {
  inspectNode,
  type NodeView,
  nodeSettings,
  usedPercent,
} from '../../driver/inspection/node.js';
import { print, runToExitCode } from '../output.js';
import { parsePath } from '../paths.js';
import { type Column, formatJson, formatTable } from './tables.js';

export const STATE_HELP = "the plugin's state directory (default: BLOCKDELTA_STATE_DIR)";

interface ListOptions {
  stateDir?: string;
  json: boolean;
}

/** One list: its rows as JSON and as cells of a table. */
interface Listing {
  columns: readonly Column[];
  rows: readonly { json: object; cells: readonly string[] }[];
}

export function addVolumesCommand(program: Command): void {
  addList(program, 'volumes', 'list the volumes of this node', volumes);
}

export function addSnapshotsCommand(program: Command): void {
  const description = 'list the snapshots and retained bases of this node';
  addList(program, 'snapshots', description, snapshots);
}

export function addPoolsCommand(program: Command): void {
  addList(program, 'pools', 'list the pools of this node with their space', pools);
}

function addList(
  program: Command,
  name: string,
  description: string,
  list: (node: NodeView) => Listing,
): void {
  program
    .command(name)
    .description(`${description}; needs no running plugin and disturbs none`)
    .option('--state-dir <directory>', STATE_HELP, parsePath)
    .option('--json', 'print JSON; sizes are strings, in bytes', false)
    .action(async ({ stateDir, json }: ListOptions) => {
      process.exitCode = await runToExitCode(async () => {
        const { columns, rows } = list(await inspectNode(nodeSettings(stateDir)));
        await print(
          json
            ? formatJson(rows.map((row) => row.json))
            : formatTable(
                columns,
                rows.map(({ cells }) => cells),
              ),
        );
      });
    });
}

const size = (bytes: bigint | null): string => (bytes === null ? '-' : humanSize(bytes));
const time = (ns: bigint): string => new Date(Number(ns / 1_000_000n)).toISOString();

function heldIn(node: NodeView, pool: string, kind: 'volumes' | 'snapshots', id: string) {
  const view = node.views.find(({ name }) => name === pool);
  return view?.[kind].find((held) => held.id === id) ?? null;
}

/** The state of the record, unless the pool contradicts it. */
function stateOf(
  node: NodeView,
  { pool, state }: VolumeRecord | SnapshotRecord,
  isHeld: boolean,
): string {
  const view = node.views.find(({ name }) => name === pool);
  if (view === undefined) return 'pool not configured';
  if (view.problem !== null && !isHeld) return 'pool away';
  return state === 'ready' && !isHeld ? 'lost' : state;
}

function volumes(node: NodeView): Listing {
  const columns: Column[] = [
    { title: 'ID' },
    { title: 'POOL' },
    { title: 'SIZE', right: true },
    { title: 'USED', right: true },
    { title: 'SNAPSHOTS', right: true },
    { title: 'STATE' },
    { title: 'DEVICE' },
    { title: 'NAME' },
    { title: 'MOUNTED AT' },
  ];
  const rows = node.catalogue.volumes.map((volume) => {
    const { volumeId, name, pool, sizeBytes } = volume;
    const held = heldIn(node, pool, 'volumes', volumeId);
    const attached = node.attached.find((device) => device.volumeId === volumeId) ?? null;
    const mountedAt = [...new Set(attached?.mounts.map(({ mountPoint }) => mountPoint) ?? [])];
    const taken = node.catalogue.snapshots.filter((each) => each.volumeId === volumeId).length;
    const state = stateOf(node, volume, held !== null);
    const json = {
      id: volumeId,
      name,
      pool,
      sizeBytes,
      usedBytes: held?.usedBytes ?? null,
      state,
      snapshots: taken,
      device: attached?.path ?? null,
      mountedAt,
      publishedAt: node.catalogue.publications
        .filter((each) => each.volumeId === volumeId)
        .map(({ targetPath }) => targetPath),
      created: time(volume.createdNs),
      sourceSnapshotId: volume.sourceSnapshotId,
      sourceVolumeId: volume.sourceVolumeId,
    };
    const cells = [volumeId, pool, size(sizeBytes), size(held?.usedBytes ?? null)];
    const rest = [String(taken), state, attached?.path ?? '-', name, mountedAt.join(' ') || '-'];
    return { json, cells: [...cells, ...rest] };
  });
  return { columns, rows };
}

function snapshots(node: NodeView): Listing {
  const columns: Column[] = [
    { title: 'ID' },
    { title: 'VOLUME' },
    { title: 'POOL' },
    { title: 'SIZE', right: true },
    { title: 'STATE' },
    { title: 'TAKEN' },
    { title: 'NAME' },
  ];
  const taken = node.catalogue.snapshots.map((snapshot) => {
    const { snapshotId, name, volumeId, pool, sizeBytes, groupSnapshotId } = snapshot;
    const held = heldIn(node, pool, 'snapshots', snapshotId);
    const state = stateOf(node, snapshot, held !== null);
    const at = time(snapshot.creationTimeNs);
    const json = {
      id: snapshotId,
      name,
      volumeId,
      pool,
      sizeBytes,
      state,
      groupSnapshotId,
      taken: at,
      reason: null,
    };
    const label = name ?? `(of group ${groupSnapshotId})`;
    return { json, cells: [snapshotId, volumeId, pool, size(sizeBytes), state, at, label] };
  });
  const retained = node.catalogue.retainedBases.map((base) => {
    const { snapshotId, volumeId, pool, sizeBytes, invalidated } = base;
    const state = invalidated === null ? 'retained base' : 'invalidated base';
    const at = time(base.creationTimeNs);
    const json = {
      id: snapshotId,
      name: null,
      volumeId,
      pool,
      sizeBytes,
      state,
      groupSnapshotId: null,
      taken: at,
      reason: invalidated?.reason ?? null,
    };
    const label = `(deleted ${time(base.deletedNs)})`;
    return { json, cells: [snapshotId, volumeId, pool, size(sizeBytes), state, at, label] };
  });
  return { columns, rows: [...taken, ...retained] };
}

function pools(node: NodeView): Listing {
  const columns: Column[] = [
    { title: 'POOL' },
    { title: 'KIND' },
    { title: 'SIZE', right: true },
    { title: 'FREE', right: true },
    { title: 'USED', right: true },
    { title: 'VOLUMES', right: true },
    { title: 'SNAPSHOTS', right: true },
    { title: 'DIRECTORY' },
    { title: 'PROBLEM' },
  ];
  const rows = node.views.map((view) => {
    const { name, kind, directory, totalBytes, freeBytes, problem, thin } = view;
    const used = usedPercent(view);
    const counts = [view.volumes.length, view.snapshots.length];
    const json = {
      name,
      kind,
      directory,
      uuid: view.uuid,
      totalBytes,
      freeBytes,
      usedPercent: used,
      volumes: counts[0],
      snapshots: counts[1],
      thin:
        thin === null
          ? null
          : {
              mode: thin.status.mode,
              needsCheck: thin.status.needsCheck,
              usedMetadataBlocks: thin.status.usedMetadataBlocks,
              totalMetadataBlocks: thin.status.totalMetadataBlocks,
              holdsMetadataSnapshot: thin.status.heldRoot !== null,
            },
      problem,
    };
    const cells = [
      name,
      kind,
      size(totalBytes),
      size(freeBytes),
      used === null ? '-' : `${used} %`,
    ];
    return { json, cells: [...cells, ...counts.map(String), directory, problem ?? '-'] };
  });
  return { columns, rows };
}
