import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { VolumeRecord } from '../../src/volumes/records.js';
import { skipUnlessRoot, Workspace } from '../support/workspace.js';
import { blockCapability, mountCapability, type NodeFixture, openNode } from './node-fixture.js';

const ROUNDS = process.env['BLOCKDELTA_TEST_LONG'] === '1' ? 80 : 8;
const CAPABILITIES = [mountCapability('ext4'), mountCapability('xfs'), blockCapability()];

/** Runs the process for a while and kills it. Returns the volumes it had written to. */
async function runAndKill(workspace: Workspace, runMs: number): Promise<string[]> {
  const script = fileURLToPath(new URL('./node-process.js', import.meta.url));
  const child = spawn(process.execPath, [script, workspace.directory], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
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

/** Every volume can be used again, with what was written to it. */
async function useAgain(node: NodeFixture, volume: VolumeRecord, isWritten: boolean) {
  const capability = CAPABILITIES[Number(volume.parameters['turn'])] ?? blockCapability();
  // The call that was interrupted is one of these, whichever it was.
  await node.unpublish(volume);
  await node.stage(volume, capability);
  if (isWritten) {
    const file = `${node.stagingPath(volume.volumeId)}/file`;
    assert.equal(readFileSync(file, 'utf8'), volume.volumeId);
  }
  await node.publish(volume, capability);
  await node.unpublish(volume);
  await node.unstage(volume);
}

test(`killed anywhere, ${ROUNDS} times, every volume is whole and nothing stays behind`, {
  skip: skipUnlessRoot,
}, async () => {
  const workspace = new Workspace('node-kill');
  try {
    await (await openNode(workspace)).close();
    for (let round = 0; round < ROUNDS; round += 1) {
      const written = await runAndKill(workspace, Math.random() * 500);
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
