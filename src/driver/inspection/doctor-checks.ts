/**
 * The checks of `blockdelta doctor`: each check returns what it examined and what it found wrong, with the remedy.
 * Changes nothing. Knows nothing of how a report is printed.
 */
import { accessSync, constants, existsSync, readdirSync, statfsSync } from 'node:fs';
import { hostname, release } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { nodeUri } from '../../base/csi/routed-calls.js';
import { messageOf } from '../../base/errors.js';
import { humanSize } from '../../base/human-size.js';
import { certificateEnds, daysLeft, endInWords, WARNED_DAYS } from '../../base/listening/certificate-end.js';
import { TlsFiles } from '../../base/listening/tls-files.js';
import { missingPrograms } from '../../base/process/exec.js';
import { settingsReader } from '../../base/settings/reader.js';
import { parseDriverIdentity, SERVICE_SETTINGS } from '../../base/settings/service-settings.js';
import { parseListen } from '../../base/settings/tls.js';
import type { MountEntry } from '../../base/system/mountinfo.js';
import { ownDirectory } from '../../base/system/own-files.js';
import { USED_PERCENT } from '../backends/pool-levels.js';
import { imagePlace } from '../backends/reflink/embedded-pool.js';
import { SETTINGS, unknownNames } from '../config/config.js';
import { describeHolders, isHeldExclusively, mountPointsAnywhere } from '../host/device-holders.js';
import { askFileSystem } from '../host/file-system-answer.js';
import { hasStoppedWriting } from '../host/file-system-errors.js';
import { CAPABILITY_USES, type Capability, heldCapabilities } from '../host/process-capabilities.js';
import { VOLATILE_FILE_SYSTEMS } from '../host/volatile-file-systems.js';
import { onThisThread } from '../native/this-thread.js';
import { foundObjects } from '../volumes/unknown-objects.js';
import { type NodeView, type PoolView, textOf, usedPercent } from './node-view.js';
import { differencesIn, findOrphans, withoutRow } from './orphans.js';

export interface Finding {
  found: string;
  remedy: string;
}

export interface Check {
  /** The subject, in a few words. */
  name: string;
  run(context: DoctorContext): Promise<CheckResult> | CheckResult;
}

export interface CheckResult {
  /** What was examined; if nothing was, why. */
  detail: string;
  /** Nothing was examined although the settings use it, so that nobody knows whether it is well. */
  skipped?: true;
  findings: Finding[];
}

export interface DoctorContext {
  env: Readonly<Record<string, string | undefined>>;
  stateDirectory: string;
  /** The socket's path; null if none is given. */
  socketPath: string | null;
  usesThin: boolean;
  /** The process that holds the catalogue, 0 if its id is unknown; null if no plugin runs, or none is visible here. */
  plugin: number | null;
  /** Null if the catalogue or the devices cannot be read, which the check of the catalogue reports. */
  node: NodeView | null;
  catalogueProblem: string | null;
}

/** The plugin needs FIEMAP and the loop driver's LOOP_CONFIGURE; on btrfs, deltas need 6.1. */
const KERNEL_MINIMUM = [5, 8] as const;
const BTRFS_MINIMUM = [6, 1] as const;
/** Landlock binds the port that a program connects to. */
const LANDLOCK_NETWORK = [6, 7] as const;
const STATE_FREE_BYTES = 64n << 20n;
const UDEV_RULE = '56-blockdelta.rules';
const UDEV_DIRECTORIES = ['/etc/udev/rules.d', '/run/udev/rules.d', '/usr/lib/udev/rules.d', '/lib/udev/rules.d'];

export const DOCTOR_CHECKS: readonly Check[] = [
  { name: 'kernel', run: kernel },
  { name: 'capabilities', run: capabilities },
  { name: 'programs', run: programs },
  { name: 'loop driver', run: loopDriver },
  { name: 'device-mapper', run: deviceMapper },
  { name: 'cgroup', run: cgroup },
  { name: 'udev rule', run: udevRule },
  { name: 'settings', run: settings },
  { name: 'certificates', run: certificates },
  { name: 'state directory', run: stateDirectory },
  { name: 'catalogue', run: catalogue },
  { name: 'pools', run: pools },
  { name: 'contents', run: contents },
  { name: 'mounts', run: mounts },
  { name: 'freezes', run: freezes },
  { name: 'orphans', run: orphans },
];

const NO_NODE: CheckResult = {
  detail: 'the catalogue or the devices cannot be read, as the check of the catalogue says',
  skipped: true,
  findings: [],
};
const nothing = (detail: string): CheckResult => ({ detail, findings: [] });
const one = (detail: string, finding: Finding): CheckResult => ({ detail, findings: [finding] });

function isOlder([major, minor]: readonly [number, number]): boolean {
  const [found = 0, minorFound = 0] = release().split('.').map(Number);
  return found < major || (found === major && minorFound < minor);
}

function kernel(context: DoctorContext): CheckResult {
  const { node } = context;
  const findings: Finding[] = [];
  if (passesSnapshots(context) && isOlder(LANDLOCK_NETWORK)) {
    findings.push({
      found: `the kernel ${release()} is older than ${LANDLOCK_NETWORK.join('.')}: a program that copies a snapshot from another node could connect to any port`,
      remedy:
        'install a newer kernel, or let a firewall allow the ports of BLOCKDELTA_TRANSFER_PORTS alone between the nodes',
    });
  }
  if (isOlder(KERNEL_MINIMUM)) {
    findings.push({
      found: `the kernel ${release()} is older than ${KERNEL_MINIMUM.join('.')}`,
      remedy: 'install a newer kernel',
    });
  }
  const known = textOf('/proc/filesystems') ?? '';
  const modules = `/lib/modules/${release()}`;
  const builtin = `${textOf(join(modules, 'modules.builtin')) ?? ''}\n${textOf(join(modules, 'modules.dep')) ?? ''}`;
  for (const type of ['ext4', 'xfs', 'btrfs']) {
    if (new RegExp(`\\b${type}$`, 'm').test(known) || builtin.includes(`/${type}.ko`)) continue;
    findings.push({
      found: `the kernel does not know the file system ${type} at the moment`,
      remedy: `load its module on the host (modprobe ${type}); without it, volumes of that type cannot be mounted`,
    });
  }
  const onBtrfs = node?.views.some(({ root }) => isType(root, 0x9123683en)) ?? false;
  if (onBtrfs && isOlder(BTRFS_MINIMUM)) {
    findings.push({
      found: `a pool is on btrfs, and the kernel ${release()} is older than ${BTRFS_MINIMUM.join('.')}`,
      remedy: 'install a newer kernel: deltas are refused on this one',
    });
  }
  return { detail: release(), findings };
}

function isType(path: string, type: bigint): boolean {
  try {
    return statfsSync(path, { bigint: true }).type === type;
  } catch {
    return false;
  }
}

async function capabilities({ plugin }: DoctorContext): Promise<CheckResult> {
  const isOfPlugin = plugin !== null && plugin > 0;
  const held: readonly Capability[] = await heldCapabilities(isOfPlugin ? String(plugin) : 'self');
  const whose = isOfPlugin ? `the plugin (process ${plugin})` : 'this command, as no plugin is seen';
  const findings = Object.entries(CAPABILITY_USES).flatMap(([name, use]) => {
    const isHeld =
      held.includes(name as Capability) || (name === 'CAP_DAC_READ_SEARCH' && held.includes('CAP_DAC_OVERRIDE'));
    if (isHeld) return [];
    return [
      {
        found: `${isOfPlugin ? 'the plugin' : 'this command'} lacks ${name}, which the plugin needs to ${use}`,
        remedy: 'grant it in the unit or the container, and start it again (docs/limits.md, "The plugin")',
      },
    ];
  });
  return { detail: `of ${whose}`, findings };
}

const passesSnapshots = ({ env }: DoctorContext): boolean => Boolean(env['BLOCKDELTA_TRANSFER_PORTS']);

async function programs(context: DoctorContext): Promise<CheckResult> {
  const missing = await missingPrograms(passesSnapshots(context) ? ['nbdkit', 'nbdcopy', 'nbdinfo'] : []);
  return {
    detail: 'mkfs, fsck, mount and others',
    findings: missing.map(({ program, package: debian, optional }) => ({
      found: `the program ${program} is not installed${optional ? '; btrfs volumes need it' : ''}`,
      remedy: `install the Debian package ${debian} where the plugin runs`,
    })),
  };
}

function loopDriver(): CheckResult {
  const path = '/dev/loop-control';
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return nothing(path);
  } catch {
    const remedy = "load the module loop on the host, and give the plugin the host's /dev";
    return one(path, { found: `${path} cannot be used`, remedy });
  }
}

async function deviceMapper({ usesThin }: DoctorContext): Promise<CheckResult> {
  if (!usesThin) return nothing('not needed: no thin pool is configured');
  const found = await withoutThinPools();
  if (found === null) return nothing('thin-pool');
  const remedy = "load the module dm_thin_pool on the host, and give the plugin the host's /dev";
  return one('thin-pool', { found, remedy });
}

/** Why there can be no thin pools; null if there can be. */
async function withoutThinPools(): Promise<string | null> {
  try {
    await onThisThread.run('dmVersion', {});
    const { present } = await onThisThread.run('dmHasTarget', { type: 'thin-pool' });
    return present ? null : 'the kernel has no thin-pool target';
  } catch (thrown) {
    return `device-mapper cannot be used: ${messageOf(thrown)}`;
  }
}

function cgroup({ env }: DoctorContext): CheckResult {
  const root = env['BLOCKDELTA_CGROUP_ROOT'] || SETTINGS.BLOCKDELTA_CGROUP_ROOT.fallback;
  const controllers = textOf(join(root, 'cgroup.controllers'));
  if (controllers?.split(' ').includes('io') === true) return nothing(`${root}, with the io controller`);
  const why = controllers === null ? 'is not a cgroup v2 hierarchy' : 'has no io controller';
  return one(root, {
    found: `${root} ${why}: volumes with read or write limits cannot be published`,
    remedy: "mount the host's cgroup v2 tree and name it with BLOCKDELTA_CGROUP_ROOT, or use no limits",
  });
}

function udevRule(): CheckResult {
  if (!existsSync('/run/udev/control')) return nothing('no udev runs here');
  const directory = UDEV_DIRECTORIES.find((each) => existsSync(join(each, UDEV_RULE)));
  if (directory !== undefined) return nothing(join(directory, UDEV_RULE));
  return one(UDEV_RULE, {
    found: `udev runs and the rule ${UDEV_RULE} is not installed: the host's tools look into volumes`,
    remedy: 'install deploy/udev/56-blockdelta.rules as docs/host-setup.md says',
  });
}

function settings({ env, node }: DoctorContext): CheckResult {
  const findings = unknownNames(env).map(({ name, nearest }) => ({
    found: `${name} is not a setting`,
    remedy: `remove it, or name the setting that was meant: ${nearest}`,
  }));
  const nodeId = env['BLOCKDELTA_NODE_ID'] || hostname();
  const recorded = node?.catalogue.nodeId ?? null;
  if (recorded !== null && recorded !== nodeId) {
    findings.push({
      found: `the catalogue belongs to node '${recorded}', and the node id here is '${nodeId}'`,
      remedy: `set BLOCKDELTA_NODE_ID=${recorded}: the plugin refuses to start under another one`,
    });
  }
  return { detail: `node ${nodeId}`, findings };
}

/** The files must be those of the plugin: a container without them says so. */
async function certificates({ env }: DoctorContext): Promise<CheckResult> {
  const listen = parseListen((name) => env[name] || undefined, SETTINGS.BLOCKDELTA_TLS_PEER_NAME.fallback);
  if (listen === null) return nothing('no listener for routers');
  const detail = `${listen.tls.certificateFile} and ${listen.tls.caFile}`;
  const { driverName } = parseDriverIdentity(settingsReader(SERVICE_SETTINGS, env));
  const uri = nodeUri(driverName, env['BLOCKDELTA_NODE_ID'] || hostname());
  const problem = await TlsFiles.problemWith(listen.tls, uri);
  if (problem !== null) {
    const remedy = 'correct the files, or BLOCKDELTA_TLS_*: a start refuses them (docs/router.md, "Certificates")';
    return one(detail, { found: `the TLS files cannot be used: ${problem}`, remedy });
  }
  const now = Date.now();
  const ending = (await certificateEnds(listen.tls)).filter(({ ends }) => daysLeft(ends, now) < WARNED_DAYS);
  const findings = ending.map(({ file, ends }) => ({
    found: `the certificate ${file} ${endInWords(ends, now)}`,
    remedy:
      'issue another one and put it in its place: routers cannot reach this node with one that has ended (docs/router.md, "Certificates")',
  }));
  return { detail, findings };
}

async function stateDirectory({ stateDirectory: path }: DoctorContext): Promise<CheckResult> {
  if (!existsSync(path)) {
    const remedy = 'name it with --state-dir or BLOCKDELTA_STATE_DIR; the first start makes it';
    return one(path, { found: `${path} does not exist`, remedy });
  }
  const findings: Finding[] = [];
  try {
    await ownDirectory(path);
  } catch (thrown) {
    const remedy = `do what the message says; of ${path} itself: chown root and chmod 700`;
    findings.push({ found: messageOf(thrown), remedy });
  }
  const { type, bavail, bsize } = statfsSync(path, { bigint: true });
  if (VOLATILE_FILE_SYSTEMS.has(type)) {
    findings.push({
      found: `${path} is on a file system that does not outlive the machine or the container`,
      remedy: 'move it to a disk: all volumes are lost with the catalogue',
    });
  }
  const free = bavail * bsize;
  if (free < STATE_FREE_BYTES) {
    findings.push({
      found: `${path} has ${humanSize(free)} free`,
      remedy: `free at least ${humanSize(STATE_FREE_BYTES)}: with less, nothing new can be created`,
    });
  }
  const unknown = await foundObjects(path).catch(() => []);
  if (unknown.length > 0) {
    findings.push({
      found: `the last start found ${unknown.length} objects without a row in the catalogue, so nothing can be changed`,
      remedy: 'restore a newer backup of the catalogue, or blockdelta catalogue confirm (docs/backends.md)',
    });
  }
  return { detail: path, findings };
}

function catalogue({ node, catalogueProblem, plugin }: DoctorContext): CheckResult {
  const owner = plugin === 0 ? 'a process whose id is unknown' : `process ${plugin}`;
  const holder = plugin === null ? 'no plugin runs' : `held by ${owner}`;
  if (node === null) {
    const found = catalogueProblem ?? 'it cannot be read';
    return one(holder, {
      found,
      remedy: 'do what the message says; checks of pools were left out',
    });
  }
  const { volumes, snapshots, pools: recorded } = node.catalogue;
  const findings: Finding[] = recorded
    .filter(({ name }) => !node.pools.some((pool) => pool.name === name))
    .map(({ name }) => ({
      found: `the catalogue has pool '${name}', which is not configured`,
      remedy: 'add it to BLOCKDELTA_POOLS to reach what it holds',
    }));
  const half = [...volumes, ...snapshots].filter(({ state }) => state !== 'ready').length;
  if (half > 0 && plugin === null) {
    findings.push({
      found: `${half} creations or deletions are unfinished`,
      remedy: 'start the plugin: it completes or undoes them',
    });
  }
  return {
    detail: `${volumes.length} volumes, ${snapshots.length} snapshots, ${holder}`,
    findings,
  };
}

async function pools({ node, plugin }: DoctorContext): Promise<CheckResult> {
  if (node === null) return NO_NODE;
  const findings: Finding[] = [];
  for (const view of node.views) findings.push(...(await poolFindings(node, view, plugin)));
  return { detail: node.views.map(({ name }) => name).join(', '), findings };
}

async function poolFindings(
  { catalogue: { uuid, pools: recorded }, pools: configured }: NodeView,
  view: PoolView,
  plugin: number | null,
): Promise<Finding[]> {
  const label = `pool '${view.name}'`;
  const known = recorded.find(({ name }) => name === view.name);
  // The first start makes the pool.
  if (known === undefined && view.owner === null) return [];
  const findings: Finding[] = [];
  const config = configured.find(({ name }) => name === view.name);
  if (view.kind === 'embedded reflink' && config?.kind === 'reflink' && config.place === 'any') {
    findings.push({
      found: `${label} is an image, ${await imagePlace(view.directory)}, and BLOCKDELTA_POOLS does not say that this is meant`,
      remedy: `write ${view.name}=image:${view.directory}; for a disk of its own, mount it and write directory: before it is used`,
    });
  }
  if (view.owner !== null && view.owner !== uuid) {
    findings.push({
      found: `${label} in ${view.directory} belongs to another catalogue, ${view.owner}`,
      remedy: 'use the state directory that it belongs to, or another directory for this pool',
    });
  }
  if (view.problem !== null) {
    if (!(view.isInactive && plugin === null)) {
      findings.push({
        found: `${label} cannot be inspected: ${view.problem}`,
        remedy: 'mount its disk, and see the log of the plugin',
      });
    }
    return findings;
  }
  if (known !== undefined && view.uuid !== known.uuid) {
    findings.push({
      found: `${label} has the identity ${view.uuid}, and the catalogue knows it as ${known.uuid}`,
      remedy: 'mount the right disk at its directory',
    });
  }
  const used = usedPercent(view);
  if (used !== null && used >= USED_PERCENT.high) {
    findings.push({
      found: `${label} is ${used} % full: ${humanSize(view.freeBytes ?? 0n)} are free`,
      remedy: 'add space, or delete volumes and snapshots',
    });
  }
  return [...findings, ...(await thinFindings(view, label))];
}

/** Many times as long as the plugin ever holds a metadata snapshot, or keeps a file system frozen for a snapshot. */
const HELD_MS = 1000;

async function thinFindings({ thin }: PoolView, label: string): Promise<Finding[]> {
  if (thin === null) return [];
  const { status, names } = thin;
  const findings: Finding[] = [];
  if (status.mode !== 'rw' || status.needsCheck) {
    findings.push({
      found: `${label} has mode ${status.mode}${status.needsCheck ? ' and needs a check' : ''}`,
      remedy: 'see docs/backends.md',
    });
  }
  const { usedMetadataBlocks: usedBlocks, totalMetadataBlocks: totalBlocks } = status;
  if (usedBlocks * 100n >= totalBlocks * USED_PERCENT.high) {
    findings.push({
      found: `${usedBlocks} of ${totalBlocks} metadata blocks of ${label} are used`,
      remedy: 'enlarge the metadata device, or delete volumes and snapshots',
    });
  }
  if (status.heldRoot !== null) {
    await delay(HELD_MS);
    const asked = onThisThread.run('thinPoolStatus', { name: names.pool, commit: false });
    // If the pool no longer answers, the other findings are still reported.
    const later = await asked.catch(() => null);
    if (later?.status?.heldRoot === status.heldRoot) {
      findings.push({
        found: `${label} holds a metadata snapshot (block ${status.heldRoot}), which takes up metadata space`,
        remedy: `end what reserved it; if nothing uses it: dmsetup message ${names.pool} 0 release_metadata_snap`,
      });
    }
  }
  return findings;
}

function contents({ node }: DoctorContext): CheckResult {
  if (node === null) return NO_NODE;
  const findings: Finding[] = [];
  let count = 0;
  for (const view of node.views.filter(({ problem }) => problem === null)) {
    count += [...node.catalogue.volumes, ...node.catalogue.snapshots].filter(
      ({ pool, state }) => pool === view.name && state === 'ready',
    ).length;
    for (const difference of differencesIn(node, view)) {
      const { kind, id } = difference;
      if (kind === 'lost') {
        findings.push({
          found: `pool '${view.name}' has lost ${id}`,
          remedy: 'put its file back, or restore a snapshot or a backup and delete it',
        });
      } else if (kind === 'resized') {
        const { heldBytes, recordedBytes } = difference;
        findings.push({
          found: `${id} has ${heldBytes} bytes in pool '${view.name}' and ${recordedBytes} in the catalogue`,
          remedy:
            heldBytes > recordedBytes
              ? 'start the plugin again: it completes an interrupted expansion'
              : 'something truncated it: restore a snapshot or a backup',
        });
      } else {
        const { object, reason } = withoutRow(view, id);
        findings.push({
          found: `${object} in pool '${view.name}': ${reason}`,
          remedy: 'restore a newer backup of the catalogue, or blockdelta catalogue confirm (docs/backends.md)',
        });
      }
    }
    for (const path of view.foreign) {
      findings.push({
        found: `${path} is in pool '${view.name}', and blockdelta did not create it`,
        remedy: 'move it elsewhere; the plugin leaves it alone',
      });
    }
  }
  return { detail: `${count} volumes and snapshots compared`, findings };
}

/** Compares what the catalogue records as staged or published with what is mounted, and looks for what has stopped. */
async function mounts({ node }: DoctorContext): Promise<CheckResult> {
  if (node === null) return NO_NODE;
  const { stagings, publications } = node.catalogue;
  const places = [
    ...stagings.map((each) => ({ ...each, what: 'staged', given: each.stagingPath })),
    ...publications.map((each) => ({ ...each, what: 'published', given: each.targetPath })),
  ].map(({ given, ...place }) => ({ ...place, path: place.resolvedPath ?? given }));
  const findings: Finding[] = [];
  for (const { volumeId, what, path, capability } of places) {
    // The staging of a raw device makes no mount.
    if (what === 'staged' && capability.accessType === 'block') continue;
    if (node.mounts.some(({ mountPoint }) => mountPoint === path)) continue;
    findings.push({
      found: `volume ${volumeId} is recorded as ${what} at ${path}, and nothing is mounted there`,
      remedy:
        'after a reboot the orchestrator stages and publishes it again; otherwise restart its pod, and look for a missing mount propagation',
    });
  }
  const expected = new Set(places.map(({ path }) => path));
  for (const { volumeId, mounts: mounted } of node.attached) {
    for (const { mountPoint } of mounted.filter((each) => !expected.has(each.mountPoint))) {
      findings.push({
        found: `volume ${volumeId} is mounted at ${mountPoint}, where the plugin did not put it`,
        remedy: 'unmount it there if nobody needs it: the volume cannot be unstaged before',
      });
    }
    const stopped = await stoppedMount(mounted);
    if (stopped !== null) {
      findings.push({
        found: `volume ${volumeId}: its ${stopped.fsType} at ${stopped.mountPoint} has shut down or become read-only after an error`,
        remedy: 'look at the kernel log and the space of the pool, then stage it again: delete its pod',
      });
    }
  }
  return { detail: `${places.length} places`, findings };
}

/** A mount whose file system takes no more writes; null if there is none. XFS shows its shutdown only when it is asked. */
async function stoppedMount(mounted: readonly MountEntry[]): Promise<MountEntry | null> {
  for (const entry of mounted) {
    if (hasStoppedWriting(entry)) return entry;
    if (entry.fsType === 'xfs' && (await askFileSystem(entry))?.hasGivenUp) return entry;
  }
  return null;
}

/** Looks for frozen file systems without freezing one: the kernel shows their devices and the threads that wait. */
async function freezes({ node, plugin }: DoctorContext): Promise<CheckResult> {
  if (node === null) return NO_NODE;
  const findings: Finding[] = [];
  const raw = node.catalogue.stagings.filter(({ capability }) => capability.accessType === 'block');
  for (const { volumeId, path, mounts: mounted } of node.attached) {
    if (mounted.length > 0 || raw.some((staging) => staging.volumeId === volumeId)) continue;
    if (!(await isHeldExclusively(path)) || (await mountPointsAnywhere(path)).length > 0) continue;
    findings.push({
      found: `volume ${volumeId}: ${await describeHolders(path)}`,
      remedy: 'stage it again or delete it, which thaws it (docs/operations.md, "Pods that hang")',
    });
  }
  const waiting = await threadsInFreeze(plugin ?? 0);
  if (waiting > 0) {
    findings.push({
      found: `${waiting} threads of the plugin wait in the kernel for a file system to be thawed (${FROZEN_WAIT})`,
      remedy: 'NodeGetVolumeHealth names the call of a volume; thaw it (docs/operations.md, "Pods that hang")',
    });
  }
  return { detail: `${node.attached.length} devices, the threads of the plugin`, findings };
}

/** The kernel function in which writers to a frozen file system wait. */
const FROZEN_WAIT = 'percpu_rwsem_wait';

/** How many threads of a process are in FROZEN_WAIT now and after HELD_MS, which is longer than a snapshot takes. */
async function threadsInFreeze(pid: number): Promise<number> {
  const directory = `/proc/${pid}/task`;
  const look = (): string[] =>
    (existsSync(directory) ? readdirSync(directory) : []).filter(
      (thread) => textOf(`${directory}/${thread}/wchan`) === FROZEN_WAIT,
    );
  const before = look();
  if (before.length === 0) return 0;
  await delay(HELD_MS);
  return look().filter((thread) => before.includes(thread)).length;
}

async function orphans({ node, plugin }: DoctorContext): Promise<CheckResult> {
  if (node === null) return NO_NODE;
  const { orphans: found } = await findOrphans(node);
  // While a plugin runs, what a call uses looks like an orphan, except for the loop device of a removed volume.
  const sure = found.filter(({ kind }) => plugin === null || kind === 'loop device of a removed volume');
  return {
    detail: `${readdirSync('/sys/block').filter((name) => name.startsWith('loop')).length} loop devices examined`,
    findings: sure.map(({ kind, object, pool }) => ({
      found: `${kind} ${object} of pool '${pool}' is left over`,
      remedy: 'blockdelta gc shows the proof; stop the plugin and run blockdelta gc --apply',
    })),
  };
}
