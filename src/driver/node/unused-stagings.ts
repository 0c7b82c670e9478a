/**
 * Releases the stagings of a volume that is to be deleted, as NodeUnstageVolume does, if nothing else shows the volume.
 *
 * A place that the plugin cannot see counts as a use. Nothing is forced: a busy mount stays, and so does a device that anybody
 * has open, because only a process that can open the device exclusively detaches it. Takes no locks.
 */
import { CsiError } from '../../base/errors.js';
import type { VolumeRecord } from '../catalogue/records.js';
import { hiddenMountReason } from '../host/propagation.js';
import { otherUse } from '../usage/other-uses.js';
import { stagedDevicePath, viewVolume } from '../usage/volume-view.js';
import type { UnusedStagings } from '../volumes/manager-dependencies.js';
import type { NodeDependencies } from './node-dependencies.js';
import { stagingPlace } from './paths.js';
import { releaseStaging } from './unstage-volume.js';

/** For the rules of volumes, which know no mounts. */
export function unusedStagings(deps: NodeDependencies): UnusedStagings {
  return { release: (volume) => releaseUnused(deps, volume) };
}

async function releaseUnused(deps: NodeDependencies, volume: VolumeRecord): Promise<string[]> {
  const { catalogue, config } = deps;
  const uses = await catalogue.volumeUses(volume.volumeId);
  if (uses.stagings.length === 0) return [];
  const paths = uses.stagings.map(({ stagingPath }) => stagingPath);
  const places = await Promise.all(paths.map((path) => stagingPlace(deps, uses, path)));
  const inUse = (found: string): CsiError =>
    CsiError.failedPrecondition(`volume ${volume.volumeId} is still in use at ${found}`);
  const view = await viewVolume(deps, volume);
  for (const { path, resolved } of places) {
    const reason = await hiddenMountReason(resolved ?? path, config.mountPropagation, view.mounts);
    if (reason === null) continue;
    throw inUse(
      `${path}, where it is staged, and the plugin cannot see what is mounted there: ${reason}; unstage it first, or ` +
        "mount that directory into the plugin's container with bidirectional propagation (rshared)",
    );
  }
  const staged = places.flatMap(({ resolved }) => resolved ?? []);
  const other = await otherUse(view, [...staged, ...staged.map(stagedDevicePath)]);
  if (other !== null) throw inUse(`${other}, beside its staging at ${paths}; unmount it there first`);
  // The release of the last staging detaches the device.
  for (const place of places) await releaseStaging(deps, volume, place);
  return paths;
}
