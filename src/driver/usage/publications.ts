/**
 * Where a volume is published: what the catalogue's records say, and which of the records a mount confirms.
 *
 * A record outlives a reboot, and a publication of a raw volume can exist while nothing has the device open. A deletion
 * therefore believes the records alone while the volume is attached; everything else believes what a mount confirms.
 */
import { CsiError } from '../../base/errors.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { PublicationRecord } from '../catalogue/records.js';
import { kernelPath } from '../host/target.js';
import { belongsTo, occupantAt, stagedDevicePath, usesOf, type VolumeView } from './volume-view.js';

interface Records {
  catalogue: AsyncCatalogue;
}

/**
 * FAILED_PRECONDITION while a record says that the volume is published. A staging alone is no use: an orchestrator that died
 * after NodeUnpublishVolume never unstages.
 *
 * @param controllerPublish whether ControllerPublishVolume is served, so that its records count
 * @param isAttached whether the node's records count
 */
export async function assertUnpublished(
  { catalogue, controllerPublish }: Records & { controllerPublish: boolean },
  volumeId: string,
  isAttached: boolean,
): Promise<void> {
  const [onNode] = controllerPublish ? await catalogue.controllerPublications(volumeId) : [];
  if (onNode !== undefined) {
    throw CsiError.failedPrecondition(
      `volume ${volumeId} is still published on node ${onNode.nodeId}; unpublish it first`,
    );
  }
  const [publication] = isAttached ? await catalogue.publications(volumeId) : [];
  if (publication === undefined) return;
  throw CsiError.failedPrecondition(
    `volume ${volumeId} is still in use at ${publication.targetPath}, where it is published; unpublish and unstage it first`,
  );
}

/** Whether ControllerPublishVolume has published the volume for reading only. */
export async function isPublishedReadOnly({ catalogue }: Records, volumeId: string): Promise<boolean> {
  const publications = await catalogue.controllerPublications(volumeId);
  return publications.some(({ readOnly }) => readOnly);
}

/** The recorded publications that mountinfo confirms, including those that another mount hides. */
export async function livePublications({ catalogue }: Records, view: VolumeView): Promise<PublicationRecord[]> {
  return liveAmong(view, await catalogue.publications(view.volume.volumeId));
}

export async function liveAmong(
  view: VolumeView,
  recorded: readonly PublicationRecord[],
): Promise<PublicationRecord[]> {
  const live: PublicationRecord[] = [];
  for (const record of recorded) {
    const path = record.resolvedPath ?? (await kernelPath(record.targetPath));
    if (path === null) continue;
    if (await isUsedAt(view, path)) live.push(record);
  }
  return live;
}

/** The paths where the volume is recorded as staged or published, except the given path. */
export async function recordedPlaces({ catalogue }: Records, volumeId: string, except: string): Promise<Set<string>> {
  const { stagings, publications } = await catalogue.volumeUses(volumeId);
  const records = [
    ...stagings.map(({ stagingPath, resolvedPath }) => ({ path: stagingPath, resolvedPath })),
    ...publications.map(({ targetPath, resolvedPath }) => ({ path: targetPath, resolvedPath })),
  ].filter(({ path }) => path !== except);
  const places = await Promise.all(records.map(({ path, resolvedPath }) => resolvedPath ?? kernelPath(path)));
  const found = places.filter((path) => path !== null);
  return new Set(found.flatMap((path) => [path, stagedDevicePath(path)]));
}

/** Whether the volume is used at the path. If the pool cannot be read, the device's label decides. */
async function isUsedAt(view: VolumeView, path: string): Promise<boolean> {
  const { mounts, nodes } = usesOf(view);
  if ([...mounts, ...nodes].some(({ mountPoint }) => mountPoint === path)) return true;
  const occupant = await occupantAt(view, path);
  if (occupant.kind === 'foreign' && view.poolFailure !== null) {
    return belongsTo(view.volume.volumeId, null)(occupant.entry);
  }
  return occupant.kind === 'mount' || occupant.kind === 'block';
}
