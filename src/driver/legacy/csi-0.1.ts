/**
 * CSI v0.1 in terms of v1. docs/legacy.md has a row for each RPC. Every request but one names the version of
 * the specification, which is judged before anything else.
 */

import { parseSecrets } from '../../base/csi/fields.js';
import type { Message, ResponseOf } from '../../base/csi/service.js';
import { CsiError, StatusCode } from '../../base/errors.js';
import type { ControllerHandlers } from './generated/csi/Controller.js';
import type { IdentityHandlers } from './generated/csi/Identity.js';
import type { NodeHandlers } from './generated/csi/Node.js';
import type { VolumeInfo } from './generated/csi/VolumeInfo.js';
import type { OwnStaging } from './own-staging.js';
import {
  type AnyTranslation,
  capabilities,
  capability,
  knownTypes,
  type LegacyServiceName,
  mapResponse,
  type Translations,
} from './translation.js';
import type { FieldNames, V1Calls } from './v1-calls.js';

const VERSION = { major: 0, minor: 1, patch: 0 };
const CONTROLLER_TYPES = [
  'CREATE_DELETE_VOLUME',
  'PUBLISH_UNPUBLISH_VOLUME',
  'LIST_VOLUMES',
  'GET_CAPACITY',
] as const;
const INT32_MAX = 2 ** 31 - 1;
const INT64_MAX = 2n ** 63n - 1n;

const identity: Translations<IdentityHandlers> = {
  GetSupportedVersions: async () => ({ supported_versions: [VERSION] }),
  GetPluginInfo: async (_request, v1) => v1.call('GetPluginInfo', {}),
};

const controller: Translations<ControllerHandlers> = {
  CreateVolume: async (request, v1) => {
    const { volume } = await v1.call('CreateVolume', {
      name: request.name,
      capacity_range: signedRange(request.capacity_range),
      volume_capabilities: capabilities(request.volume_capabilities, 'volume_capabilities'),
      parameters: request.parameters,
      secrets: request.user_credentials,
    });
    return { volume_info: volumeInfoOf(volume) };
  },
  DeleteVolume: async (request, v1) =>
    v1.call('DeleteVolume', { volume_id: request.volume_id, secrets: request.user_credentials }),
  ControllerPublishVolume: async (request, v1) => {
    const { publish_context } = await v1.call('ControllerPublishVolume', {
      volume_id: request.volume_id,
      node_id: request.node_id,
      volume_capability: capability(request.volume_capability, 'volume_capability'),
      readonly: request.readonly,
      secrets: request.user_credentials,
      volume_context: request.volume_attributes,
    });
    return { publish_volume_info: publish_context ?? {} };
  },
  ControllerUnpublishVolume: async (request, v1) =>
    v1.call('ControllerUnpublishVolume', {
      volume_id: request.volume_id,
      node_id: request.node_id,
      secrets: request.user_credentials,
    }),
  ValidateVolumeCapabilities: async (request, v1) => {
    const { confirmed, message } = await v1.call('ValidateVolumeCapabilities', {
      volume_id: request.volume_id,
      volume_context: request.volume_attributes,
      volume_capabilities: capabilities(request.volume_capabilities, 'volume_capabilities'),
    });
    return confirmed ? { supported: true } : { supported: false, message: message ?? '' };
  },
  ListVolumes: async ({ max_entries, starting_token }, v1) => {
    const list = await v1.list('ListVolumes', {
      // An unsigned number: no page of v1 is as long.
      max_entries: Math.min(max_entries, INT32_MAX),
      starting_token,
    });
    return mapResponse(list, ({ entries = [], next_token = '' }) => ({
      entries: entries.map(({ volume }) => ({ volume_info: volumeInfoOf(volume) })),
      next_token,
    }));
  },
  GetCapacity: async (request, v1) => {
    const { available_capacity = '0' } = await v1.call('GetCapacity', {
      volume_capabilities: capabilities(request.volume_capabilities, 'volume_capabilities'),
      parameters: request.parameters,
    });
    return { available_capacity };
  },
  ControllerProbe: async (_request, v1) => {
    // Waits for the service, which a Probe does not.
    await v1.call('ControllerGetCapabilities', {});
    return probe(v1);
  },
  ControllerGetCapabilities: async (_request, v1) => {
    const { capabilities: given = [] } = await v1.call('ControllerGetCapabilities', {});
    const types = given.map(({ rpc }) => rpc?.type);
    return {
      capabilities: knownTypes(types, CONTROLLER_TYPES).map((type) => ({ rpc: { type } })),
    };
  },
};

function nodeOf(staging: OwnStaging): Translations<NodeHandlers> {
  return {
    NodePublishVolume: async (request, v1) => {
      const use = {
        volume_id: request.volume_id,
        publish_context: request.publish_volume_info,
        volume_capability: capability(request.volume_capability, 'volume_capability'),
        secrets: request.user_credentials,
        volume_context: request.volume_attributes,
      };
      const { target_path, readonly } = request;
      await staging.publish(v1, use, { target_path, readonly });
      return {};
    },
    NodeUnpublishVolume: async ({ volume_id, target_path, user_credentials }, v1) => {
      // The request of v1 has no such field.
      parseSecrets(user_credentials, 'user_credentials');
      await staging.unpublish(v1, { volume_id, target_path });
      return {};
    },
    GetNodeID: async (_request, v1) => {
      const { node_id = '' } = await v1.call('NodeGetInfo', {});
      return { node_id };
    },
    NodeProbe: async (_request, v1) => {
      await v1.call('NodeGetCapabilities', {});
      return probe(v1);
    },
    // All that it could name came with later versions.
    NodeGetCapabilities: async (_request, v1) => {
      await v1.call('NodeGetCapabilities', {});
      return {};
    },
  };
}

/** The translations, each behind a check of the version. */
export function translations(
  staging: OwnStaging,
): Record<LegacyServiceName, Record<string, AnyTranslation>> {
  const all = { Identity: identity, Controller: controller, Node: nodeOf(staging) };
  const checked = Object.entries(all).map(([service, rpcs]) => [
    service,
    Object.fromEntries(
      Object.entries(rpcs).map(([rpc, translation]) => [
        rpc,
        rpc === 'GetSupportedVersions' ? translation : withVersion(translation as AnyTranslation),
      ]),
    ),
  ]);
  return Object.fromEntries(checked);
}

export const fieldNames: FieldNames = {
  CreateVolume: { secrets: 'user_credentials' },
  DeleteVolume: { secrets: 'user_credentials' },
  ControllerPublishVolume: { secrets: 'user_credentials', volume_context: 'volume_attributes' },
  ControllerUnpublishVolume: { secrets: 'user_credentials' },
  ValidateVolumeCapabilities: { volume_context: 'volume_attributes' },
  NodePublishVolume: {
    secrets: 'user_credentials',
    volume_context: 'volume_attributes',
    publish_context: 'publish_volume_info',
  },
};

interface Versioned {
  readonly version: {
    readonly major: number;
    readonly minor: number;
    readonly patch: number;
  } | null;
}

function withVersion(translation: AnyTranslation): AnyTranslation {
  return async (request: Versioned, v1) => {
    assertServed(request.version);
    return translation(request as never, v1);
  };
}

function assertServed(version: Versioned['version']): void {
  const served = `${VERSION.major}.${VERSION.minor}.${VERSION.patch}`;
  if (version === null) {
    throw CsiError.invalidArgument(`version is required; this interface serves ${served}`);
  }
  const asked = `${version.major}.${version.minor}.${version.patch}`;
  if (asked === served) return;
  throw CsiError.invalidArgument(
    `version ${asked} is not served; GetSupportedVersions lists ${served}`,
  );
}

type UnsignedRange = { readonly required_bytes: string; readonly limit_bytes: string };

/** Sizes became signed later. No volume has as many bytes as do not fit. */
function signedRange(range: UnsignedRange | null): UnsignedRange | null {
  if (range === null) return null;
  const { required_bytes, limit_bytes } = range;
  if (BigInt(required_bytes) > INT64_MAX) {
    throw new CsiError(
      StatusCode.OUT_OF_RANGE,
      `capacity_range.required_bytes ${required_bytes} is over the largest size, ${INT64_MAX}`,
    );
  }
  return BigInt(limit_bytes) > INT64_MAX
    ? { required_bytes, limit_bytes: `${INT64_MAX}` }
    : { required_bytes, limit_bytes };
}

type V1Volume = ResponseOf<'CreateVolume'>['volume'];

function volumeInfoOf(volume: V1Volume): Message<VolumeInfo> {
  if (!volume) throw CsiError.internal('the response has no volume');
  return {
    id: volume.volume_id ?? '',
    capacity_bytes: volume.capacity_bytes ?? '0',
    attributes: volume.volume_context ?? {},
  };
}

/** Fails unless the plugin works: a response of v0.1 cannot say "not yet". */
async function probe(v1: V1Calls): Promise<object> {
  const { ready } = await v1.call('Probe', {});
  if (ready?.value === false) throw CsiError.unavailable('the plugin is starting; call again');
  return {};
}
