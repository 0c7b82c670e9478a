/**
 * The parameters of a StorageClass: which exist, and whether a volume can have them. The pool registry, the
 * node's file systems and the device settings define their effects.
 */

import { parseMap } from '../../base/csi/fields.js';
import type { StringMap } from '../../base/csi/string-map.js';
import type { VolumeCapability } from '../../base/csi/volume-capability.js';
import { CsiError } from '../../base/errors.js';
import { isOrchestratorKey } from '../csi/orchestrator-keys.js';
import { parseMkfsOptions, parseMountOptions } from '../host/file-system-options.js';
import { DEFAULT_FILE_SYSTEM, type FileSystem, isFileSystem } from '../host/file-systems.js';
import { isMutableParameter, MUTABLE_PARAMETERS, parseDeviceSettings } from './device-settings.js';

/** Fixed for the life of a volume. */
export const VOLUME_PARAMETERS = ['pool', 'mkfsOptions', 'mountOptions', 'remoteSources'] as const;

interface VolumeKind {
  capabilities: readonly VolumeCapability[];
  /** Restored or cloned, so its file system is not known here. */
  isRestored: boolean;
}

/** Validates and returns the plugin's own keys, and drops the orchestrator's keys. INVALID_ARGUMENT for any other key. */
export function parseVolumeParameters(value: StringMap, kind: VolumeKind): StringMap {
  const entries = Object.entries(parseMap(value, 'parameters')).filter(([key]) => !isOrchestratorKey(key));
  for (const [key] of entries) {
    if (knownParameters().includes(key)) continue;
    throw CsiError.invalidArgument(
      `parameters['${key}'] is unknown; known parameters are ${knownParameters().join(', ')}`,
    );
  }
  const parameters = Object.fromEntries(entries);
  const mutable = entries.filter(([key]) => isMutableParameter(key));
  parseDeviceSettings(Object.fromEntries(mutable), 'parameters');
  for (const type of fileSystemsOf(kind)) assertOptions(parameters, type);
  return parameters;
}

/** All valid keys in the parameters of a StorageClass. */
export function knownParameters(): string[] {
  return [...VOLUME_PARAMETERS, ...MUTABLE_PARAMETERS.map(({ name }) => name)];
}

function assertOptions(parameters: StringMap, type: FileSystem | null): void {
  const { mkfsOptions, mountOptions, remoteSources } = parameters;
  // The router reads it; a node alone has no other nodes to ask.
  if (remoteSources !== undefined && remoteSources !== 'true' && remoteSources !== 'false') {
    throw CsiError.invalidArgument("parameters['remoteSources'] must be true or false");
  }
  if (mkfsOptions !== undefined) parseMkfsOptions(mkfsOptions, "parameters['mkfsOptions']", type);
  if (mountOptions !== undefined) {
    parseMountOptions(mountOptions, "parameters['mountOptions']", type);
  }
}

/**
 * The file systems that the options must suit; null stands for any. A StorageClass may serve raw block
 * volumes as well, to which the options do not apply.
 */
function fileSystemsOf({ capabilities, isRestored }: VolumeKind): readonly (FileSystem | null)[] {
  const types = capabilities.flatMap((capability) => {
    if (capability.accessType === 'block') return [];
    if (isFileSystem(capability.fsType)) return [capability.fsType];
    return [isRestored ? null : DEFAULT_FILE_SYSTEM];
  });
  return types.length === 0 ? [null] : types;
}
