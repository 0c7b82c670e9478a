/**
 * The job on one node: proves a changed-block list by rebuilding the second snapshot from a copy of the first and the
 * changed ranges alone, and then does the same by the commands `map`, `backup`, `verify` and `restore`, with a third
 * snapshot whose base is deleted before its backup.
 */
import { join } from 'node:path';
import { endCommands } from './clean-up.mjs';
import { runCommand } from './command.mjs';
import { compareFiles, copyRanges } from './images.mjs';
import { startPlugin } from './services.mjs';
import { detail, mib, say } from './steps.mjs';
import { change, fillVolume, makeVolume, publishRaw, snapshot } from './volumes.mjs';

export const VERDICT = {
  identical: 'the rebuilt image is identical to snapshot B, and the restored one to snapshot C, byte for byte.',
  different: 'the rebuilt or the restored image differs from its snapshot.',
};

/** Whether the images are the same in every byte. */
export async function run(session) {
  const csi = await start(session);
  const volume = await makeVolume(session, csi);
  const tree = join(session.place, 'data');
  await fillVolume(session, tree);
  const a = await snapshot(session, csi, volume, 'A');
  await change(tree, 'new');
  const b = await snapshot(session, csi, volume, 'B');

  say('GetMetadataAllocated(A)');
  const allocated = await csi.metadata('GetMetadataAllocated', { snapshot_id: a.snapshot_id });
  summarise(allocated);
  say('GetMetadataDelta(A, B)');
  const delta = await csi.metadata('GetMetadataDelta', {
    base_snapshot_id: a.snapshot_id,
    target_snapshot_id: b.snapshot_id,
  });
  summarise(delta);
  if (!(await rebuild(session, csi, { a, b, allocated, delta }))) return false;
  return backUp(session, csi, { volume, tree, a, b });
}

async function start(session) {
  const { backend, place } = session;
  say(`starting the plugin, backend ${backend}, in ${place}`);
  const env = backend === 'thin' ? { BLOCKDELTA_POOLS: `default=thin:${join(place, 'pool')}` } : {};
  const { csi, endpoint, version } = await startPlugin(session, { directory: place, env });
  session.endpoint = endpoint;
  detail(`${version} is ready on ${endpoint}`);
  return csi;
}

function summarise(answer) {
  const share = (100 * Number(answer.bytes)) / Number(answer.capacity);
  detail(
    `${answer.ranges.length} ranges, ${mib(answer.bytes)} (${share.toFixed(2)} % of the volume), ` +
      `${(answer.ms / 1000).toFixed(3)} s, first message after ${answer.firstMessageMs.toFixed(1)} ms`,
  );
}

async function rebuild(session, csi, { a, b, allocated, delta }) {
  const devices = {};
  for (const [label, source] of [['a', a], ['b', b]]) {
    devices[label] = await publish(session, csi, label, source);
  }
  const image = join(session.place, 'rebuilt.img');
  say('full backup: copying all of A');
  const size = BigInt(allocated.capacity);
  await copyRanges(devices.a, image, [{ offset: 0n, size }], size);
  say('incremental backup: copying only the changed ranges from B over it');
  await copyRanges(devices.b, image, delta.ranges, size);
  detail(`${mib(delta.bytes)} read instead of ${mib(size)}`);
  say('comparing the rebuilt image with all of B');
  const different = await compareFiles(image, devices.b, size);
  if (different !== null) detail(`first difference at byte ${different}`);
  return different === null;
}

/** By the commands: a full backup, an incremental one, another one whose base is deleted, a restored image. */
async function backUp(session, csi, { volume, tree, a, b }) {
  const [idA, idB] = [a.snapshot_id, b.snapshot_id];
  const directory = join(session.place, 'backups');
  await command(session, 'map', idB, '--base', idA);
  await command(session, 'backup', idA, '--to', directory, '--compress', 'zstd');
  await command(session, 'backup', idB, '--to', directory, '--compress', 'zstd');
  await change(tree, 'newer');
  say('deleting snapshot B, which stays the base of a delta');
  await csi.call('Controller', 'DeleteSnapshot', { snapshot_id: idB });
  const c = await snapshot(session, csi, volume, 'C');
  const idC = c.snapshot_id;
  const printed = await command(session, 'backup', idC, '--to', directory, '--compress', 'zstd', '--base', idB);
  if (!printed.includes(`delta from ${idB}`)) throw new Error('the backup of C has all of C, not what changed since B');
  await command(session, 'backups', directory);
  await command(session, 'verify', directory, '--against', idC);
  const image = join(session.place, 'restored.img');
  await command(session, 'restore', directory, '--snapshot', idC, '--to', image);
  const device = await publish(session, csi, 'c', c);
  say('comparing the restored image with all of C');
  const different = await compareFiles(image, device, BigInt(session.volumeBytes));
  if (different !== null) detail(`first difference at byte ${different}`);
  return different === null;
}

async function command(session, ...args) {
  // Snapshots by their letters, because ids are long.
  say(`blockdelta ${args.map((word) => session.labels[word] ?? word).join(' ')}`);
  return runCommand(session, args, detail);
}

async function publish(session, csi, label, source) {
  say(`publishing snapshot ${label.toUpperCase()} as a raw block volume`);
  return (await publishRaw(session, csi, { name: `raw-${label}`, source })).path;
}

/** For --keep. */
export function nextCommands(session) {
  const { place, snapshots, services } = session;
  const [{ child, logPath }] = services;
  const cli = `node ${session.program}`;
  return `
The plugin is still running (process ${child.pid}); its log is ${logPath}.
Try:
  export CSI_ENDPOINT=${session.endpoint} BLOCKDELTA_STATE_DIR=${join(place, 'state')}
  ${cli} allocated ${snapshots[0]} --summary
  ${cli} delta ${snapshots[0]} ${snapshots[2]} --format ndjson | head
  ${cli} map ${snapshots[2]} --base ${snapshots[0]}
  ${cli} backups ${join(place, 'backups')}
  qemu-img info --backing-chain $(find ${join(place, 'backups')} -name '*.qcow2' | sort | tail -1)
  ls ${join(place, 'data')}
${endCommands(session)}`;
}
