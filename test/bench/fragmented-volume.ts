/**
 * Two snapshots of one volume on a real XFS pool, made through a real plugin, each of several
 * hundred thousand extents: a full volume, of which every third block was written again after a
 * first snapshot, and a tenth of the blocks, picked at random, between the two that count.
 */
import { randomBytes } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { Settings } from '../../src/bench/suite.js';
import { blockCapability } from '../support/csi-client.js';
import { type HeldVolume, Orchestrator } from '../support/orchestrator.js';
import { Plugin } from '../support/plugin.js';
import { Random } from '../support/random.js';
import { makePoolFileSystem, Workspace } from '../support/workspace.js';

const BLOCK_BYTES = 4096;
const VOLUME_BYTES = 2 * 2 ** 30;
const BLOCKS = VOLUME_BYTES / BLOCK_BYTES;
/** Makes two extents of every three blocks: one rewritten, the other two as they were. */
const REWRITE_EVERY = 3;
const CHANGED_SHARE = 0.1;
const POOL_MIB = 8192;
/** A clone takes some 10 microseconds an extent, and the machine may be busy. */
const SNAPSHOT_DEADLINE_MS = 600_000;
const SEED = 20_250_101;

export interface SnapshotPair {
  plugin: Plugin;
  baseId: string;
  targetId: string;
  basePath: string;
  targetPath: string;
  changedBlocks: number;
}

export async function makeSnapshotPair(settings: Settings): Promise<SnapshotPair> {
  const { cleanup } = settings;
  const workspace = new Workspace('bench');
  cleanup.defer(() => workspace.dispose());
  const pool = makePoolFileSystem(workspace, 'xfs', POOL_MIB);
  const plugin = await Plugin.start(workspace, { pools: `default=${pool}` });
  cleanup.defer(async () => {
    await plugin.stop();
  });
  const orchestrator = new Orchestrator(workspace, () => plugin.client);
  const volume = await orchestrator.create('bench', {
    capability: blockCapability(),
    sizeBytes: VOLUME_BYTES,
  });
  const device = await open(await orchestrator.bringUp(volume), 'r+');
  cleanup.defer(() => device.close());
  const made = await writeAndCut(device, settings, (name) => cut(plugin, volume, name));
  await device.close();
  await orchestrator.takeDown(volume);
  const pathOf = (id: string): string => join(pool, 'snapshots', id);
  return {
    ...made,
    plugin,
    basePath: pathOf(made.baseId),
    targetPath: pathOf(made.targetId),
  };
}

type Written = Pick<SnapshotPair, 'baseId' | 'targetId' | 'changedBlocks'>;

async function writeAndCut(
  device: FileHandle,
  settings: Settings,
  snapshot: (name: string) => Promise<string>,
): Promise<Written> {
  const random = new Random(SEED);
  settings.say(`filling a volume of ${VOLUME_BYTES / 2 ** 30} GiB, rewriting every third block`);
  await fill(device);
  await snapshot('first');
  await rewrite(device, (block) => block % REWRITE_EVERY === 0);
  const baseId = await snapshot('base');
  settings.say(`rewriting ${100 * CHANGED_SHARE} % of the blocks`);
  const changedBlocks = await rewrite(device, () => random.unit() < CHANGED_SHARE);
  return { baseId, targetId: await snapshot('target'), changedBlocks };
}

async function fill(device: FileHandle): Promise<void> {
  const chunk = randomBytes(4 * 2 ** 20);
  for (let offset = 0; offset < VOLUME_BYTES; offset += chunk.length) {
    await device.write(chunk, 0, chunk.length, offset);
  }
  await device.sync();
}

/** Gives new bytes to the blocks that are chosen; returns how many. */
async function rewrite(device: FileHandle, isChosen: (block: number) => boolean): Promise<number> {
  const bytes = randomBytes(BLOCK_BYTES);
  let written = 0;
  for (let block = 0; block < BLOCKS; block += 1) {
    if (!isChosen(block)) continue;
    await device.write(bytes, 0, BLOCK_BYTES, block * BLOCK_BYTES);
    written += 1;
  }
  await device.sync();
  return written;
}

async function cut(plugin: Plugin, volume: HeldVolume, name: string): Promise<string> {
  const answer = await plugin.client.controller.CreateSnapshot(
    { source_volume_id: volume.id, name },
    { deadlineMs: SNAPSHOT_DEADLINE_MS },
  );
  return String(answer['snapshot'].snapshot_id);
}
