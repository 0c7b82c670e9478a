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
import type { PublicationRecord, StagingRecord, VolumeRecord } from '../catalogue/records.js';
import { hiddenMountReason } from '../host/propagation.js';
import { isWithin, protectedReason, SYSTEM_TREES } from '../host/protected-paths.js';
import { kernelPath } from '../host/target.js';
import type { Look, SeenPath } from '../native/look-calls.js';
import { type Seen, seeVolume, type ViewSources } from '../usage/volume-view.js';
import type { NodeDependencies } from './node-dependencies.js';

type Deps = Pick<NodeDependencies, 'config' | 'catalogue' | 'native'>;

export type PathField = 'staging_target_path' | 'target_path';

/** The place of a staging or a publication. */
export interface Place<Uses> {
  /** As the caller names it. */
  path: string;
  /** The path without symbolic links, as recorded or as it leads now; null if its parent does not exist. */
  resolved: string | null;
  /** The record of the volume in question at that path; null if there is none. */
  record: Uses | null;
  /** Where the volume is recorded as published. */
  others: readonly string[];
}

/** A record that says where its path led. */
export interface Recorded {
  resolvedPath: string | null;
}

/** The place of a recorded publication is where it was made. Any other path is checked like a path to be used. */
export async function publicationPlace(deps: Deps, volumeId: string, path: string): Promise<Place<PublicationRecord>> {
  const records = await deps.catalogue.publications(volumeId);
  const record = records.find(({ targetPath }) => targetPath === path) ?? null;
  return placeOf(deps, path, record, 'target_path', records);
}

/** As publicationPlace. */
export async function stagingPlace(deps: Deps, volumeId: string, path: string): Promise<Place<StagingRecord>> {
  const { record, others } = await recordedStaging(deps, volumeId, path);
  return placeOf(deps, path, record, 'staging_target_path', others);
}

/** The record of a staging, and the records of the volume's publications. */
export async function recordedStaging({ catalogue }: Pick<Deps, 'catalogue'>, volumeId: string, path: string) {
  const [records, others] = await Promise.all([catalogue.stagings(volumeId), catalogue.publications(volumeId)]);
  return { record: records.find(({ stagingPath }) => stagingPath === path) ?? null, others };
}

/** @param records of the volume's publications */
export async function placeOf<Uses extends Recorded>(
  deps: Deps,
  path: string,
  record: Uses | null,
  field: PathField,
  records: readonly Recorded[],
): Promise<Place<Uses>> {
  return { path, resolved: await resolvedPlace(deps, path, record, field), record, others: placesOf(records) };
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
  { path, resolved, others }: Place<unknown>,
): Promise<Seen> {
  const paths = [resolved ?? path, ...others];
  return seeVolume(deps, volume, (devicePath) => lookAround(deps, paths, devicePath));
}

async function resolvedPlace(
  deps: Deps,
  path: string,
  record: Recorded | null,
  field: PathField,
): Promise<string | null> {
  if (record === null) return usablePath(deps, await lookAround(deps, [path], null), path, field);
  return record.resolvedPath ?? kernelPath(path);
}

/** One look at these paths, at whatever decides whether they may be used, and at a device. */
export function lookAround(
  { config, native }: Pick<Deps, 'config' | 'native'>,
  paths: readonly string[],
  devicePath: string | null,
): Promise<Look> {
  const { stateDirectory, legacyStagingDirectory, pools, socketPath } = config;
  const trees = [stateDirectory, ...pools.map(({ directory }) => directory)];
  const places = [dirname(socketPath), legacyStagingDirectory, ...SYSTEM_TREES];
  return native.run('look', { paths, trees, places, devicePath });
}

/**
 * The path without symbolic links (the last component stays as it is); null if its parent does not exist. INVALID_ARGUMENT if
 * no volume may be put there.
 *
 * @param look of lookAround, with the path as its first
 */
export function usablePath(
  { config }: Pick<Deps, 'config'>,
  look: Look,
  path: string,
  field: PathField,
): string | null {
  const { stateDirectory, legacyStagingDirectory, pools, socketPath } = config;
  const { resolved, parentLabel } = placeSeen(look);
  const [socketDirectory = '', stagings = ''] = look.places;
  // The operator may name directories by symbolic links.
  const trees = [stateDirectory, ...pools.map(({ directory }) => directory), ...look.trees];
  const directories = [dirname(socketPath), socketDirectory];
  const reason =
    protectedReason(path, resolved, { trees, directories }, look.mounts) ??
    // Compares names only, because a publication shows the staged file system under another name.
    (field === 'target_path' ? reasonWithin([legacyStagingDirectory, stagings], [path, resolved ?? path]) : null) ??
    insideVolume(parentLabel);
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
function insideVolume(parentLabel: string | null): string | null {
  const volumeId = parentLabel === null ? null : volumeIdIn(parentLabel);
  return volumeId === null ? null : `it lies inside volume ${volumeId}`;
}
