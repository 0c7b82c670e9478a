/** What is kept of the last look at a pool's volumes is never less than what they may claim. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommittedSpace } from '../../../../src/driver/backends/reflink/committed-space.js';
import type { PoolLayout } from '../../../../src/driver/backends/reflink/pool-layout.js';
import type { NativeRunner } from '../../../../src/driver/native/pool.js';
import { seededRandom } from '../../../support/random.js';

const LAYOUT = { volumes: '/pool/volumes' } as PoolLayout;

const nameOf = (index: number): string => `vol-562f2833d589-00000000-0000-4000-8000-${String(index).padStart(12, '0')}`;

/** A directory of volumes in memory. A look sees each of them as it is when `pass` is called. */
class Pool {
  readonly #volumes = new Map<string, { size: bigint; written: bigint }>();
  #waiting: (() => void)[] = [];
  looks = 0;
  isHeld = false;

  readonly native = {
    run: async () => {
      this.looks += 1;
      if (this.isHeld) await new Promise<void>((resolve) => this.#waiting.push(resolve));
      const files = [...this.#volumes];
      const figures = files.flatMap(([, { size, written }]) => [size, written, 1n]);
      return { names: files.map(([name]) => name).join('/'), figures: BigUint64Array.from(figures) };
    },
  } as unknown as NativeRunner;

  pass(): void {
    this.isHeld = false;
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  add(name: string, size: bigint): void {
    this.#volumes.set(name, { size, written: 0n });
  }

  remove(name: string): void {
    this.#volumes.delete(name);
  }

  write(name: string, bytes: bigint): void {
    const volume = this.#volumes.get(name);
    if (volume === undefined) return;
    volume.written = volume.written + bytes > volume.size ? volume.size : volume.written + bytes;
  }

  get names(): string[] {
    return [...this.#volumes.keys()];
  }

  get committed(): bigint {
    return [...this.#volumes.values()].reduce((sum, each) => sum + each.size - each.written, 0n);
  }
}

test('a second question within a moment looks at no volume, and counts what was created since', async () => {
  const pool = new Pool();
  const space = new CommittedSpace(pool.native);
  pool.add(nameOf(1), 100n);
  assert.equal(await space.atMost(LAYOUT), 100n);
  space.addingStarts(50n);
  assert.equal(await space.atMost(LAYOUT), 150n);
  pool.add(nameOf(2), 50n);
  space.addingEnds(50n);
  assert.equal(await space.atMost(LAYOUT), 150n);
  assert.equal(pool.looks, 1);
});

test('a creation that failed is counted until the next look', async () => {
  const pool = new Pool();
  const space = new CommittedSpace(pool.native);
  assert.equal(await space.atMost(LAYOUT), 0n);
  space.addingStarts(30n);
  space.addingEnds(30n);
  assert.equal(await space.atMost(LAYOUT), 30n);
  assert.equal((await space.now(LAYOUT)).unwritten, 0n);
  assert.equal(await space.atMost(LAYOUT), 0n);
});

test('the figure is at least what is committed, in any order of creations, writes, deletions and looks', async () => {
  const random = seededRandom('committed space');
  const pool = new Pool();
  const space = new CommittedSpace(pool.native);
  let looking: Promise<unknown>[] = [];
  const pending: { name: string; size: bigint }[] = [];
  for (let step = 0; step < 2000; step += 1) {
    const kind = random.pick(['start', 'file', 'end', 'write', 'delete', 'look', 'pass'] as const);
    const size = BigInt(1 + random.below(1000));
    const [first] = pending;
    if (kind === 'start' && pending.length < 5) {
      pending.push({ name: nameOf(step), size });
      space.addingStarts(size);
    }
    if (kind === 'file' && first !== undefined) pool.add(first.name, first.size);
    if (kind === 'end' && first !== undefined) {
      pool.add(first.name, first.size);
      space.addingEnds(first.size);
      pending.shift();
    }
    if (kind === 'write' && pool.names.length > 0) pool.write(random.pick(pool.names), size);
    if (kind === 'delete' && pool.names.length > 0) pool.remove(random.pick(pool.names));
    if (kind === 'look') {
      pool.isHeld = true;
      looking.push(space.now(LAYOUT));
    }
    if (kind === 'pass') {
      pool.pass();
      await Promise.all(looking);
      looking = [];
    }
    if (looking.length === 0) {
      const found = await space.atMost(LAYOUT);
      assert.ok(found >= pool.committed, `step ${step}: ${found} of ${pool.committed}`);
    }
  }
  pool.pass();
  await Promise.all(looking);
});
