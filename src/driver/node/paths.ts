/**
 * The paths that requests name, judged before anything is done with them.
 *
 * A path is resolved once: what is done later is done to the resolved one. Paths that the
 * plugin or the system depends on are refused, and paths inside a volume, which belong to its workload.
 * A volume_path is not judged: it is only compared with the mounts there are, and found nowhere.
 */
import { realpath } from 'node:fs/promises';
import { dirname } from 'node:path';
import { volumeIdIn } from '../../base/csi/handles.js';
import { CsiError } from '../../base/errors.js';
import { deviceLabel } from '../../base/system/device-attributes.js';
import { type MountEntry, mountContaining, readMountInfo } from '../../base/system/mountinfo.js';
import type { PublicationRecord, StagingRecord } from '../catalogue/records.js';
import { hiddenMountReason } from '../host/propagation.js';
import { isWithin, protectedReason } from '../host/protected-paths.js';
import { kernelPath } from '../host/target.js';
import type { NodeDependencies } from './dependencies.js';

type Deps = Pick<NodeDependencies, 'config' | 'catalogue'>;

/** Where something is to be released. */
export interface Place<Uses> {
  /** As the caller names it. */
  path: string;
  /** Without symbolic links: as recorded, or as the path leads now; null: its parent does not exist. */
  resolved: string | null;
  /** Of the volume in question, at that path. */
  record: Uses | null;
}

/** What is on record is released where it was made; anything else is judged like a path to be used. */
export async function publicationPlace(deps: Deps, volumeId: string, path: string): Promise<Place<PublicationRecord>> {
  const found = await deps.catalogue.publicationAt(path);
  const record = found?.volumeId === volumeId ? found : null;
  return { path, resolved: await resolvedPlace(deps, path, record, 'target_path'), record };
}

export async function stagingPlace(deps: Deps, volumeId: string, path: string): Promise<Place<StagingRecord>> {
  const records = await deps.catalogue.stagings(volumeId);
  const record = records.find(({ stagingPath }) => stagingPath === path) ?? null;
  return { path, resolved: await resolvedPlace(deps, path, record, 'staging_target_path'), record };
}

async function resolvedPlace(
  deps: Deps,
  path: string,
  record: { resolvedPath: string | null } | null,
  field: string,
): Promise<string | null> {
  if (record === null) return resolveUsable(deps, path, field);
  return record.resolvedPath ?? kernelPath(path);
}

/**
 * The path without symbolic links (the last component is as it is); null if its parent does not exist.
 * INVALID_ARGUMENT if no volume is ever put there.
 */
export async function resolveUsable(
  { config }: Pick<Deps, 'config'>,
  path: string,
  field: string,
  current?: readonly MountEntry[],
): Promise<string | null> {
  const { stateDirectory, legacyStagingDirectory, pools, socketPath } = config;
  const [resolved, mounts, trees, directories, stagings] = await Promise.all([
    kernelPath(path),
    current ?? readMountInfo(),
    withResolved([stateDirectory, ...pools.map(({ directory }) => directory)]),
    withResolved([dirname(socketPath)]),
    withResolved([legacyStagingDirectory]),
  ]);
  const reason =
    protectedReason(path, resolved, { trees, directories }, mounts) ??
    // By name alone: what is published shows what is staged there, under another name.
    (field === 'target_path' ? reasonWithin(stagings, [path, resolved ?? path]) : null) ??
    (resolved === null ? null : await volumeAround(mounts, resolved));
  if (reason === null) return resolved;
  throw CsiError.invalidArgument(
    `${field} ${path} cannot be used: ${reason}; nothing was touched. Name a directory of the orchestrator's own`,
  );
}

/**
 * FAILED_PRECONDITION if what is mounted at the path would be seen by the plugin alone.
 *
 * @param resolved from resolveUsable; null: nothing will be mounted
 */
export async function assertSeenByCaller(
  { config }: Pick<Deps, 'config'>,
  { path, field, resolved }: { path: string; field: string; resolved: string | null },
  mounts: readonly MountEntry[],
): Promise<void> {
  if (resolved === null) return;
  const reason = await hiddenMountReason(resolved, config.mountPropagation, mounts);
  if (reason === null) return;
  throw CsiError.failedPrecondition(
    `${field} ${path}: a mount there would be seen by the plugin alone, and the workload would write to the ` +
      `disk below: ${reason}. Mount that directory into the plugin's container with bidirectional propagation ` +
      '(rshared), or set BLOCKDELTA_MOUNT_PROPAGATION=off if its callers are in its mount namespace',
  );
}

/** The operator may name directories by symbolic links too; one that does not exist leads nowhere. */
async function withResolved(paths: readonly string[]): Promise<string[]> {
  const resolved = await Promise.all(paths.map((path) => realpath(path).catch(() => path)));
  return [...new Set([...paths, ...resolved])];
}

function reasonWithin(trees: readonly string[], paths: readonly string[]): string | null {
  const tree = trees.find((each) => paths.some((path) => isWithin(each, path)));
  return tree === undefined ? null : `it lies in ${tree}`;
}

/** Of a path whose parent directory is in the file system of a volume. */
async function volumeAround(mounts: readonly MountEntry[], resolved: string): Promise<string | null> {
  const entry = mountContaining(mounts, dirname(resolved));
  const label = entry === null ? null : await deviceLabel(entry.device);
  const volumeId = label === null ? null : volumeIdIn(label);
  return volumeId === null ? null : `it lies inside volume ${volumeId}`;
}
