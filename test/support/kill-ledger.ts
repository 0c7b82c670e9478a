/**
 * The objects that must or may exist after a kill, compared with the plugin's lists and with the pool.
 * Knows ids only.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Orchestrator } from './orchestrator.js';
import { snapshotFiles } from './snapshot-files.js';

export class KillLedger {
  readonly #known = new Set<string>();
  /** Objects that are being removed by one call: all of them are there, or none. */
  #leaving: readonly string[] = [];

  constructor(
    private readonly orchestrator: Orchestrator,
    /** The directory with volumes/ and snapshots/. */
    private readonly poolPath: string,
  ) {}

  add(...ids: readonly string[]): void {
    for (const id of ids) this.#known.add(id);
  }

  /** Runs what removes the objects; afterwards none of them may be there. */
  async removing(ids: readonly string[], remove: () => Promise<unknown>): Promise<void> {
    this.#leaving = ids;
    await remove();
    this.#leaving = [];
    for (const id of ids) this.#known.delete(id);
    await this.check();
  }

  /**
   * All that was answered is there, and nothing else but, perhaps, all objects of one call that was
   * killed while it made `made` of them.
   */
  async check(made = 0): Promise<void> {
    const listed = [
      ...(await this.orchestrator.volumeIds()),
      ...(await this.orchestrator.snapshotIds()),
    ];
    const missing = [...this.#known].filter((id) => !listed.includes(id));
    const lost = missing.filter((id) => !this.#leaving.includes(id));
    assert.deepEqual(lost, [], 'lost by a kill');
    const isHalfGone = missing.length > 0 && missing.length < this.#leaving.length;
    assert.ok(!isHalfGone, `only some are gone: ${missing} of ${this.#leaving}`);
    const strange = listed.filter((id) => !this.#known.has(id));
    const isConforming = strange.length === 0 || strange.length === made;
    assert.ok(isConforming, `made twice, in part, or undead: ${strange}`);
    const held = [
      ...readdirSync(join(this.poolPath, 'volumes')),
      ...snapshotFiles(join(this.poolPath, 'snapshots')),
    ];
    assert.deepEqual(held.sort(), listed.sort(), 'what the pool holds is what is listed');
  }

  checkNoTemporaries(): void {
    for (const kind of ['volumes', 'snapshots']) {
      const left = readdirSync(join(this.poolPath, kind)).filter((name) => name.endsWith('.tmp'));
      assert.deepEqual(left, [], 'temporary files left in the pool');
    }
  }
}
