/**
 * Rules of volume and pool health: turns observations into the conditions that they mean.
 *
 * A condition lasts as long as it is observed; this file remembers nothing and observes nothing itself
 * (the files beside it do). DATA_LOSS means that content is gone or about to go, INACCESSIBLE that reading or
 * writing fails, DEGRADED that the volume works but needs attention. docs/health.md lists all conditions.
 */
import type { PoolCapacity, StorageCondition } from '../backends/backend.js';
import { FULL_BYTES, NEARLY_FULL_FREE_PERCENT } from '../backends/pool-levels.js';
import { limitedText } from '../csi/messages.js';
import type { PendingCall } from '../native/call-places.js';

export type HealthStatus = 'DEGRADED' | 'INACCESSIBLE' | 'DATA_LOSS';

export interface HealthEntry {
  status: HealthStatus;
  /** One CamelCase word for programs. */
  reason: string;
  /** For people; at most 128 bytes. */
  message: string;
}

export interface PoolObservations {
  /** Why the pool cannot be asked; null if it can. */
  failure: string | null;
  /** Null if the pool cannot be asked. */
  capacity: PoolCapacity | null;
}

/** What can be seen of a volume's storage, independent of its use. */
export interface StorageObservations {
  /** The size in the catalogue. */
  sizeBytes: bigint;
  pool: PoolObservations;
  /** A call of the plugin that waits for the volume's file system or device; null if none does. */
  pending: PendingCall | null;
  /** Null if the pool cannot be asked. */
  condition: StorageCondition | null;
  /** Why a snapshot of the volume has no copy on another node yet; null if none lacks one after an attempt. */
  copyFailure: string | null;
}

/** What can be seen of a file system where the volume is staged or published. */
export interface FileSystemObservations {
  path: string;
  /** The whole file system is read-only. */
  readOnly: boolean;
  /** The volume was staged or published there to be written to. */
  wantsWriting: boolean;
  /** The file system has given up after a failure, and every access fails. */
  shutDown: boolean;
  /** The file system did not answer in time. */
  silent: boolean;
  /** Failures that the kernel has counted, including those before a restart if the file system records them. */
  errors: number;
  /** How many of the errors are corruptions: content that was read back differently from what was written. */
  corruptions: number;
}

export interface UseObservations {
  /** Recorded paths with a device node that no longer belongs to the volume. */
  detachedAt: readonly string[];
  /** Device settings that the volume's parameters ask for and that are not in force. */
  settingsMissing: readonly string[];
  fileSystems: readonly FileSystemObservations[];
}

/** Most calls end within moments. A longer replay of a journal, or a longer clone, also keeps the volume from being used. */
const HANGS_MS = 60_000;

/** The hook of a backup freezes a file system only for the time of a snapshot, which is shorter than this. */
const HOOKED_MS = 600_000;

const ORDER: readonly HealthStatus[] = ['DATA_LOSS', 'INACCESSIBLE', 'DEGRADED'];

/** The conditions of a volume, the worst first, each pair of status and reason once. */
export function volumeConditions(storage: StorageObservations, use: UseObservations | null): HealthEntry[] {
  const found = [
    ...storageConditions(storage),
    ...(use?.detachedAt ?? []).map(detached),
    ...settingConditions(use?.settingsMissing ?? []),
    ...(use?.fileSystems ?? []).flatMap(fileSystemConditions),
  ];
  const unique = new Map<string, HealthEntry>();
  for (const entry of found) {
    const key = `${entry.status} ${entry.reason}`;
    if (!unique.has(key)) unique.set(key, entry);
  }
  return [...unique.values()].sort((a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status));
}

/** A volume's state in one sentence, for orchestrators that know no more (CSI 1.12 and before). */
export interface VolumeCondition {
  abnormal: boolean;
  message: string;
}

export function summary(entries: readonly HealthEntry[]): VolumeCondition {
  const [worst, ...others] = entries;
  if (worst === undefined) return { abnormal: false, message: 'the volume is healthy' };
  const more = others.length === 0 ? '' : ` (and ${others.length} more)`;
  return { abnormal: true, message: limitedText(`${worst.reason}${more}: ${worst.message}`) };
}

/** What is wrong with a pool, for all of its volumes. */
export function poolConditions(
  name: string,
  { failure, capacity }: PoolObservations,
): { status: 'STORAGE_DEGRADED' | 'STORAGE_UNREACHABLE'; reason: string; message: string }[] {
  if (failure !== null) {
    const message = limitedText(`pool '${name}': ${failure}`);
    return [{ status: 'STORAGE_UNREACHABLE', reason: 'PoolUnreachable', message }];
  }
  return spaceConditions(capacity).map(({ reason, message }) => ({
    status: 'STORAGE_DEGRADED',
    reason,
    message: limitedText(`pool '${name}': ${message}`),
  }));
}

function storageConditions(found: StorageObservations): HealthEntry[] {
  const { sizeBytes, pool, condition } = found;
  if (pool.failure !== null) return [entry('INACCESSIBLE', 'PoolUnreachable', pool.failure)];
  return [...contentConditions(sizeBytes, condition), ...copyConditions(found), ...spaceConditions(pool.capacity)];
}

/** Freezes nothing to find a freeze: a call that waits for a thaw shows it, or a snapshot that found one in place. */
function copyConditions({ pending, condition, copyFailure }: StorageObservations): HealthEntry[] {
  const entries: HealthEntry[] = [];
  if (copyFailure !== null) entries.push(entry('DEGRADED', 'CopyFails', `no copy on another node: ${copyFailure}`));
  if (pending !== null && pending.forMs >= HANGS_MS) {
    const seconds = Math.floor(pending.forMs / 1000);
    const message = `${pending.what} has waited ${seconds} s: if it is frozen, fsfreeze --unfreeze; see its disk`;
    entries.push(entry('DEGRADED', 'CallHangs', message));
  }
  const frozenForMs = condition?.frozenForMs ?? 0;
  if (frozenForMs >= HOOKED_MS) {
    const minutes = Math.floor(frozenForMs / 60_000);
    const message = `frozen by another program ${minutes} min ago, nothing written since; if no backup runs, fsfreeze --unfreeze`;
    entries.push(entry('DEGRADED', 'FileSystemFrozen', message));
  }
  const longCopy = condition?.longCopy ?? null;
  if (longCopy !== null) {
    const { extents, allowedMs } = longCopy;
    const found =
      extents === null
        ? `its last snapshot took over half of ${allowedMs} ms`
        : `no snapshot: its ${extents} extents take over ${allowedMs} ms`;
    const message = `${found}; copy it to a new volume, or raise the limit`;
    entries.push(entry('DEGRADED', 'CloneTooLong', message));
  }
  return entries;
}

function contentConditions(sizeBytes: bigint, found: StorageCondition | null): HealthEntry[] {
  if (found === null) return [];
  if (found.runsOnRemoved) {
    const message = 'its file was removed while in use; copy the data away before its device goes';
    return [entry('DATA_LOSS', 'BackingFileDeleted', message)];
  }
  if (found.storedBytes === null) {
    const message = 'its file is gone from the pool; restore a snapshot or a backup';
    return [entry('DATA_LOSS', 'BackingFileMissing', message)];
  }
  if (found.storedBytes >= sizeBytes) return [];
  const message = `its file was truncated to ${found.storedBytes} of ${sizeBytes} bytes; restore a snapshot or a backup`;
  return [entry('DATA_LOSS', 'BackingFileTruncated', message)];
}

function spaceConditions(capacity: PoolCapacity | null): HealthEntry[] {
  if (capacity === null) return [];
  return [...freeSpaceConditions(capacity), ...promiseConditions(capacity)];
}

function promiseConditions({ lacksBacking = false }: PoolCapacity): HealthEntry[] {
  if (!lacksBacking) return [];
  const message = 'the host does not hold all of the pool image and can cost it data; free space there and restart';
  return [entry('DEGRADED', 'PoolImageIncomplete', message)];
}

function freeSpaceConditions(capacity: PoolCapacity): HealthEntry[] {
  const { freeBytes, reserveBytes, totalBytes } = capacity;
  const share = (totalBytes * NEARLY_FULL_FREE_PERCENT) / 100n;
  if (freeBytes < FULL_BYTES) {
    const message = `${freeBytes} bytes are free: writes fail; delete snapshots or volumes, add space`;
    return [entry('INACCESSIBLE', 'PoolOutOfSpace', message)];
  }
  if (freeBytes >= (reserveBytes > share ? reserveBytes : share)) return [];
  const message = `${freeBytes} of ${totalBytes} bytes are free; delete snapshots or volumes, add space`;
  return [entry('DEGRADED', 'PoolNearlyFull', message)];
}

function detached(path: string): HealthEntry {
  const message = `its device was detached under ${path}; unpublish, unstage and stage it again`;
  return entry('INACCESSIBLE', 'DeviceDetached', message);
}

function settingConditions(missing: readonly string[]): HealthEntry[] {
  if (missing.length === 0) return [];
  const message = `not possible on this node, or not now: ${missing.join(', ')}; change it with ControllerModifyVolume`;
  return [entry('DEGRADED', 'SettingNotInForce', message)];
}

function fileSystemConditions(found: FileSystemObservations): HealthEntry[] {
  const { path, errors, corruptions } = found;
  const entries: HealthEntry[] = [];
  if (found.silent) {
    entries.push(entry('INACCESSIBLE', 'FileSystemNotResponding', `no answer from ${path}`));
  }
  if (found.shutDown) {
    const message = `it has shut down after a failure; unstage and stage it again (${path})`;
    entries.push(entry('INACCESSIBLE', 'FileSystemShutDown', message));
  }
  if (found.readOnly && found.wantsWriting) {
    const message = `it became read-only; unstage and stage it again (${path})`;
    entries.push(entry('INACCESSIBLE', 'FileSystemReadOnly', message));
  }
  if (corruptions > 0) {
    const message = `${corruptions} blocks were damaged; compare with a backup (${path})`;
    entries.push(entry('DATA_LOSS', 'FileSystemCorruption', message));
  }
  if (errors > corruptions) {
    const message = `the kernel counted ${errors} error(s); unstage it and have it checked (${path})`;
    entries.push(entry('DEGRADED', 'FileSystemErrors', message));
  }
  return entries;
}

function entry(status: HealthStatus, reason: string, message: string): HealthEntry {
  return { status, reason, message: limitedText(message) };
}
