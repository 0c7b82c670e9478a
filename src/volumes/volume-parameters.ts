/**
 * The parameters of a StorageClass: which there are, and whether a volume can have them. What they do
 * is up to whom they are for: the pool registry, the node's file systems, the device settings.
 */

import { CsiError } from '../base/errors.js';
import { parseMap } from '../csi/fields.js';
import { isOrchestratorKey } from '../csi/orchestrator-keys.js';
import type { StringMap } from '../domain/string-map.js';
import type { VolumeCapability } from '../domain/volume-capability.js';
import { parseMkfsOptions, parseMountOptions } from '../host/file-system-options.js';
import { DEFAULT_FILE_SYSTEM, type FileSystem, isFileSystem } from '../host/file-systems.js';
import { isMutableParameter, MUTABLE_PARAMETERS, parseDeviceSettings } from './device-settings.js';

/** Fixed for the life of a volume. */
export const VOLUME_PARAMETERS = ['pool', 'mkfsOptions', 'mountOptions'] as const;

interface VolumeKind {
  capabilities: readonly VolumeCapability[];
  /** Has content from elsewhere, and so a file system that is not known here. */
  isRestored: boolean;
}

/** Our own keys, validated; those of the orchestrator are dropped, unknown ones refused by name. */
export function parseVolumeParameters(value: StringMap, kind: VolumeKind): StringMap {
  const entries = Object.entries(parseMap(value, 'parameters')).filter(
    ([key]) => !isOrchestratorKey(key),
  );
  for (const [key] of entries) {
    if (isKnown(key)) continue;
    throw CsiError.invalidArgument(
      `parameters['${key}'] is not known: known are ${knownParameters().join(', ')}`,
    );
  }
  const parameters = Object.fromEntries(entries);
  const mutable = entries.filter(([key]) => isMutableParameter(key));
  parseDeviceSettings(Object.fromEntries(mutable), 'parameters');
  for (const type of fileSystemsOf(kind)) assertOptions(parameters, type);
  return parameters;
}

/** All keys that are legal in the parameters of a StorageClass. */
export function knownParameters(): string[] {
  return [...VOLUME_PARAMETERS, ...MUTABLE_PARAMETERS.map(({ name }) => name)];
}

function isKnown(key: string): boolean {
  return knownParameters().includes(key);
}

function assertOptions(parameters: StringMap, type: FileSystem | null): void {
  const { mkfsOptions, mountOptions } = parameters;
  if (mkfsOptions !== undefined) parseMkfsOptions(mkfsOptions, "parameters['mkfsOptions']", type);
  if (mountOptions !== undefined) {
    parseMountOptions(mountOptions, "parameters['mountOptions']", type);
  }
}

/**
 * The file systems the options must suit; null is any. One StorageClass serves raw block volumes as
 * well, for which options mean nothing.
 */
function fileSystemsOf({ capabilities, isRestored }: VolumeKind): readonly (FileSystem | null)[] {
  const types = capabilities.flatMap((capability) => {
    if (capability.accessType === 'block') return [];
    if (isFileSystem(capability.fsType)) return [capability.fsType];
    return [isRestored ? null : DEFAULT_FILE_SYSTEM];
  });
  return types.length === 0 ? [null] : types;
}
