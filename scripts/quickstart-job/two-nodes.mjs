/**
 * The job on two nodes: volumes are made on node b from snapshots of a volume on node a, which a router has brought there. The
 * second snapshot costs what has changed since the first. Then snapshots with a copy on node b survive the loss of node a, whose
 * volume comes back on node b, and is not used any more on node a when that is back.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { endCommands } from './clean-up.mjs';
import { runCommand } from './command.mjs';
import { digestOf } from './images.mjs';
import { bytesReceived, loseNode, retireNodes, returnNode, startNodes } from './nodes.mjs';
import { detail, mib, say, throwIfInterrupted } from './steps.mjs';
import { change, FILE_SYSTEM, fillVolume, makeVolume, publishRaw, snapshot } from './volumes.mjs';

export const VERDICT = {
  identical: 'all volumes on node b are identical to their snapshots on node a, by a SHA-256 of all their bytes.',
  different: 'a volume on node b differs from its snapshot on node a.',
};

/** Whether all volumes on node b have the digests that were taken on node a. */
export async function run(session) {
  say(`starting two nodes and a router, each in a network namespace, in ${session.place}`);
  const nodes = await startNodes(session);
  session.endpoint = nodes.router.endpoint;
  const { csi } = nodes.a;
  const volume = await makeVolume(session, csi, 'a');
  const tree = join(session.place, 'data');
  await fillVolume(session, tree);
  const first = await snapshot(session, csi, volume, '1');
  if (!(await isSameOnB(session, nodes, first, null))) return false;
  await change(tree, 'new');
  const second = await snapshot(session, csi, volume, '2');
  if (!(await isSameOnB(session, nodes, second, first))) return false;
  await snapshotWithCopy(session, nodes, volume, '3');
  await change(tree, 'newer');
  const last = await snapshotWithCopy(session, nodes, volume, '4');
  return comesBack(session, nodes, volume, last);
}

async function snapshotWithCopy(session, { a, b }, volume, label) {
  const before = await bytesReceived(b);
  const made = await snapshot(session, a.csi, volume, label, async () => {
    throwIfInterrupted();
    await delay(200);
  });
  const received = (await bytesReceived(b)) - before;
  detail(`${received} bytes (${mib(received)}) have travelled to node b until the snapshot was ready`);
  return made;
}

/** Whether the volume on node b that is made when node a is lost has the digest of its last snapshot there. */
async function comesBack(session, nodes, volume, last) {
  const { a, b, router } = nodes;
  const wanted = await digestOnA(session, a, last);
  say('node a is lost: its plugin is killed, its volumes and its pool are taken away, and the router is told');
  await loseNode(session, a);
  await retireNodes(router, ['a']);
  say('making a raw block volume on node b from the copy of snapshot 4');
  const { volume: recovered, path } = await publishRaw(session, b.csi, { name: 'b-recovered', source: last, node: 'b' });
  const isSame = await isDigest(path, wanted);
  say('the new volume takes the place of the old one');
  await runCommand(session, ['supersede', volume.volume_id, recovered.volume_id], detail);
  say('node a is back');
  await returnNode(session, a);
  await retireNodes(router, []);
  const list = ['volumes', '--state-dir', join(session.place, 'a/state')];
  while (!(await runCommand(session, list, () => undefined)).includes('superseded')) {
    throwIfInterrupted();
    await delay(500);
  }
  const staging_target_path = join(session.place, 'staging-data');
  const request = { volume_id: volume.volume_id, staging_target_path, volume_capability: FILE_SYSTEM };
  const refusal = await a.csi.call('Node', 'NodeStageVolume', request).then(
    () => null,
    ({ details }) => details,
  );
  if (refusal === null) throw new Error('node a has staged the old volume although another one has taken its place');
  detail(`NodeStageVolume of the old volume on node a: ${refusal}`);
  return isSame;
}

/** @param base the snapshot that node b has already */
async function isSameOnB(session, { a, b }, source, base) {
  const wanted = await digestOnA(session, a, source);
  say(`making a raw block volume on node b from snapshot ${session.labels[source.snapshot_id]} of node a`);
  return isDigest(await bring(session, b, source, base), wanted);
}

async function digestOnA(session, a, source) {
  const label = session.labels[source.snapshot_id];
  say(`taking the digest of snapshot ${label} on node a, of a raw block volume made from it there`);
  const { path } = await publishRaw(session, a.csi, { name: `a-${label}`, source, node: 'a' });
  const wanted = await digestOf(path);
  detail(`SHA-256 of ${mib(wanted.bytes)}: ${wanted.sha256}`);
  return wanted;
}

async function isDigest(path, wanted) {
  say('comparing the digest of that volume, read on node b');
  const found = await digestOf(path);
  const isSame = found.bytes === wanted.bytes && found.sha256 === wanted.sha256;
  detail(`SHA-256 of ${mib(found.bytes)}: ${isSame ? 'the same' : found.sha256}`);
  return isSame;
}

/** The path of the volume on node b. Says what that has cost. */
async function bring(session, b, source, base) {
  const label = session.labels[source.snapshot_id];
  const before = await bytesReceived(b);
  const started = performance.now();
  const { path } = await publishRaw(session, b.csi, {
    name: `b-${label}`,
    source,
    node: 'b',
    parameters: { remoteSources: 'true' },
    onAborted: async (progress) => {
      throwIfInterrupted();
      detail(progress);
      await delay(500);
    },
  });
  const seconds = (performance.now() - started) / 1000;
  const received = (await bytesReceived(b)) - before;
  detail(`${received} bytes (${mib(received)}) have travelled to node b, in ${seconds.toFixed(1)} s`);
  const pulled = await lastPull(b, source);
  if (pulled.base !== (base?.snapshot_id ?? null)) throw new Error(`snapshot ${label} was pulled from base ${pulled.base}`);
  const kind = base === null ? 'all data' : `the changes since snapshot ${session.labels[base.snapshot_id]}`;
  detail(`node b has pulled ${mib(pulled.bytes)} of a snapshot of ${mib(source.size_bytes)}: ${kind}`);
  return path;
}

/** What the node says in its log. */
async function lastPull({ logPath }, { snapshot_id: id }) {
  const lines = (await readFile(logPath, 'utf8')).trimEnd().split('\n').map((line) => JSON.parse(line));
  const pulled = lines.findLast(({ msg, snapshot: of }) => msg === 'pulled a snapshot' && of === id);
  if (pulled === undefined) throw new Error(`node b does not say in ${logPath} that it has pulled snapshot ${id}`);
  return pulled;
}

/** For --keep. */
export function nextCommands(session) {
  const { place, services, snapshots } = session;
  const [a, b, router] = services;
  const cli = `node ${session.program}`;
  return `
The plugins of node a and node b (processes ${a.child.pid} and ${b.child.pid}) and the router (process ${router.child.pid}) are still
running; their logs are ${services.map(({ logPath }) => logPath).join(', ')}.
Try:
  export CSI_ENDPOINT=${session.endpoint}   # the router's
  ${cli} volumes --state-dir ${join(place, 'b/state')}
  ${cli} snapshots --state-dir ${join(place, 'a/state')}
  ${cli} delta ${snapshots[0]} ${snapshots[1]} --summary
  grep 'pulled a snapshot' ${b.logPath}
  nsenter -t ${b.child.pid} -n ip -s link show eth0
  ls ${join(place, 'data')}
${endCommands(session)}`;
}
