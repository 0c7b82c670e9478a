/** `--exclusive` of `volumes` and `snapshots`, compared with what the file system has free after each deletion. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, statfsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import type { TestContext } from 'node:test';
import { eventually } from '../../support/eventually.js';
import { type HeldVolume, MIB } from '../../support/orchestrator.js';
import { seededRandom } from '../../support/random.js';
import { runPlugin, test } from '../../support/running-plugin.js';

const running = runPlugin('exclusive', {
  pools: { xfs: 'xfs', btrfs: 'btrfs' },
  env: { BLOCKDELTA_RETAINED_BASES_COUNT: '0' },
});

async function exclusiveOf(t: TestContext): Promise<Map<string, bigint>> {
  const found = new Map<string, bigint>();
  for (const command of ['volumes', 'snapshots']) {
    for (const { id, exclusiveBytes } of JSON.parse(await running.output(t, command, '--exclusive', '--json'))) {
      // A deleted snapshot stays on record as an invalidated base.
      if (exclusiveBytes !== null) found.set(id, BigInt(exclusiveBytes));
    }
  }
  return found;
}

/** What the volumes and snapshots of a pool hold, once it has written everything; on btrfs only data. */
function usedBytes(kind: string, pool: string): bigint {
  const others = ['!', '-path', '*/volumes/*', '!', '-path', '*/snapshots/*'];
  const blocks = execFileSync('find', [pool, '-mindepth', '1', ...others, '-printf', '%b\n'], { encoding: 'utf8' });
  const ofOthers = blocks.split('\n').reduce((sum, count) => sum + BigInt(count) * 512n, 0n);
  return heldBytes(kind, pool) - ofOthers;
}

function heldBytes(kind: string, pool: string): bigint {
  execFileSync('sync', ['--file-system', pool]);
  if (kind === 'xfs') {
    const { blocks, bfree, bsize } = statfsSync(pool, { bigint: true });
    return (blocks - bfree) * bsize;
  }
  const uuid = execFileSync('findmnt', ['--noheadings', '--output', 'UUID', '--mountpoint', pool], {
    encoding: 'utf8',
  });
  return BigInt(readFileSync(`/sys/fs/btrfs/${uuid.trim()}/allocation/data/bytes_used`, 'utf8'));
}

for (const kind of ['xfs', 'btrfs'] as const) {
  test(`on ${kind}, each deletion gives back exactly what --exclusive says`, async (t) => {
    const { orchestrator } = running;
    const pool = running.poolPath(kind);
    const random = seededRandom(`exclusive space on ${kind}`);
    const volume = await orchestrator.create(`${kind}-source`, { sizeBytes: 32 * MIB, parameters: { pool: kind } });
    const target = await orchestrator.bringUp(volume);
    const objects = new Map<string, () => Promise<void>>();
    const addSnapshot = (id: string) => objects.set(id, () => orchestrator.deleteSnapshot(id));
    const addVolume = (held: HeldVolume) => objects.set(held.id, () => orchestrator.delete(held));
    const fill = async (offset: number, bytes: number) => {
      const file = await open(target, 'r+');
      await file.write(Buffer.alloc(bytes, 1 + random.below(255)), 0, bytes, offset);
      await file.sync();
      await file.close();
    };
    // One large extent, of which parts are overwritten: btrfs keeps all of it while a part is used.
    await fill(0, 8 * MIB);
    for (let round = 0; round < 4; round += 1) {
      addSnapshot(await orchestrator.snapshot(volume));
      for (let write = 0; write < 3; write += 1) await fill(random.below(3000) * 4096, 4096 * (1 + random.below(64)));
    }
    const [source] = objects.keys();
    assert.ok(source !== undefined);
    const clone = await orchestrator.create(`${kind}-clone`, {
      sizeBytes: 32 * MIB,
      parameters: { pool: kind },
      snapshotId: source,
    });
    await orchestrator.takeDown(volume);
    addVolume(volume);
    addVolume(clone);
    while (objects.size > 0) {
      const [id, remove] = [...objects][random.below(objects.size)] ?? assert.fail();
      const expected = (await exclusiveOf(t)).get(id);
      assert.ok(expected !== undefined, `${id} is not listed`);
      const before = usedBytes(kind, pool);
      await remove();
      objects.delete(id);
      const freed = () => before - usedBytes(kind, pool);
      await eventually(`${id} gives back ${expected} bytes, not ${freed()}`, () => freed() === expected);
    }
  });
}
