/** The volumes and snapshots that exist by what was answered, compared with the plugin's lists and with the pool. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Orchestrator } from '../support/orchestrator.js';
import { assertPromised, type Unanswered } from '../support/promised-objects.js';
import { snapshotFiles } from '../support/snapshot-files.js';

export class KnownObjects {
  readonly #ids = new Set<string>();

  constructor(
    private readonly orchestrator: Orchestrator,
    /** The directory with volumes/ and snapshots/. */
    private readonly poolPath: string,
  ) {}

  get ids(): readonly string[] {
    return [...this.#ids];
  }

  add(...ids: readonly string[]): void {
    for (const id of ids) this.#ids.add(id);
  }

  remove(...ids: readonly string[]): void {
    for (const id of ids) this.#ids.delete(id);
  }

  /**
   * What is listed conforms, and the pool holds just that: after a start, and after an answer.
   *
   * @param unanswered.hides how many snapshots the call may have made that are in no list
   */
  async check(unanswered?: Unanswered & { hides?: number }): Promise<void> {
    const listed = await this.checkListed(unanswered);
    const held = this.#held();
    const hidden = held.filter((id) => !listed.includes(id));
    const shown = hidden.length > (unanswered?.hides ?? 0) ? held : held.filter((id) => listed.includes(id));
    assert.deepEqual(shown.sort(), listed.sort(), 'the pool holds what is listed');
  }

  /** Resolves to what is listed, which conforms. */
  async checkListed(unanswered?: Unanswered): Promise<string[]> {
    const listed = [...(await this.orchestrator.volumeIds()), ...(await this.orchestrator.snapshotIds())];
    assertPromised(listed, this.ids, unanswered);
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
