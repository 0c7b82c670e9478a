import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, statfsSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { CsiError, StatusCode } from '../../src/base/errors.js';
import type { VolumeRecord } from '../../src/catalogue/records.js';
import { newSnapshotId } from '../../src/domain/identifiers.js';
import { FILE_SYSTEMS } from '../../src/host/file-systems.js';
import { isNightly } from '../support/nightly.js';
import { seededRandom } from '../support/random.js';
import { TEST_NODE_KEY } from '../support/records.js';
import { skipUnlessRoot, Workspace } from '../support/workspace.js';
import {
  blockCapability,
  mountCapability,
  type NodeFixture,
  openNode,
  XFS_SIZE,
} from './node-fixture.js';

const ROUNDS = isNightly ? 80 : 8;
const MOUNTS = FILE_SYSTEMS.map((type) => mountCapability(type));
/** In the order of the kinds of node-process.ts. */
const CAPABILITIES = [...MOUNTS, blockCapability(), ...MOUNTS];
const FIRST_COPY = MOUNTS.length + 1;

/** Runs the process from a turn on, for a while, and kills it. Returns the volumes it had written to. */
async function runAndKill(
  workspace: Workspace,
  snapshots: readonly string[],
  firstTurn: number,
  runMs: number,
): Promise<string[]> {
  const script = fileURLToPath(new URL('./node-process.js', import.meta.url));
  const child = spawn(
    process.execPath,
    [script, workspace.directory, `${firstTurn}`, ...snapshots],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  const ended = once(child, 'close');
  while (!output.includes('READY')) {
    assert.equal(child.exitCode, null, 'the process ended by itself');
    await delay(5);
  }
  await delay(runMs);
  child.kill('SIGKILL');
  await ended;
  return output.split('\n').flatMap((line) => (line.startsWith('WROTE ') ? [line.slice(6)] : []));
}

/** A tool that must not stop half way goes on for a moment after the kill. */
async function stageWhenFree(
  node: NodeFixture,
  volume: VolumeRecord,
  capability: ReturnType<typeof mountCapability>,
): Promise<void> {
  for (;;) {
    try {
      await node.stage(volume, capability);
      return;
    } catch (thrown) {
      if (!(thrown instanceof CsiError) || thrown.code !== StatusCode.ABORTED) throw thrown;
      await delay(20);
    }
  }
}

/** Every volume can be used again, with what was written to it. */
async function useAgain(node: NodeFixture, volume: VolumeRecord, isWritten: boolean) {
  const turn = Number(volume.parameters['turn']);
  const capability = CAPABILITIES[turn] ?? blockCapability();
  // The call that was interrupted is one of these, whichever it was.
  await node.unpublish(volume);
  await stageWhenFree(node, volume, capability);
  const staging = node.stagingPath(volume.volumeId);
  if (isWritten) assert.equal(readFileSync(`${staging}/file`, 'utf8'), volume.volumeId);
  if (turn >= FIRST_COPY) assert.equal(readFileSync(`${staging}/base`, 'utf8'), 'base');
  if (capability['mount'] !== null) {
    // One that a kill left mounted before it had grown is grown by the stage of its next use, where
    // the capability to grow a mounted ext4 is missing.
    await node.unstage(volume);
    await node.stage(volume, capability);
    const { blocks, bsize } = statfsSync(staging, { bigint: true });
    assert.ok(blocks * bsize > (volume.sizeBytes * 7n) / 10n, `${blocks * bsize} of ${turn}`);
  }
  await node.publish(volume, capability);
  await node.unpublish(volume);
  await node.unstage(volume);
}

/** Of one small volume for each file system. */
async function cutBases(workspace: Workspace): Promise<string[]> {
  const node = await openNode(workspace);
  const snapshots: string[] = [];
  for (const capability of MOUNTS) {
    const volume = await node.makeVolume({ sizeBytes: XFS_SIZE });
    await node.stage(volume, capability);
    writeFileSync(`${node.stagingPath(volume.volumeId)}/base`, 'base', { flush: true });
    const snapshotId = newSnapshotId(TEST_NODE_KEY);
    await node.backend.createSnapshots([{ volumeId: volume.volumeId, snapshotId }]);
    await node.unstage(volume);
    await node.backend.deleteVolume(volume.volumeId);
    await node.catalogue.removeVolume(volume.volumeId);
    snapshots.push(snapshotId);
  }
  await node.close();
  return snapshots;
}

test(`after ${ROUNDS} kills at random points every volume is intact and nothing stays behind`, {
  skip: skipUnlessRoot,
}, async () => {
  const workspace = new Workspace('node-kill');
  try {
    const random = seededRandom('node-kill');
    const snapshots = await cutBases(workspace);
    for (let round = 0; round < ROUNDS; round += 1) {
      const firstTurn = random.below(CAPABILITIES.length);
      const written = await runAndKill(workspace, snapshots, firstTurn, random.below(800));
      const node = await openNode(workspace);
      try {
        for (const volume of await node.catalogue.listVolumes()) {
          await useAgain(node, volume, written.includes(volume.volumeId));
          await node.backend.deleteVolume(volume.volumeId);
          await node.catalogue.removeVolume(volume.volumeId);
        }
        assert.deepEqual(node.held(), { mounts: [], loops: [] });
        assert.deepEqual(readdirSync(workspace.path('pods')), []);
      } finally {
        await node.close();
      }
    }
  } finally {
    workspace.dispose();
  }
});
