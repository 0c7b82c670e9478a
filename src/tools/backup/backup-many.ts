/**
 * Backs up many snapshots: those of one volume one after another, oldest first, so that each can be the base of the next;
 * several volumes at once. A failure of one snapshot stops no other. Knows no command line.
 */
import { nodeKey, nodeKeyOf } from '../../base/csi/handles.js';
import { CsiError, StatusCode } from '../../base/errors.js';
import { type CsiDriver, probeReady } from '../client/csi-driver.js';
import { InterruptedError } from '../client/resumable-stream.js';
import { describeSnapshot, listSnapshots, type SnapshotInfo } from '../client/snapshot-info.js';
import type { BackupResult } from './backup.js';

export interface Outcome {
  readonly snapshotId: string;
  /** Null if it is not known. */
  readonly volumeId: string | null;
  /** Of a snapshot that was skipped: why. */
  readonly end: { readonly result: BackupResult } | { readonly skipped: string } | { readonly failure: unknown };
}

export interface ManyRequest {
  driver: CsiDriver;
  /** Null: all that the driver lists. */
  snapshotIds: readonly string[] | null;
  /** The volume of each, for a driver that cannot report it; null to ask the driver. */
  volumeId: string | null;
  /** How many volumes at once. */
  jobs: number;
  signal: AbortSignal;
  backUp(snapshotId: string): Promise<BackupResult>;
  /** Called when a snapshot has its backup, or has none for good. */
  onOutcome(outcome: Outcome): Promise<void>;
}

/** A snapshot before its backup is made. */
interface Found {
  readonly snapshotId: string;
  readonly volumeId: string;
  /** In milliseconds. */
  readonly time: number;
}

/** Rejects with the driver's refusal to list its snapshots, and the signal's reason. */
export async function backUpMany(request: ManyRequest): Promise<Outcome[]> {
  const { jobs, signal, onOutcome } = request;
  const outcomes: Outcome[] = [];
  const end = async (outcome: Outcome): Promise<void> => {
    outcomes.push(outcome);
    await onOutcome(outcome);
  };
  const found: Found[] = [];
  for await (const each of find(request)) await ('end' in each ? end(each) : found.push(each));
  const volumes = [...groupedByVolume(found).values()];
  const attempt = attempts(request);
  const work = async (): Promise<void> => {
    for (let of = volumes.shift(); of !== undefined; of = volumes.shift()) {
      for (const each of of.sort((a, b) => a.time - b.time)) await end(await attempt(each));
    }
  };
  const workers = await Promise.allSettled(Array.from({ length: jobs }, work));
  signal.throwIfAborted();
  for (const worker of workers) if (worker.status === 'rejected') throw worker.reason;
  return outcomes;
}

function groupedByVolume(found: readonly Found[]): Map<string, Found[]> {
  const volumes = new Map<string, Found[]>();
  for (const each of found) volumes.set(each.volumeId, [...(volumes.get(each.volumeId) ?? []), each]);
  return volumes;
}

/** Yields what is to be backed up, and the outcomes of snapshots for which nothing can be tried. */
async function* find({ driver, snapshotIds, volumeId, signal }: ManyRequest): AsyncGenerator<Found | Outcome> {
  const { nodeId } = await driver.info();
  /** Whether the handle is one of ours that names another node. */
  const isElsewhere = (id: string): boolean => nodeId !== '' && ![null, nodeKey(nodeId)].includes(nodeKeyOf(id));
  const describe = async (snapshotId: string): Promise<Found | Outcome> => {
    if (isElsewhere(snapshotId)) return { snapshotId, volumeId, end: { skipped: 'it is on another node' } };
    if (volumeId !== null) return { snapshotId, volumeId, time: 0 };
    try {
      return toFound(await describeSnapshot(driver, snapshotId));
    } catch (thrown) {
      signal.throwIfAborted();
      // A handle that names no node may be one of another node.
      const isUnknown = CsiError.from(thrown).code === StatusCode.NOT_FOUND && nodeKeyOf(snapshotId) === null;
      const end = isUnknown ? { skipped: 'the driver of this node does not know it' } : { failure: thrown };
      return { snapshotId, volumeId, end };
    }
  };
  if (snapshotIds !== null) {
    for (const id of new Set(snapshotIds)) yield describe(id);
    return;
  }
  for (const snapshot of await listSnapshots(driver)) {
    yield isElsewhere(snapshot.snapshotId) ? describe(snapshot.snapshotId) : toFound(snapshot);
  }
}

const toFound = ({ snapshotId, volumeId, creationTime }: SnapshotInfo): Found => ({
  snapshotId,
  volumeId,
  time: creationTime.getTime(),
});

/** Returns the function that backs up one snapshot. */
function attempts({ driver, signal, backUp }: ManyRequest): (snapshot: Found) => Promise<Outcome> {
  /** Set once the driver is gone, so that not each of a thousand snapshots waits for it. */
  let gone: unknown = null;
  return async ({ snapshotId, volumeId }) => {
    if (gone !== null) return { snapshotId, volumeId, end: { failure: gone } };
    try {
      return { snapshotId, volumeId, end: { result: await backUp(snapshotId) } };
    } catch (thrown) {
      signal.throwIfAborted();
      const mayBeGone = thrown instanceof InterruptedError || CsiError.from(thrown).code === StatusCode.UNAVAILABLE;
      if (mayBeGone && (await probeReady(driver.socketPath)) !== null) gone = thrown;
      return { snapshotId, volumeId, end: { failure: thrown } };
    }
  };
}
