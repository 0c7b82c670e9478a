/**
 * Checks the paths that requests name before anything is done with them.
 *
 * A path is resolved once, and every later step uses the resolved path. Paths that the plugin or the system depends on are
 * refused, and so are paths inside a volume, which belong to its workload. A volume_path is not checked: it is only compared
 * with the mounts, and a wrong path matches none of them.
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
import type { NodeDependencies } from './node-dependencies.js';

type Deps = Pick<NodeDependencies, 'config' | 'catalogue'>;

/** The place of a staging or a publication. */
export interface Place<Uses> {
  /** As the caller names it. */
  path: string;
  /** The path without symbolic links, as recorded or as it leads now; null if its parent does not exist. */
  resolved: string | null;
  /** The record of the volume in question at that path; null if there is none. */
  record: Uses | null;
}

/** The place of a recorded publication is where it was made. Any other path is checked like a path to be used. */
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
 * The path without symbolic links (the last component stays as it is); null if its parent does not exist. INVALID_ARGUMENT if
 * no volume may be put there.
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
    // Compares names only, because a publication shows the staged file system under another name.
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
 * @param resolved from resolveUsable; null if nothing will be mounted
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

/** Adds the resolved paths: the operator may name directories by symbolic links. A path that does not exist stays as it is. */
async function withResolved(paths: readonly string[]): Promise<string[]> {
  const resolved = await Promise.all(paths.map((path) => realpath(path).catch(() => path)));
  return [...new Set([...paths, ...resolved])];
}

function reasonWithin(trees: readonly string[], paths: readonly string[]): string | null {
  const tree = trees.find((each) => paths.some((path) => isWithin(each, path)));
  return tree === undefined ? null : `it lies in ${tree}`;
}

/** The reason against a path whose parent directory is in the file system of a volume; null for any other path. */
async function volumeAround(mounts: readonly MountEntry[], resolved: string): Promise<string | null> {
  const entry = mountContaining(mounts, dirname(resolved));
  const label = entry === null ? null : await deviceLabel(entry.device);
  const volumeId = label === null ? null : volumeIdIn(label);
  return volumeId === null ? null : `it lies inside volume ${volumeId}`;
}
