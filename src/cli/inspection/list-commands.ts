/** `blockdelta volumes`, `snapshots`, `replicas` and `pools`: what this node holds, as a table or as JSON. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { humanSize } from '../../base/human-size.js';
import { settingsReader } from '../../base/settings/reader.js';
import { parseDriverIdentity, SERVICE_SETTINGS } from '../../base/settings/service-settings.js';
import type { SnapshotRecord, VolumeRecord } from '../../driver/catalogue/records.js';
import { FILE_SYSTEMS } from '../../driver/host/file-systems.js';
import { exclusiveSpace } from '../../driver/inspection/exclusive-space.js';
import { inspectNode, type NodeView, nodeSettings, usedPercent } from '../../driver/inspection/node-view.js';
import { bindsOf } from '../../driver/inspection/orphans.js';
import { addDeleteCopies, verifyCopies } from '../kept-copies.js';
import { print, runToExitCode } from '../output.js';
import { parsePath } from '../paths.js';
import { ROUTER_ENDPOINT_HELP } from '../router-client.js';
import { persistentVolume } from './persistent-volume.js';
import { formatJson, formatTable } from './tables.js';

export const STATE_HELP = "the plugin's state directory (default: BLOCKDELTA_STATE_DIR)";

interface ListOptions {
  stateDir?: string;
  json: boolean;
}

/** What each object holds alone; null if nobody asked. */
type Exclusive = ReadonlyMap<string, bigint> | null;

const EXCLUSIVE_HELP = 'also what each holds alone, which its deletion gives back; reads the maps of all of them';
const NUMBERS = ['SIZE', 'USED', 'EXCLUSIVE', 'FREE', 'VOLUMES', 'SNAPSHOTS', 'REPLICAS'];

/** A list, with each row as JSON and as the cells of a table. */
interface Listing {
  titles: readonly string[];
  rows: readonly { json: object; cells: readonly string[] }[];
}

interface VolumesOptions extends ListOptions {
  exclusive: boolean;
  persistentVolume?: string;
  claim?: { namespace: string; name: string };
  fsType?: string;
  force: boolean;
}

export function addVolumesCommand(program: Command): void {
  const command = addList(program, 'volumes', 'list the volumes of this node')
    .option('--exclusive', EXCLUSIVE_HELP, false)
    .option(
      '--persistent-volume <id>',
      'print the PersistentVolume by which --claim gets this volume, as JSON for kubectl',
    )
    .option('--claim <claim>', 'the claim that may have it, as namespace/name', parseClaim)
    .addOption(
      new Option('--fs-type <type>', 'the file system on it (default: as the volume was made)').choices(FILE_SYSTEMS),
    )
    .option('--force', 'also if a provisioner made the volume: no other PersistentVolume may name it', false);
  command.action(async (options: VolumesOptions) => {
    const { stateDir, json, exclusive, persistentVolume: volumeId, claim, fsType, force } = options;
    if ((volumeId === undefined) !== (claim === undefined)) {
      command.error('error: --persistent-volume and --claim go together: a PersistentVolume is for one claim');
    }
    process.exitCode = await runToExitCode(async () => {
      const node = await inspectNode(nodeSettings(stateDir));
      if (volumeId === undefined || claim === undefined) {
        return print(textOf(volumes(node, exclusive ? await exclusiveSpace(node) : null), json));
      }
      const identity = parseDriverIdentity(settingsReader(SERVICE_SETTINGS, process.env));
      const request = { volumeId, claim, fsType: fsType ?? null, force, ...identity };
      await print(`${JSON.stringify(persistentVolume(node.catalogue, request), null, 2)}\n`);
    });
  });
}

function parseClaim(value: string): { namespace: string; name: string } {
  const [, namespace, name] = /^([a-z0-9-]+)\/([a-z0-9.-]+)$/.exec(value) ?? [];
  if (namespace === undefined || name === undefined) throw new InvalidArgumentError('It must be like namespace/name.');
  return { namespace, name };
}

export function addSnapshotsCommand(program: Command): void {
  addList(program, 'snapshots', 'list the snapshots and retained bases of this node')
    .option('--exclusive', EXCLUSIVE_HELP, false)
    .action(({ stateDir, json, exclusive }: ListOptions & { exclusive: boolean }) =>
      printList(stateDir, json, async (node) => snapshots(node, exclusive ? await exclusiveSpace(node) : null)),
    );
}

interface ReplicasOptions extends ListOptions {
  verify?: string | true;
}

export function addReplicasCommand(program: Command): void {
  const command = addList(program, 'replicas', 'list the copies on this node of snapshots of other nodes')
    .option('--verify [snapshot]', 'instead, have a router compare copies of all nodes with their snapshots')
    .option('--endpoint <endpoint>', `with --verify: ${ROUTER_ENDPOINT_HELP}`);
  command.action(async ({ verify, stateDir, json }: ReplicasOptions) => {
    if (verify === undefined) return printList(stateDir, json, replicas);
    process.exitCode = await verifyCopies(command, verify === true ? '' : verify, json);
  });
  addDeleteCopies(command);
}

export function addPoolsCommand(program: Command): void {
  addList(program, 'pools', 'list the pools of this node with their space').action(({ stateDir, json }: ListOptions) =>
    printList(stateDir, json, pools),
  );
}

function addList(program: Command, name: string, description: string): Command {
  return program
    .command(name)
    .description(`${description}; needs no running plugin and disturbs none`)
    .option('--state-dir <directory>', STATE_HELP, parsePath)
    .option('--json', 'print JSON; sizes are strings, in bytes', false);
}

async function printList(
  stateDir: string | undefined,
  json: boolean,
  list: (node: NodeView) => Listing | Promise<Listing>,
): Promise<void> {
  process.exitCode = await runToExitCode(async () => {
    await print(textOf(await list(await inspectNode(nodeSettings(stateDir))), json));
  });
}

function textOf({ titles, rows }: Listing, json: boolean): string {
  if (json) return formatJson(rows.map((row) => row.json));
  return formatTable(
    titles,
    NUMBERS,
    rows.map((row) => row.cells),
  );
}

const size = (bytes: bigint | null): string => (bytes === null ? '-' : humanSize(bytes));
const time = (ns: bigint): string => new Date(Number(ns / 1_000_000n)).toISOString();

const exclusiveTitle = (exclusive: Exclusive) => (exclusive === null ? [] : ['EXCLUSIVE']);
const exclusiveCell = (exclusive: Exclusive, id: string) =>
  exclusive === null ? [] : [size(exclusive.get(id) ?? null)];
const exclusiveJson = (exclusive: Exclusive, id: string) =>
  exclusive === null ? {} : { exclusiveBytes: exclusive.get(id) ?? null };

function heldIn(node: NodeView, pool: string, kind: 'volumes' | 'snapshots', id: string) {
  const view = node.views.find(({ name }) => name === pool);
  return view?.[kind].find((held) => held.id === id) ?? null;
}

/** The state of the record, unless the pool contradicts it. */
function stateOf(node: NodeView, { pool, state }: VolumeRecord | SnapshotRecord, isHeld: boolean): string {
  const view = node.views.find(({ name }) => name === pool);
  if (view === undefined) return 'pool not configured';
  if (view.problem !== null && !isHeld) return 'pool away';
  return state === 'ready' && !isHeld ? 'lost' : state;
}

function volumes(node: NodeView, exclusive: Exclusive): Listing {
  const titles = [
    'ID',
    'POOL',
    'SIZE',
    'USED',
    ...exclusiveTitle(exclusive),
    'SNAPSHOTS',
    'STATE',
    'DEVICE',
    'NAME',
    'MOUNTED AT',
  ];
  const rows = node.catalogue.volumes.map((volume) => {
    const { volumeId, name, pool, sizeBytes } = volume;
    const held = heldIn(node, pool, 'volumes', volumeId);
    const attached = node.attached.find((device) => device.volumeId === volumeId) ?? null;
    const mounts = attached === null ? [] : [...attached.mounts, ...bindsOf(node, attached.path)];
    const mountedAt = [...new Set(mounts.map(({ mountPoint }) => mountPoint))];
    const taken = node.catalogue.snapshots.filter((each) => each.volumeId === volumeId).length;
    const copied = node.catalogue.copied.get(volumeId);
    const supersededBy = copied?.supersededBy ?? null;
    const replaced = supersededBy !== null ? 'superseded' : copied?.isCordoned === true ? 'cordoned' : null;
    const restored = node.catalogue.halfRestored.has(volumeId) ? 'half restored' : null;
    const state = replaced ?? restored ?? stateOf(node, volume, held !== null);
    const json = {
      id: volumeId,
      name,
      pool,
      sizeBytes,
      usedBytes: held?.usedBytes ?? null,
      ...exclusiveJson(exclusive, volumeId),
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
      supersededBy,
    };
    const cells = [volumeId, pool, size(sizeBytes), size(held?.usedBytes ?? null)];
    const rest = [
      ...exclusiveCell(exclusive, volumeId),
      String(taken),
      state,
      attached?.path ?? '-',
      name,
      mountedAt.join(' ') || '-',
    ];
    return { json, cells: [...cells, ...rest] };
  });
  return { titles, rows };
}

function snapshots(node: NodeView, exclusive: Exclusive): Listing {
  const titles = ['ID', 'VOLUME', 'POOL', 'SIZE', ...exclusiveTitle(exclusive), 'STATE', 'TAKEN', 'NAME'];
  const taken = node.catalogue.snapshots.map((snapshot) => {
    const { snapshotId, name, pool, groupSnapshotId } = snapshot;
    const found = stateOf(node, snapshot, heldIn(node, pool, 'snapshots', snapshotId) !== null);
    const state = found === 'ready' && snapshot.awaitsCopy ? 'awaits copy' : found;
    const label = name ?? `(of group ${groupSnapshotId})`;
    return snapshotRow({ ...snapshot, reason: null }, state, label, exclusive);
  });
  const retained = node.catalogue.retainedBases.map((base) => {
    const { invalidated } = base;
    const state = invalidated === null ? 'retained base' : 'invalidated base';
    const reason = invalidated?.reason ?? null;
    const shown = { ...base, name: null, groupSnapshotId: null, reason };
    return snapshotRow(shown, state, `(deleted ${time(base.deletedNs)})`, exclusive);
  });
  return { titles, rows: [...taken, ...retained] };
}

interface ShownSnapshot
  extends Pick<SnapshotRecord, 'snapshotId' | 'volumeId' | 'pool' | 'sizeBytes' | 'creationTimeNs'> {
  name: string | null;
  groupSnapshotId: string | null;
  /** Why the retained base is invalid; null if it is valid, or if the snapshot exists. */
  reason: string | null;
}

function snapshotRow(snapshot: ShownSnapshot, state: string, label: string, exclusive: Exclusive) {
  const { snapshotId: id, name, volumeId, pool, sizeBytes, groupSnapshotId, reason } = snapshot;
  const taken = time(snapshot.creationTimeNs);
  return {
    json: {
      id,
      name,
      volumeId,
      pool,
      sizeBytes,
      ...exclusiveJson(exclusive, id),
      state,
      groupSnapshotId,
      taken,
      reason,
    },
    cells: [id, volumeId, pool, size(sizeBytes), ...exclusiveCell(exclusive, id), state, taken, label],
  };
}

function replicas({ catalogue }: NodeView): Listing {
  const titles = ['ID', 'VOLUME', 'POOL', 'SIZE', 'STATE', 'TAKEN', 'LAST USED', 'FROM'];
  const rows = catalogue.replicas.map((replica) => {
    const { snapshotId: id, volumeId, pool, sizeBytes, baseId, nextOffset, promiseId } = replica;
    const state = nextOffset !== null ? 'unfinished' : promiseId === null ? 'complete' : 'promised';
    const [taken, used] = [time(replica.creationTimeNs), time(replica.usedNs)];
    const json = { id, volumeId, pool, sizeBytes, state, taken, used, baseId, durableBytes: nextOffset ?? sizeBytes };
    return { json, cells: [id, volumeId, pool, size(sizeBytes), state, taken, used, baseId ?? '-'] };
  });
  return { titles, rows };
}

function pools(node: NodeView): Listing {
  const titles = ['POOL', 'KIND', 'SIZE', 'FREE', 'USED', 'VOLUMES', 'SNAPSHOTS', 'REPLICAS', 'DIRECTORY', 'PROBLEM'];
  const rows = node.views.map((view) => {
    const { name, kind, directory, totalBytes, freeBytes, problem, thin } = view;
    const used = usedPercent(view);
    const replicated = node.catalogue.replicas.filter(({ pool }) => pool === name).length;
    const counts = [view.volumes.length, view.snapshots.length, replicated];
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
      replicas: counts[2],
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
    const cells = [name, kind, size(totalBytes), size(freeBytes), used === null ? '-' : `${used} %`];
    return { json, cells: [...cells, ...counts.map(String), directory, problem ?? '-'] };
  });
  return { titles, rows };
}
