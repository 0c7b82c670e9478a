/**
 * blockdelta's main job, done as a backup tool would do it, against a real plugin over its socket:
 * fill a volume, snapshot it, change it, snapshot it again, ask what changed, and prove the answer by
 * rebuilding the second snapshot from a copy of the first and the changed ranges alone. Then the same by the commands
 * `map`, `backup`, `verify` and `restore`, with a third snapshot whose base is deleted before its backup.
 *
 * Exits 0 only if the rebuilt and the restored image are the same in every byte.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, open, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { removalCommand, removePlace } from './quickstart-job/clean-up.mjs';
import { connect } from './quickstart-job/client.mjs';
import { runCommand } from './quickstart-job/command.mjs';
import { compareFiles, copyRanges } from './quickstart-job/images.mjs';
import { changeTree, copyTree } from './quickstart-job/tree.mjs';

const HELP = `scripts/quickstart [--backend reflink|thin] [--small] [--keep] [--program PATH]

  Starts blockdelta on a pool of its own in a temporary directory, makes a 1 GiB volume, fills,
  snapshots and changes it, streams the changed-block list, rebuilds the second snapshot from it,
  compares the images byte by byte, makes and restores incremental backups by blockdelta's own
  commands, and cleans up.

  --backend thin   on a thin pool instead of cloned files; in a virtual machine (x86-64 Debian) where
                   the kernel has no device-mapper
  --small          a volume of 128 MiB, for slow machines
  --keep           leave the plugin running afterwards and print what to try next
  --program PATH   the plugin to run, such as node_modules/blockdelta/dist/main.js of an installed one;
                   otherwise this checkout's
`;
const MIB = 1024 ** 2;
const NORMAL = { volumeBytes: 1024 * MIB, tree: { bytes: 300 * MIB, files: 1_000_000 } };
const SMALL = { volumeBytes: 128 * MIB, tree: { bytes: 16 * MIB, files: 400 } };
const BACKENDS = ['reflink', 'thin'];
const repository = resolve(dirname(fileURLToPath(import.meta.url)), '..');

let step = 0;
/** Set by the first signal: the step that runs comes to its end, and no other one begins. */
let interruption = null;
const headline = (text) => console.log(`[${String(++step).padStart(2)}] ${text}`);
/** Begins a step of the job. */
const say = (text) => {
  if (interruption !== null) throw interruption;
  headline(text);
};
const detail = (text) => console.log(`       ${text}`);
const mib = (bytes) => `${(Number(bytes) / MIB).toFixed(1)} MiB`;

async function main() {
  const { values } = parseArgs({
    options: {
      backend: { type: 'string', default: 'reflink' },
      small: { type: 'boolean' },
      keep: { type: 'boolean' },
      program: { type: 'string', default: join(repository, 'dist/main.js') },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) return console.log(HELP);
  if (!BACKENDS.includes(values.backend)) throw new Error(`--backend is one of ${BACKENDS.join(', ')}`);
  heedSignals();
  const place = await mkdtemp(join(tmpdir(), 'blockdelta-quickstart-'));
  const { backend, small, keep, program } = values;
  const session = { place, backend, program, undo: [], keep: keep === true, ...(small ? SMALL : NORMAL) };
  let identical = false;
  try {
    identical = await run(session);
    // A signal during the last step.
    if (interruption !== null) throw interruption;
  } finally {
    if (session.keep && identical && interruption === null) printNextCommands(session);
    else await cleanUp(session);
  }
  console.log(
    identical
      ? '\nVERDICT: the rebuilt image is identical to snapshot B, and the restored one to snapshot C, byte for byte.'
      : '\nVERDICT: MISMATCH: the rebuilt or the restored image differs from its snapshot.',
  );
  process.exitCode = identical ? 0 : 1;
}

/**
 * A clean-up beside a running step would miss what that step makes, so it waits for the step's
 * end. The same signal once more ends the process as it is, for those who do not want to wait.
 */
function heedSignals() {
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, () => {
      interruption ??= new Error(`interrupted by ${signal}`);
      detail(`${signal}: cleaning up after this step`);
    });
  }
}

async function run(session) {
  const csi = await startPlugin(session);
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

async function change(tree, name) {
  say('changing the tree: append, overwrite in place, delete, new files');
  const changes = await changeTree(tree, name);
  detail(Object.entries(changes).map(([kind, count]) => `${count} ${kind}`).join(', '));
}

async function startPlugin(session) {
  say(`starting the plugin, backend ${session.backend}, in ${session.place}`);
  session.endpoint = `unix://${join(session.place, 'csi.sock')}`;
  const log = await open(join(session.place, 'plugin.log'), 'a');
  const child = spawn(process.execPath, [session.program, 'serve'], {
    env: {
      PATH: process.env.PATH,
      CSI_ENDPOINT: session.endpoint,
      BLOCKDELTA_STATE_DIR: join(session.place, 'state'),
      BLOCKDELTA_EMBEDDED_POOL_SIZE: '8Gi',
      // Its callers are in its mount namespace.
      BLOCKDELTA_MOUNT_PROPAGATION: 'off',
      ...(session.backend === 'thin' ? { BLOCKDELTA_POOLS: `default=thin:${join(session.place, 'pool')}` } : {}),
    },
    stdio: ['ignore', 'ignore', log.fd],
    detached: true,
  });
  await log.close();
  session.child = child;
  const csi = connect(session.endpoint);
  session.undo.push(async () => {
    csi.close();
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  });
  await csi.waitReady(child).catch(async (error) => {
    throw new Error(`${error.message}\n${await readFile(join(session.place, 'plugin.log'), 'utf8')}`);
  });
  const info = await csi.call('Identity', 'GetPluginInfo', {});
  detail(`${info.name} ${info.vendor_version} is ready on ${session.endpoint}`);
  return csi;
}

async function makeVolume(session, csi) {
  say(`creating a file system volume of ${mib(session.volumeBytes)}, staging and publishing it`);
  const capability = { mount: { fs_type: 'ext4' }, access_mode: { mode: 'SINGLE_NODE_WRITER' } };
  const volume = await csi.createVolume(session, { name: 'data', capability, bytes: session.volumeBytes });
  await csi.publish(session, { volume, capability, name: 'data' });
  detail(`volume ${volume.volume_id} at ${join(session.place, 'data')}`);
  return volume;
}

async function fillVolume({ tree: limits }, tree) {
  say(`copying ${mib(limits.bytes)} of this machine's /usr into it, ${limits.files} files at most`);
  const copied = await copyTree('/usr', tree, limits);
  detail(`${copied.files} files, ${mib(copied.bytes)}`);
}

async function snapshot(session, csi, volume, label) {
  say(`snapshot ${label}`);
  const started = performance.now();
  const made = await csi.createSnapshot(session, { volume, name: `snapshot-${label}` });
  session.labels = { ...session.labels, [made.snapshot_id]: label };
  detail(`${made.snapshot_id} in ${(performance.now() - started).toFixed(0)} ms`);
  return made;
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
    devices[label] = await publishRaw(session, csi, label, source);
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
  await command(session, 'backup', idA, '--to', directory);
  await command(session, 'backup', idB, '--to', directory);
  await change(tree, 'newer');
  say('deleting snapshot B, which stays the base of a delta');
  await csi.call('Controller', 'DeleteSnapshot', { snapshot_id: idB });
  const c = await snapshot(session, csi, volume, 'C');
  const idC = c.snapshot_id;
  const printed = await command(session, 'backup', idC, '--to', directory, '--base', idB);
  if (!printed.includes(`delta from ${idB}`)) throw new Error('the backup of C has all of C, not what changed since B');
  await command(session, 'verify', directory, '--against', idC);
  const image = join(session.place, 'restored.img');
  await command(session, 'restore', directory, '--snapshot', idC, '--to', image);
  const device = await publishRaw(session, csi, 'c', c);
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

async function publishRaw(session, csi, label, source) {
  say(`publishing snapshot ${label.toUpperCase()} as a raw block volume`);
  const capability = { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } };
  const name = `raw-${label}`;
  const volume = await csi.createVolume(session, { name, capability, bytes: session.volumeBytes, source });
  await csi.publish(session, { volume, capability, name, readonly: true });
  return join(session.place, name);
}

function printNextCommands(session) {
  const cli = `node ${session.program}`;
  session.child.unref();
  console.log(`
The plugin is still running (process ${session.child.pid}); its log is ${join(session.place, 'plugin.log')}.
Try:
  export CSI_ENDPOINT=${session.endpoint} BLOCKDELTA_STATE_DIR=${join(session.place, 'state')}
  ${cli} allocated ${session.snapshots[0]} --summary
  ${cli} delta ${session.snapshots[0]} ${session.snapshots[2]} --format ndjson | head
  ${cli} map ${session.snapshots[2]} --base ${session.snapshots[0]}
  ${cli} backups ${join(session.place, 'backups')}
  qemu-img info --backing-chain $(find ${join(session.place, 'backups')} -name '*.qcow2' | sort | tail -1)
  ls ${join(session.place, 'data')}
To end it:
  umount ${['data', 'raw-a', 'raw-b', 'raw-c'].map((name) => join(session.place, name)).join(' ')}
  umount ${join(session.place, 'staging-data')} ${['raw-a', 'raw-b', 'raw-c'].map((name) => join(session.place, `staging-${name}`, 'device')).join(' ')}
  ${detachCommand(session)}
  kill ${session.child.pid} && tail --pid=${session.child.pid} -f /dev/null   # unmounts and detaches the pool
  ${removalCommand(session.place)}`);
}

/** Detaches all volumes. */
function detachCommand({ backend, place }) {
  if (backend === 'thin') return 'cat /sys/block/dm-*/dm/name | grep ^blockdelta-vol- | xargs -r -n 1 dmsetup remove';
  return `losetup -n -O NAME,BACK-FILE | awk '$2 ~ "^${place}/state/.*/volumes/" {print $1}' | xargs -r losetup -d`;
}

/** Undoes everything in the opposite order. A step that fails is reported and does not stop the others. */
async function cleanUp(session) {
  headline('cleaning up');
  for (const undo of session.undo.reverse()) {
    await undo().catch((error) => {
      detail(`clean-up: ${error.details ?? error.message}`);
      process.exitCode = 1;
    });
  }
  await removePlace(session.place);
}

main().catch((error) => {
  console.error(`\nquickstart failed: ${error.details ?? error.message}`);
  process.exitCode = 1;
});
