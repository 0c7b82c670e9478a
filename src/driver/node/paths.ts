/**
 * Checks the paths that requests name before anything is done with them.
 *
 * A path is resolved once, and every later step uses the resolved path. Paths that the plugin or the system depends on are
 * refused, and so are paths inside a volume, which belong to its workload. A volume_path is not checked: it is only compared
 * with the mounts, and a wrong path matches none of them.
 */
import { dirname } from 'node:path';
import { volumeIdIn } from '../../base/csi/handles.js';
import { CsiError } from '../../base/errors.js';
import type { MountEntry } from '../../base/system/mountinfo.js';
import type { PublicationRecord, StagingRecord, VolumeRecord, VolumeUses } from '../catalogue/records.js';
import { hiddenMountReason } from '../host/propagation.js';
import { isWithin, protectedReason, SYSTEM_TREES } from '../host/protected-paths.js';
import { kernelPath } from '../host/target.js';
import type { Look, LookRequest, SeenPath } from '../native/look-calls.js';
import { type Seen, seeVolume, type ViewSources } from '../usage/volume-view.js';
import type { NodeDependencies } from './node-dependencies.js';

type Deps = Pick<NodeDependencies, 'config' | 'native'>;

export type PathField = 'staging_target_path' | 'target_path';

/** The place of a staging or a publication. */
export interface Place<Uses> {
  /** As the caller names it. */
  path: string;
  /** The path without symbolic links, as recorded or as it leads now; null if its parent does not exist. */
  resolved: string | null;
  /** The record of the volume in question at that path; null if there is none. */
  record: Uses | null;
  /** The volume's publications as they were recorded when the call began. */
  publications: readonly PublicationRecord[];
}

/** A record that says where its path led. */
export interface Recorded {
  resolvedPath: string | null;
}

/** The place of a recorded publication is where it was made. Any other path is checked like a path to be used. */
export async function publicationPlace(
  deps: Deps,
  { publications }: VolumeUses,
  path: string,
): Promise<Place<PublicationRecord>> {
  const record = publications.find(({ targetPath }) => targetPath === path) ?? null;
  return { path, resolved: await resolvedPlace(deps, path, record, 'target_path'), record, publications };
}

/** As publicationPlace. */
export async function stagingPlace(deps: Deps, uses: VolumeUses, path: string): Promise<Place<StagingRecord>> {
  const record = stagingAt(uses, path);
  const resolved = await resolvedPlace(deps, path, record, 'staging_target_path');
  return { path, resolved, record, publications: uses.publications };
}

export function stagingAt({ stagings }: VolumeUses, path: string): StagingRecord | null {
  return stagings.find(({ stagingPath }) => stagingPath === path) ?? null;
}

export function placesOf(records: readonly Recorded[]): string[] {
  return records.map(({ resolvedPath }) => resolvedPath).filter((path) => path !== null);
}

/** What a look of seePlace or lookAround has seen at the place, the first of its paths. */
export function placeSeen({ paths }: Look): SeenPath {
  const [seen] = paths;
  if (seen === undefined) throw new Error('a look without a path');
  return seen;
}

/** What a call sees of the volume and of a place, before it acts and again afterwards. */
export function seePlace(
  deps: Deps & ViewSources,
  volume: VolumeRecord,
  { path, resolved, publications }: Place<unknown>,
): Promise<Seen> {
  return seeVolume(deps, volume, lookAt(resolved ?? path, ...placesOf(publications)));
}

async function resolvedPlace(
  deps: Deps,
  path: string,
  record: Recorded | null,
  field: PathField,
): Promise<string | null> {
  if (record === null) return usablePath(deps, await lookAround(deps, path), path, field);
  return record.resolvedPath ?? kernelPath(path);
}

/** One look at a path and at whatever decides whether it may be used. */
export function lookAround({ config, native }: Deps, path: string): Promise<Look> {
  return native.run('look', lookForUse({ config }, [path]));
}

/** A look at these paths, at whatever decides whether the first may be used, and at no device. */
export function lookForUse({ config }: Pick<Deps, 'config'>, paths: readonly string[]): LookRequest {
  const { stateDirectory, legacyStagingDirectory, pools, socketPath } = config;
  const trees = [stateDirectory, ...pools.map(({ directory }) => directory)];
  const places = [dirname(socketPath), legacyStagingDirectory, ...SYSTEM_TREES];
  return { paths, guarded: { trees, places }, devicePath: null };
}

/** A look at these paths alone, each once. */
export function lookAt(...paths: string[]): LookRequest {
  return { paths: [...new Set(paths)], guarded: null, devicePath: null };
}

/**
 * The path without symbolic links (the last component stays as it is); null if its parent does not exist. INVALID_ARGUMENT if
 * no volume may be put there.
 *
 * @param look of lookForUse, with the path as its first
 */
export function usablePath(
  { config }: Pick<Deps, 'config'>,
  look: Look,
  path: string,
  field: PathField,
): string | null {
  const { stateDirectory, legacyStagingDirectory, pools, socketPath } = config;
  const { resolved } = placeSeen(look);
  const { guarded } = look;
  if (guarded === null) throw new Error('a look for no use');
  const [socketDirectory = '', stagings = ''] = guarded.places;
  // The operator may name directories by symbolic links.
  const trees = [stateDirectory, ...pools.map(({ directory }) => directory), ...guarded.trees];
  const directories = [dirname(socketPath), socketDirectory];
  const reason =
    protectedReason(path, resolved, { trees, directories }, look.mounts) ??
    // Compares names only, because a publication shows the staged file system under another name.
    (field === 'target_path' ? reasonWithin([legacyStagingDirectory, stagings], [path, resolved ?? path]) : null) ??
    insideVolume(guarded.label);
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

function reasonWithin(trees: readonly string[], paths: readonly string[]): string | null {
  const tree = trees.find((each) => paths.some((path) => isWithin(each, path)));
  return tree === undefined ? null : `it lies in ${tree}`;
}

/** The reason against a path whose parent directory is in the file system of a device with this label; null without one. */
function insideVolume(label: string | null): string | null {
  const volumeId = label === null ? null : volumeIdIn(label);
  return volumeId === null ? null : `it lies inside volume ${volumeId}`;
}
