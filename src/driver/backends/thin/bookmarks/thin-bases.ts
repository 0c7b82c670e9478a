/**
 * What a thin pool retains of deleted snapshots (docs/retained-bases.md): the list of what changed from each one
 * to the next snapshot of its volume, and, of a newest snapshot, a bookmark until there is a next one.
 *
 * A list says what differed between two snapshots for ever, so what makes bookmarks unsound leaves the lists as
 * they are, except for metadata that somebody has replaced. Callers hold the locks of the snapshots that they
 * name. Knows no limits.
 */
import { CsiError, SystemError } from '../../../../base/errors.js';
import type { ChangeListSource } from '../../../native/change-list-addon.js';
import type { ThinDeviceDetails } from '../../../native/thin-addon.js';
import type { RetainedBase, RetainedBases } from '../../backend.js';
import { invalidatedBase, lostSnapshot } from '../../lost-objects.js';
import type { BookmarkRecord, DeviceRecord } from '../ledger/ledger.js';
import type { AsyncLedger } from '../ledger/ledger-client.js';
import type { MetadataReader } from '../metadata/metadata-reader.js';
import type { Bookmarks } from './bookmarks.js';
import type { RetainedSteps, Step } from './retained-steps.js';

export interface ThinBasesDependencies {
  ledger: AsyncLedger;
  metadata: Pick<MetadataReader, 'device'>;
  bookmarks: Bookmarks;
  steps: RetainedSteps;
  /** The configured name of the pool. */
  poolName: string;
}

/** What is retained, and what the pool still has. */
interface Contents {
  /** By the snapshot at which they begin. */
  steps: ReadonlyMap<string, readonly Step[]>;
  snapshots: ReadonlyMap<string, DeviceRecord>;
  bookmarks: ReadonlyMap<string, BookmarkRecord>;
}

/** As many as native code opens at once. */
const MAX_LISTS = 1024;

export class ThinBases {
  constructor(private readonly deps: ThinBasesDependencies) {}

  /** See Backend.retainBase. A bookmark is pending: the list to the next snapshot takes its place. */
  async retain(snapshotId: string, nextId: string | null): Promise<RetainedBase | null> {
    const { ledger, bookmarks, steps } = this.deps;
    const contents = await this.#contents();
    const next = nextId === null ? undefined : contents.snapshots.get(nextId);
    if (next !== undefined) {
      const known = contents.steps.get(snapshotId)?.find(({ targetId }) => targetId === nextId);
      // While the snapshot exists its list is made anew: a stored one may be damaged.
      const isNeeded = known === undefined || contents.snapshots.has(snapshotId);
      const base = isNeeded ? await this.#baseEnd(contents, snapshotId, next) : null;
      const step = base === null ? known : await steps.build(base, await this.#end(next));
      if (step !== undefined) {
        await bookmarks.drop(snapshotId);
        return retainedBase(snapshotId, [step]);
      }
    }
    if (!contents.snapshots.has(snapshotId) && this.#leadsOn(contents, snapshotId)) {
      const own = contents.steps.get(snapshotId) ?? [];
      if (own.length > 0) return retainedBase(snapshotId, own);
    }
    const known = await ledger.bookmark(snapshotId);
    if (known !== null && known.invalidReason !== null && !contents.snapshots.has(snapshotId)) {
      return retainedBase(snapshotId, []);
    }
    const bookmark = await bookmarks.create(snapshotId);
    return bookmark === null ? null : { ...bookmark, pending: true };
  }

  async list(): Promise<RetainedBases> {
    // Bookmarks first, as in #contents.
    const known = await this.deps.bookmarks.list();
    const contents = await this.#contents();
    const usable = new Map<string, RetainedBase>();
    const broken = new Map(known.invalidated.map((base) => [base.snapshotId, base]));
    for (const base of known.usable) usable.set(base.snapshotId, { ...base, pending: true });
    for (const [snapshotId, steps] of contents.steps) {
      if (contents.snapshots.has(snapshotId)) continue;
      if (this.#leadsOn(contents, snapshotId)) {
        usable.set(snapshotId, retainedBase(snapshotId, steps));
        broken.delete(snapshotId);
      } else if (!broken.has(snapshotId)) {
        broken.set(snapshotId, { snapshotId, reason: reasonOf(contents, snapshotId) });
      }
    }
    return { usable: [...usable.values()], invalidated: [...broken.values()] };
  }

  /** Lists that end at the snapshot are joined with those that begin there, so that older bases stay usable. */
  async drop(snapshotId: string): Promise<void> {
    const { bookmarks, steps } = this.deps;
    const contents = await this.#contents();
    const own = contents.steps.get(snapshotId) ?? [];
    const before = [...contents.steps.values()].flat().filter((s) => s.targetId === snapshotId);
    if (before.length > 0 && !contents.snapshots.has(snapshotId)) {
      const onward = await this.#onward(contents, own);
      for (const each of before) await this.#join(each, onward);
    }
    for (const step of own) await steps.remove(step);
    await bookmarks.drop(snapshotId);
  }

  /** Removes lists to the snapshot from others that exist: nobody needs them once it is deleted. */
  async snapshotIsGone(snapshotId: string): Promise<void> {
    const { ledger, steps } = this.deps;
    const ending = (await steps.all()).filter(({ targetId }) => targetId === snapshotId);
    for (const step of ending) {
      if ((await ledger.device(step.baseId)) !== null) await steps.remove(step);
    }
  }

  /**
   * The lists from a deleted snapshot to a live one. Makes the last of them if it is missing, which takes as long
   * as a scan. Null: no list begins at the base. NOT_FOUND if lists do, and lead nowhere; FAILED_PRECONDITION if
   * they lead to later snapshots, and not to the target.
   */
  async source(target: DeviceRecord, baseId: string): Promise<ChangeListSource | null> {
    const contents = await this.#contents();
    if (!contents.steps.has(baseId)) return null;
    const { creationTime: targetTime } = await this.#details(target);
    const isEnd = (id: string): boolean => id === target.objectId;
    const whole = await this.#path(contents, baseId, targetTime, isEnd);
    const path =
      whole ??
      (await this.#path(contents, baseId, targetTime, (id) => this.#continues(contents, id)));
    if (path === null) {
      // A list on the way may have been found damaged meanwhile.
      const left = await this.#contents();
      if (this.#leadsOn(left, baseId)) throw unrelated(baseId, target.objectId);
      const reason = left.bookmarks.get(baseId)?.invalidReason;
      throw invalidatedBase(baseId, reason ?? reasonOf(left, baseId));
    }
    if (whole === null) {
      const reachedId = path.at(-1)?.targetId;
      if (reachedId === undefined) return null;
      try {
        path.push(await this.#lastStep(contents, reachedId, target));
      } catch (thrown) {
        const left = await this.#contents();
        if (this.#continues(left, reachedId) || !left.steps.has(reachedId)) throw thrown;
        // Its bookmark has become a list meanwhile.
        return this.source(target, baseId);
      }
    }
    if (path.length > MAX_LISTS) {
      throw CsiError.failedPrecondition(
        `no delta from snapshot ${baseId} to ${target.objectId}: ${path.length} lists lie between them, of which ` +
          `at most ${MAX_LISTS} can be joined; make a full backup`,
      );
    }
    return {
      kind: 'lists',
      sizeBytes: target.sizeBytes,
      paths: path.map((step) => step.path),
      targetId: target.objectId,
      baseId,
      target: null,
      base: null,
      thin: { targetTime, baseTime: null },
    };
  }

  /** Removes a list that a scan has refused: the base at which it begins is lost. */
  async discard(path: string): Promise<void> {
    const { snapshots, steps } = await this.#contents();
    const step = [...steps.values()].flat().find((each) => each.path === path);
    if (step === undefined) return;
    if (!snapshots.has(step.baseId)) await this.#invalidate(step.baseId, DAMAGED);
    await this.deps.steps.remove(step);
  }

  /** Metadata that was replaced may give other content to the snapshots that the lists name. */
  async distrust(reason: string): Promise<void> {
    const { snapshots, steps } = await this.#contents();
    for (const step of [...steps.values()].flat()) {
      if (!snapshots.has(step.baseId)) await this.#invalidate(step.baseId, reason);
      await this.deps.steps.remove(step);
    }
  }

  /** Snapshots, bookmarks, lists: where one of these is gone, the next one was made before that, and is found. */
  async #contents(): Promise<Contents> {
    const { ledger } = this.deps;
    const devices = (await ledger.devices()).filter(({ kind }) => kind === 'snapshot');
    const bookmarks = await ledger.bookmarks();
    const steps = new Map<string, Step[]>();
    for (const step of await this.deps.steps.all()) {
      steps.set(step.baseId, [...(steps.get(step.baseId) ?? []), step]);
    }
    return {
      steps,
      snapshots: new Map(devices.map((device) => [device.objectId, device])),
      bookmarks: new Map(bookmarks.map((base) => [base.snapshotId, base])),
    };
  }

  /** Whether deltas to later snapshots can be made from what the pool has of this one itself. */
  #continues({ snapshots, bookmarks }: Contents, snapshotId: string): boolean {
    return snapshots.has(snapshotId) || bookmarks.get(snapshotId)?.invalidReason === null;
  }

  /** The same, or from what its lists lead to. */
  #leadsOn(contents: Contents, from: string): boolean {
    const seen = new Set<string>();
    const waiting = [from];
    for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
      if (this.#continues(contents, id)) return true;
      if (seen.has(id)) continue;
      seen.add(id);
      waiting.push(...(contents.steps.get(id) ?? []).map(({ targetId }) => targetId));
    }
    return false;
  }

  /** The shortest way to an end, over snapshots that are not younger than the target. Null: there is none. */
  async #path(
    { steps }: Contents,
    from: string,
    targetTime: number,
    isEnd: (id: string) => boolean,
  ): Promise<Step[] | null> {
    const seen = new Set([from]);
    const waiting: { id: string; path: Step[] }[] = [{ id: from, path: [] }];
    for (let at = waiting.shift(); at !== undefined; at = waiting.shift()) {
      if (isEnd(at.id)) return at.path;
      for (const step of steps.get(at.id) ?? []) {
        if (seen.has(step.targetId) || (await this.#time(step)) > targetTime) continue;
        seen.add(step.targetId);
        waiting.push({ id: step.targetId, path: [...at.path, step] });
      }
    }
    return null;
  }

  /**
   * Of the lists that begin at one snapshot those that deltas to all later ones need, to the earliest first: none
   * behind one whose target continues, for a delta to a later snapshot passes there.
   */
  async #onward(contents: Contents, own: readonly Step[]): Promise<Step[]> {
    const timed: { step: Step; time: number }[] = [];
    for (const step of own) {
      if (!this.#leadsOn(contents, step.targetId)) continue;
      const time = await this.#time(step);
      if (Number.isFinite(time)) timed.push({ step, time });
    }
    const ordered = timed.sort((a, b) => a.time - b.time).map(({ step }) => step);
    const last = ordered.findIndex(({ targetId }) => this.#continues(contents, targetId));
    return last < 0 ? ordered : ordered.slice(0, last + 1);
  }

  /** Infinity: the list is damaged, and is removed. */
  async #time(step: Step): Promise<number> {
    try {
      return await this.deps.steps.targetTime(step);
    } catch (thrown) {
      if (!(thrown instanceof SystemError)) throw thrown;
      if (thrown.code === 'LIST_INVALID') await this.discard(step.path);
      return Number.POSITIVE_INFINITY;
    }
  }

  async #lastStep(contents: Contents, fromId: string, target: DeviceRecord): Promise<Step> {
    const from = contents.snapshots.get(fromId) ?? contents.bookmarks.get(fromId);
    if (from !== undefined && from.lineage !== target.lineage) {
      throw CsiError.failedPrecondition(
        `no delta from snapshot ${fromId} to ${target.objectId}: the first one is of volume ${from.lineage}, the ` +
          `target of volume ${target.lineage}; make a full backup`,
      );
    }
    const base = await this.#baseEnd(contents, fromId, target);
    if (base === null) throw lostSnapshot(fromId, this.deps.poolName);
    return this.deps.steps.build(base, await this.#end(target));
  }

  /** The snapshot itself, or its bookmark. Null: the pool has neither. Fails as Bookmarks.source does. */
  async #baseEnd(
    { snapshots, bookmarks }: Contents,
    snapshotId: string,
    target: DeviceRecord,
  ): Promise<Parameters<RetainedSteps['build']>[0] | null> {
    const device = snapshots.get(snapshotId);
    if (device !== undefined) return { ...(await this.#end(device)), bookmarkPath: null };
    const bookmark = bookmarks.get(snapshotId);
    if (bookmark?.invalidReason !== null) return null;
    const { path } = await this.deps.bookmarks.source(snapshotId, target);
    const { sizeBytes } = bookmark;
    return { id: snapshotId, sizeBytes, device: null, bookmarkPath: path };
  }

  async #end(record: DeviceRecord): Promise<Parameters<RetainedSteps['build']>[1]> {
    const { root } = await this.#details(record);
    const { objectId: id, sizeBytes, deviceId } = record;
    return { id, sizeBytes, device: { deviceId, root } };
  }

  async #details({ objectId, deviceId, madeAt }: DeviceRecord): Promise<ThinDeviceDetails> {
    const details = await this.deps.metadata.device(deviceId);
    if (details?.transactionId === madeAt) return details;
    throw lostSnapshot(objectId, this.deps.poolName);
  }

  /** A list that cannot be joined stays, and the base at which it begins ends at a snapshot that is gone. */
  async #join(older: Step, onward: readonly Step[]): Promise<void> {
    try {
      for (const newer of onward) await this.deps.steps.join(older, newer);
      if (onward.length > 0) await this.deps.steps.remove(older);
    } catch (thrown) {
      if (!(thrown instanceof SystemError)) throw thrown;
    }
  }

  /** Keeps the reason; a bookmark that is there stays as it is. */
  async #invalidate(snapshotId: string, invalidReason: string): Promise<void> {
    const none = { lineage: '', sizeBytes: 0n, creationTime: 0, storedBytes: 0n };
    await this.deps.ledger.insertBookmark({ snapshotId, ...none, invalidReason });
  }
}

const DAMAGED = 'its stored change list is damaged';

function unrelated(baseId: string, targetId: string): CsiError {
  return CsiError.failedPrecondition(
    `no delta from snapshot ${baseId} to ${targetId}: the change lists from the first one, which is deleted, lead ` +
      'to other snapshots, and the target is of another volume or not later; make a full backup',
  );
}

function retainedBase(snapshotId: string, steps: readonly Step[]): RetainedBase {
  return { snapshotId, storedBytes: steps.reduce((sum, step) => sum + step.storedBytes, 0n) };
}

/** Why no delta can begin at a deleted snapshot: what happened to the one at which the lists from it end. */
function reasonOf({ steps, bookmarks }: Contents, snapshotId: string): string {
  const seen = new Set<string>();
  let id = snapshotId;
  for (let next = steps.get(id)?.[0]; next !== undefined && !seen.has(id); ) {
    seen.add(id);
    id = next.targetId;
    next = steps.get(id)?.[0];
  }
  const reason =
    bookmarks.get(id)?.invalidReason ?? 'its change list to the next snapshot is not in the pool';
  return id === snapshotId
    ? reason
    : `snapshot ${id} comes after it and is deleted too, and ${reason}`;
}
