/**
 * The objects that must or may exist after a fault, compared with the plugin's lists and with the pool. Knows
 * ids only.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Orchestrator } from '../support/orchestrator.js';
import { snapshotFiles } from '../support/snapshot-files.js';

/** What a call that was not answered makes or removes: all of it is there, or nothing. */
interface Unanswered {
  makes?: number;
  removes?: readonly string[];
}

export class Ledger {
  readonly #known = new Set<string>();

  constructor(
    private readonly orchestrator: Orchestrator,
    /** The directory with volumes/ and snapshots/. */
    private readonly poolPath: string,
  ) {}

  get ids(): readonly string[] {
    return [...this.#known];
  }

  add(...ids: readonly string[]): void {
    for (const id of ids) this.#known.add(id);
  }

  remove(...ids: readonly string[]): void {
    for (const id of ids) this.#known.delete(id);
  }

  /** What is listed conforms, and the pool holds just that: after a start, and after an answer. */
  async check(unanswered: Unanswered = {}): Promise<void> {
    const listed = await this.checkListed(unanswered);
    assert.deepEqual(this.#held().sort(), listed.sort(), 'the pool holds what is listed');
  }

  /** All that was answered is listed, and nothing else. Resolves to what is listed. */
  async checkListed({ makes = 0, removes = [] }: Unanswered = {}): Promise<string[]> {
    const listed = [...(await this.orchestrator.volumeIds()), ...(await this.orchestrator.snapshotIds())];
    const missing = [...this.#known].filter((id) => !listed.includes(id));
    const lost = missing.filter((id) => !removes.includes(id));
    assert.deepEqual(lost, [], 'objects are lost');
    const isHalfGone = missing.length > 0 && missing.length < removes.length;
    assert.ok(!isHalfGone, `only some are gone: ${missing} of ${removes}`);
    const strange = listed.filter((id) => !this.#known.has(id));
    const isConforming = strange.length === 0 || strange.length === makes;
    assert.ok(isConforming, `made twice, in part, or undead: ${strange}`);
    return listed;
  }

  #held(): string[] {
    const volumes = join(this.poolPath, 'volumes');
    const snapshots = join(this.poolPath, 'snapshots');
    return [
      ...(existsSync(volumes) ? readdirSync(volumes) : []),
      ...(existsSync(snapshots) ? snapshotFiles(snapshots) : []),
    ];
  }
}
