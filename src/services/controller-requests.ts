/**
 * Parses the requests of the Controller service, naming the proto field in every refusal.
 *
 * Presence of REQUIRED fields is checked first, values after it (csi-rules: presence, existence,
 * values, state). Nothing is looked up here.
 */
import {
  type CapacityRange,
  parseCapacityRange,
  parseInt32NonNegative,
  parseMap,
  parseSecrets,
  parseVolumeCapabilities,
  requireName,
  requirePresent,
  requireString,
  type VolumeCapability,
} from '../csi/fields.js';
import { isOrchestratorKey } from '../csi/orchestrator-keys.js';
import type { RequestMessage } from '../csi/service.js';
import { CsiError } from '../errors.js';

type StringMap = Readonly<Record<string, string>>;

const VOLUME_PARAMETERS = ['pool'] as const;
const SNAPSHOT_PARAMETERS = [] as const;

export interface CreateVolumeParams {
  name: string;
  range: CapacityRange | null;
  capabilities: readonly VolumeCapability[];
  parameters: StringMap;
  sourceSnapshotId: string | null;
}

export function parseCreateVolume(request: RequestMessage): CreateVolumeParams {
  requirePresent(request['name'], 'name');
  requirePresent(request['volume_capabilities'], 'volume_capabilities');
  parseSecrets(request['secrets'], 'secrets');
  refuseTopology(request['accessibility_requirements'], 'accessibility_requirements');
  const mutable = parseMap(request['mutable_parameters'], 'mutable_parameters');
  const [unknown] = Object.keys(mutable);
  if (unknown !== undefined) {
    throw CsiError.invalidArgument(
      `mutable_parameters['${unknown}'] is not known: this plugin does not advertise MODIFY_VOLUME`,
    );
  }
  return {
    name: requireName(request['name'], 'name'),
    range: parseCapacityRange(request['capacity_range'], 'capacity_range'),
    capabilities: parseVolumeCapabilities(request['volume_capabilities'], 'volume_capabilities'),
    parameters: parseParameters(request['parameters'], VOLUME_PARAMETERS),
    sourceSnapshotId: parseContentSource(request['volume_content_source']),
  };
}

export function refuseTopology(value: unknown, field: string): void {
  if (value === null || value === undefined) return;
  throw CsiError.invalidArgument(
    `${field} is set, and this plugin does not advertise VOLUME_ACCESSIBILITY_CONSTRAINTS`,
  );
}

/** Our own keys; keys of the orchestrator are dropped, unknown ones refused by name. */
export function parseParameters(value: unknown, known: readonly string[]): StringMap {
  const entries = Object.entries(parseMap(value, 'parameters')).filter(
    ([key]) => !isOrchestratorKey(key),
  );
  for (const [key] of entries) {
    if (known.includes(key)) continue;
    const list = known.length === 0 ? 'none is known' : `known are ${known.join(', ')}`;
    throw CsiError.invalidArgument(`parameters['${key}'] is not known: ${list}`);
  }
  return Object.fromEntries(entries);
}

export const parseVolumeParameters = (value: unknown): StringMap =>
  parseParameters(value, VOLUME_PARAMETERS);

function parseContentSource(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  const source = value as RequestMessage;
  const snapshot = source['snapshot'] as RequestMessage | null | undefined;
  if (snapshot !== null && snapshot !== undefined) {
    return requireString(snapshot['snapshot_id'], 'volume_content_source.snapshot.snapshot_id');
  }
  const volume = source['volume'] as RequestMessage | null | undefined;
  if (volume !== null && volume !== undefined) {
    requireString(volume['volume_id'], 'volume_content_source.volume.volume_id');
    throw CsiError.invalidArgument(
      'volume_content_source.volume: this plugin does not advertise CLONE_VOLUME; ' +
        'make a snapshot of the volume and restore that',
    );
  }
  throw CsiError.invalidArgument('volume_content_source is set but names no snapshot');
}

export interface CreateSnapshotParams {
  name: string;
  sourceVolumeId: string;
  parameters: StringMap;
}

export function parseCreateSnapshot(request: RequestMessage): CreateSnapshotParams {
  requirePresent(request['source_volume_id'], 'source_volume_id');
  requirePresent(request['name'], 'name');
  parseSecrets(request['secrets'], 'secrets');
  refuseTopology(request['accessibility_requirements'], 'accessibility_requirements');
  return {
    name: requireName(request['name'], 'name'),
    sourceVolumeId: requireString(request['source_volume_id'], 'source_volume_id'),
    parameters: parseParameters(request['parameters'], SNAPSHOT_PARAMETERS),
  };
}

export interface PageParams {
  maxEntries: number;
  startingToken: string;
}

/** The token is judged by pagination alone: whatever is wrong with it is ABORTED, also its length. */
export function parsePage(request: RequestMessage): PageParams {
  return {
    maxEntries: parseInt32NonNegative(request['max_entries'], 'max_entries'),
    startingToken: String(request['starting_token'] ?? ''),
  };
}
