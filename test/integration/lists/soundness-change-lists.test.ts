/**
 * The soundness guarantee with stored change lists: every list among random snapshots is compared with their
 * bytes, while the stored files are as the plugin made them, missing, damaged, or those of another snapshot.
 */
import assert from 'node:assert/strict';
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '../../../src/base/errors.js';
import { BLOCK_OPERATIONS } from '../../support/block-writer.js';
import { Disturbance } from '../../support/disturbance.js';
import { isNightly } from '../../support/nightly.js';
import { type Random, seededRandom } from '../../support/random.js';
import { useBench } from '../../support/reflink-bench.js';
import { test } from '../../support/running-plugin.js';
import { SnapshotWindow } from '../../support/snapshot-window.js';
import { listsTo } from '../../support/stored-lists.js';
import type { PoolKind } from '../../support/workspace.js';

const KINDS: readonly PoolKind[] = isNightly ? ['xfs', 'xfs-1k', 'btrfs', 'btrfs-zstd'] : ['xfs', 'btrfs'];
const VOLUME_BYTES = 16 << 20;
const ROUNDS = isNightly ? 60 : 5;
const OPERATIONS_A_ROUND = 40;

/** Moves whatever blocks it may, again and again. */
const MOVERS: Partial<Record<PoolKind, string>> = {
  btrfs:
    'btrfs filesystem defragment -r -f -t 256M "$1/volumes" "$1/snapshots"; btrfs balance start --full-balance "$1"',
  xfs: 'for to in "$1"/volumes/* "$1"/snapshots/*; do xfs_io -c "dedupe $to 0 1048576 65536" "$to"; done; xfs_fsr "$1"',
};

const bench = useBench('soundness-lists', KINDS, 'on');

function filesIn(directory: string): string[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory)
    .filter((name) => !name.endsWith('.tmp'))
    .map((name) => join(directory, name));
}

/** Does to stored files what a disk, a crash or an operator might. Returns what it did. */
function tamper(directory: string, random: Random): string {
  const files = filesIn(directory);
  if (files.length === 0) return 'nothing stored';
  const path = random.pick(files);
  const kind = random.pick(['keep', 'keep', 'remove', 'truncate', 'flip', 'replace', 'clear']);
  try {
    change(path, kind, files, random);
    return kind;
  } catch (thrown) {
    // Removed meanwhile, as the map of a snapshot is when the next list is there.
    if (errorCode(thrown) === 'ENOENT') return 'gone';
    throw thrown;
  }
}

function change(path: string, kind: string, files: readonly string[], random: Random): void {
  if (kind === 'remove') rmSync(path);
  if (kind === 'truncate') truncateSync(path, random.below(statSync(path).size));
  if (kind === 'clear') truncateSync(path, 0);
  if (kind === 'replace') copyFileSync(random.pick(files), path);
  if (kind === 'flip') {
    const bytes = readFileSync(path);
    const at = random.below(bytes.length);
    bytes[at] = (bytes[at] ?? 0) ^ (1 + random.below(255));
    writeFileSync(path, bytes);
  }
}

/** A published raw volume in that pool, its writer, the window of its snapshots, and where lists are. */
async function bedOn(kind: PoolKind, random: Random) {
  const work = await bench.write(kind, VOLUME_BYTES, random);
  const window = new SnapshotWindow(bench, work, random);
  return { work, window, lists: bench.pool(kind, 'lists'), retained: bench.pool(kind, 'bases') };
}

for (const kind of KINDS) {
  test(`no delta from stored lists on ${kind} misses a byte, whatever happens to the files`, async (context) => {
    const random = seededRandom(`stored lists on ${kind}`);
    const { work, window, lists } = await bedOn(kind, random);
    const done: string[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      work.writer.randomOperations(OPERATIONS_A_ROUND, BLOCK_OPERATIONS);
      const { id } = await window.take(null);
      // The first snapshot of a volume has none before it.
      if (round > 0 && random.below(4) > 0) {
        while (listsTo(lists, id).length === 0) await delay(10);
      }
      done.push(tamper(lists, random));
      await window.check();
    }
    context.diagnostic(done.join(', '));
    window.report((line) => context.diagnostic(`${kind}: ${line}`));
    for (const stored of ['.to.', '.allocated']) {
      const found = filesIn(lists).some((path) => path.includes(stored));
      assert.ok(found, `no list ${stored} was stored`);
    }
    await bench.end(work);
  });

  test(`deletions from a random chain on ${kind} join its lists, which miss no byte, whatever moves blocks`, async (context) => {
    const random = seededRandom(`joined lists on ${kind}`);
    const { work, window, lists, retained } = await bedOn(kind, random);
    const script = MOVERS[kind];
    const mover = script === undefined ? null : Disturbance.script(script, [bench.pool(kind)]);
    context.after(() => mover?.stop());
    let joined = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      work.writer.randomOperations(OPERATIONS_A_ROUND, BLOCK_OPERATIONS);
      const { id } = await window.take(null);
      while (round > 0 && listsTo(lists, id).length === 0) await delay(10);
      // The one before may have been deleted while it was the newest; then its list is joined last.
      while (filesIn(retained).some((path) => path.endsWith('.hidden'))) await delay(10);
      while (window.live.length > 2 && random.below(3) > 0) {
        await window.drop(1 + random.below(window.live.length - 2));
        joined += 1;
      }
      // No request was answered since the deletions, so nothing has made a list of an older snapshot anew.
      const ids = window.live.map((each) => each.id);
      for (const [at, each] of ids.slice(1).entries()) {
        const begins = listsTo(lists, each).map((path) => basename(path).split('.to.')[0]);
        assert.ok(begins.includes(ids[at]), 'a list begins at the snapshot before');
      }
      await window.check();
    }
    window.report((line) => context.diagnostic(`${kind}, ${joined} joined: ${line}`));
    assert.ok(joined > 0, 'nothing was joined');
    assert.ok(window.fromDeleted.differing > 0, 'no delta from a deleted snapshot was compared');
    await bench.end(work);
  });
}
