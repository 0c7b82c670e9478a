/**
 * Parses requests of the Controller service, and checks that their capabilities are served. Every refusal
 * names the proto field. REQUIRED fields are checked for presence before any value is parsed. Knows
 * nothing of the catalogue.
 */

import {
  parseCapacityRange,
  parseMap,
  parseSecrets,
  parseVolumeCapabilities,
  requireFields,
  requireName,
  requireString,
} from '../../base/csi/fields.js';
import type { RequestOf } from '../../base/csi/service.js';
import type { StringMap } from '../../base/csi/string-map.js';
import {
  describeSegment,
  isMet,
  nodeSegment,
  type TopologyConfig,
  type TopologyRequirement,
} from '../../base/csi/topology.js';
import { parseTopologyRequirement } from '../../base/csi/topology-fields.js';
import type { CapacityRange, VolumeCapability } from '../../base/csi/volume-capability.js';
import { CsiError } from '../../base/errors.js';
import { isOrchestratorKey } from '../csi/orchestrator-keys.js';
import { assertMountFlags } from '../host/file-system-options.js';
import { isFileSystem } from '../host/file-systems.js';
import { parseDeviceSettings } from '../volumes/device-settings.js';
import { parseVolumeParameters } from '../volumes/volume-parameters.js';
import { unsupportedReason } from '../volumes/volume-rules.js';

export interface CreateVolumeParams {
  name: string;
  range: CapacityRange | null;
  capabilities: readonly VolumeCapability[];
  parameters: StringMap;
  mutableParameters: StringMap;
  sourceSnapshotId: string | null;
  sourceVolumeId: string | null;
  requirement: TopologyRequirement | null;
}

export function parseCreateVolume(request: RequestOf<'CreateVolume'>): CreateVolumeParams {
  requireFields(request, 'name', 'volume_capabilities');
  parseSecrets(request.secrets, 'secrets');
  const source = parseContentSource(request.volume_content_source);
  const isRestored = source.sourceSnapshotId !== null || source.sourceVolumeId !== null;
  const capabilities = parseVolumeCapabilities(request.volume_capabilities, 'volume_capabilities');
  return {
    name: requireName(request.name, 'name'),
    range: parseCapacityRange(request.capacity_range, 'capacity_range'),
    capabilities,
    parameters: parseVolumeParameters(request.parameters, { capabilities, isRestored }),
    mutableParameters: parseMutableParameters(request.mutable_parameters),
    ...source,
    requirement: parseTopologyRequirement(request.accessibility_requirements, 'accessibility_requirements'),
  };
}

/** Validates and returns the plugin's own keys. */
export function parseMutableParameters(value: StringMap): StringMap {
  const given = parseMap(value, 'mutable_parameters');
  const own = Object.fromEntries(Object.entries(given).filter(([key]) => !isOrchestratorKey(key)));
  parseDeviceSettings(own, 'mutable_parameters');
  return own;
}

/** Why this node meets no requisite topology; null if it meets one. */
export function topologyProblem(requirement: TopologyRequirement | null, config: TopologyConfig): string | null {
  const segment = nodeSegment(config);
  if (isMet(requirement, segment)) return null;
  return (
    'accessibility_requirements.requisite does not include this node, which provisions volumes in ' +
    `${describeSegment(segment)} only; call the plugin of a node that is included`
  );
}

type ContentSource = Pick<CreateVolumeParams, 'sourceSnapshotId' | 'sourceVolumeId'>;

function parseContentSource(source: RequestOf<'CreateVolume'>['volume_content_source']): ContentSource {
  const none = { sourceSnapshotId: null, sourceVolumeId: null };
  if (source === null) return none;
  const field = 'volume_content_source';
  const { snapshot, volume } = source;
  if (snapshot !== null && snapshot !== undefined) {
    const id = requireString(snapshot.snapshot_id, `${field}.snapshot.snapshot_id`);
    return { ...none, sourceSnapshotId: id };
  }
  if (volume !== null && volume !== undefined) {
    return {
      ...none,
      sourceVolumeId: requireString(volume.volume_id, `${field}.volume.volume_id`),
    };
  }
  throw CsiError.invalidArgument(`${field} is set and contains neither a snapshot nor a volume`);
}

/** The parameters of a class of snapshots, or of group snapshots, among `known`. Orchestrator keys are dropped. */
export function parseSnapshotParameters(value: StringMap, ...known: string[]): StringMap {
  const entries = Object.entries(parseMap(value, 'parameters')).filter(([key]) => !isOrchestratorKey(key));
  for (const [key] of entries) {
    if (known.includes(key)) continue;
    throw CsiError.invalidArgument(
      key === 'copies'
        ? "parameters['copies'] is for routers and single snapshots: a node alone knows no other node; call a router"
        : `parameters['${key}'] is not known: a snapshot class has no such parameter`,
    );
  }
  return Object.fromEntries(entries);
}

export interface CreateSnapshotParams {
  name: string;
  sourceVolumeId: string;
  parameters: StringMap;
  requirement: TopologyRequirement | null;
}

/** @param known the parameters that the class may have */
export function parseCreateSnapshot(request: RequestOf<'CreateSnapshot'>, ...known: string[]): CreateSnapshotParams {
  requireFields(request, 'source_volume_id', 'name');
  parseSecrets(request.secrets, 'secrets');
  return {
    name: requireName(request.name, 'name'),
    sourceVolumeId: requireString(request.source_volume_id, 'source_volume_id'),
    parameters: parseSnapshotParameters(request.parameters, ...known),
    requirement: parseTopologyRequirement(request.accessibility_requirements, 'accessibility_requirements'),
  };
}

/** INVALID_ARGUMENT for a capability that cannot be served. The message contains no mount flags. */
export function assertServed(capability: VolumeCapability, field: string): void {
  const reason = unsupportedReason(capability);
  if (reason !== null) throw CsiError.invalidArgument(`${field}: ${reason}`);
  if (capability.accessType === 'block') return;
  const type = isFileSystem(capability.fsType) ? capability.fsType : null;
  assertMountFlags(capability.mountFlags, `${field}.mount.mount_flags`, type);
}

export function assertAllServed(capabilities: readonly VolumeCapability[], field: string): void {
  capabilities.forEach((capability, index) => {
    assertServed(capability, `${field}[${index}]`);
  });
}

/** Why one of the capabilities cannot be served; null if all can. */
export function unservedReason(capabilities: readonly VolumeCapability[]): string | null {
  const reason = capabilities.map(unsupportedReason).find((found) => found !== null);
  if (reason !== undefined) return reason;
  try {
    assertAllServed(capabilities, 'volume_capabilities');
    return null;
  } catch (thrown) {
    return CsiError.from(thrown).message;
  }
}
