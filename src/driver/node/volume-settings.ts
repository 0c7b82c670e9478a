/**
 * Applies the mutable parameters of a volume: the settings of its block device, and the limits of the pods it is published to.
 *
 * Every call sets all parameters, so a call with the earlier parameters reverts a failed change. Limits apply only to known
 * pods; a volume without limits needs no cgroup v2 on the node.
 */
import { stat } from 'node:fs/promises';
import { CsiError } from '../../base/errors.js';
import type { DeviceNumber } from '../../base/system/device-attributes.js';
import { majorOf, minorOf } from '../../base/system/mountinfo.js';
import type { VolumeRecord } from '../catalogue/records.js';
import { applyBlockSettings, type BlockDevice } from '../host/block-settings.js';
import { findPodCgroup, isCgroup2, liftLimits, setLimits } from '../host/io-limits.js';
import { ofVolume } from '../native/pool.js';
import { livePublications } from '../usage/publications.js';
import { viewVolume } from '../usage/volume-view.js';
import {
  type DeviceSettings,
  hasLimits,
  parseDeviceSettings,
  type SettingsApplier,
} from '../volumes/device-settings.js';
import type { NodeDependencies } from './node-dependencies.js';

/** For the controller, which knows no devices. */
export function settingsApplier(deps: NodeDependencies): SettingsApplier {
  return { apply: (volume, changed) => applyVolumeSettings(deps, volume, changed) };
}

/** Applies the parameters to the device and all pods that use it; see SettingsApplier.apply. */
export async function applyVolumeSettings(
  deps: NodeDependencies,
  volume: VolumeRecord,
  changed: readonly string[],
): Promise<void> {
  const settings = settingsOf(volume);
  const view = await viewVolume(deps, volume);
  if (view.attachment === null) return;
  const { devicePath } = view.attachment;
  const native = ofVolume(deps.native, volume.volumeId);
  await applyBlockSettings(native, view.attachment, settings, (refusal, what) => {
    if (changed.some((name) => what.startsWith(`${name} `))) throw refusal;
    warnOfRefusal(deps, volume, refusal);
  });
  for (const { podUid } of await livePublications(deps, view)) {
    if (podUid === null) continue;
    if (hasLimits(settings)) await limitPod(deps, volume, podUid, devicePath);
    else await liftPod(deps, podUid, devicePath);
  }
}

/**
 * Applies the parameters to the device alone, for staging, and returns as applyBlockSettings does. A setting that is not
 * possible here keeps nobody from the data.
 */
export function applyToDevice(
  deps: NodeDependencies,
  volume: VolumeRecord,
  device: BlockDevice,
): Promise<boolean | null> {
  const warn = (refusal: Error): void => warnOfRefusal(deps, volume, refusal);
  return applyBlockSettings(deps.native, device, settingsOf(volume), warn);
}

function warnOfRefusal({ logger }: NodeDependencies, { volumeId }: VolumeRecord, err: Error): void {
  logger.warn({ volumeId, err }, 'the volume is used without a setting that this node cannot set');
}

/** Call this before the device is detached, so that its number starts with default settings again. Best effort. */
export async function resetDevice(deps: NodeDependencies, device: BlockDevice): Promise<void> {
  const settings = { readAheadKiB: null, ioScheduler: null, loopDirectIo: null };
  const ignore = () => undefined;
  await applyBlockSettings(deps.native, device, settings, ignore).catch(ignore);
}

/** Call this before the pod can use the volume. FAILED_PRECONDITION if the requested limits cannot be set. */
export async function limitPod(
  deps: NodeDependencies,
  volume: VolumeRecord,
  podUid: string,
  devicePath: string,
): Promise<void> {
  const settings = settingsOf(volume);
  if (!hasLimits(settings)) return;
  const cgroup = await podCgroup(deps, volume, podUid);
  await setLimits(cgroup, await numberOf(devicePath), settings.limits);
}

/**
 * Removes the volume's limits from the pod, because the volume has no limits any more, or because it leaves the pod and another
 * volume may get the number of its device. If the node cannot set limits, there are none to remove.
 */
export async function liftPod(deps: NodeDependencies, podUid: string, devicePath: string): Promise<void> {
  const cgroup = await findPodCgroup(deps.config.cgroupRoot, podUid);
  if (cgroup !== null) await liftLimits(cgroup, await numberOf(devicePath));
}

async function podCgroup(deps: NodeDependencies, { volumeId }: VolumeRecord, podUid: string): Promise<string> {
  const { cgroupRoot } = deps.config;
  const refused = (reason: string): CsiError =>
    CsiError.failedPrecondition(
      `volume ${volumeId} has read or write limits, which cannot be set for pod ${podUid}: ${reason}`,
    );
  if (!(await isCgroup2(cgroupRoot))) {
    throw refused(
      `${cgroupRoot} is not a cgroup v2 hierarchy; use a node that has one, or set BLOCKDELTA_CGROUP_ROOT to its path`,
    );
  }
  const cgroup = await findPodCgroup(cgroupRoot, podUid);
  if (cgroup === null) {
    throw refused(`${cgroupRoot} has no cgroup of that pod; is the host's cgroup tree mounted there?`);
  }
  return cgroup;
}

const settingsOf = ({ mutableParameters }: VolumeRecord): DeviceSettings =>
  parseDeviceSettings(mutableParameters, 'mutable_parameters');

async function numberOf(devicePath: string): Promise<DeviceNumber> {
  const { rdev } = await stat(devicePath);
  return { major: majorOf(rdev), minor: minorOf(rdev) };
}
