/**
 * CSI v0.1 in terms of v1. docs/engineering/legacy.md has a row for each RPC. Every request but one names a version of the
 * specification, which is checked before anything else.
 */
import { parseSecrets } from '../../base/csi/fields.js';
import { CsiError, StatusCode } from '../../base/errors.js';
import type { OwnStaging } from './own-staging.js';
import {
  as,
  asList,
  asTypes,
  availableCapacity,
  present,
  type Translation,
  type Translations,
  validated,
} from './translation.js';
import type { Edge, Message, V1Calls } from './v1-calls.js';

const VERSION = { major: 0, minor: 1, patch: 0 };
const CONTROLLER_TYPES = ['CREATE_DELETE_VOLUME', 'PUBLISH_UNPUBLISH_VOLUME', 'LIST_VOLUMES', 'GET_CAPACITY'];
const INT32_MAX = 2 ** 31 - 1;
const INT64_MAX = 2n ** 63n - 1n;

const SECRETS = { secrets: 'user_credentials' };

export const edge: Edge = {
  packageName: 'csi',
  names: {
    CreateVolume: SECRETS,
    DeleteVolume: SECRETS,
    ControllerPublishVolume: { ...SECRETS, volume_context: 'volume_attributes' },
    ControllerUnpublishVolume: SECRETS,
    ValidateVolumeCapabilities: { volume_context: 'volume_attributes' },
    NodePublishVolume: {
      ...SECRETS,
      volume_context: 'volume_attributes',
      publish_context: 'publish_volume_info',
    },
  },
  conversions: {
    capacity_range: signedRange,
    // The number is unsigned in v0.1. No page of v1 is as long as the largest signed number.
    max_entries: (count: number) => Math.min(count, INT32_MAX),
  },
};

/** Every translation but that of GetSupportedVersions checks the version first. */
export function translations(staging: OwnStaging): Translations {
  const { GetSupportedVersions, ...rest } = all(staging);
  const checked = Object.entries(rest).map(([rpc, translation]) => [rpc, withVersion(translation)]);
  return { GetSupportedVersions, ...Object.fromEntries(checked) };
}

function all(staging: OwnStaging) {
  return {
    GetSupportedVersions: async () => ({ supported_versions: [VERSION] }),
    GetPluginInfo: as('GetPluginInfo'),
    CreateVolume: as('CreateVolume', volumeInfoOf),
    DeleteVolume: as('DeleteVolume'),
    ControllerPublishVolume: as('ControllerPublishVolume', ({ publish_context }) => ({
      publish_volume_info: publish_context ?? {},
    })),
    ControllerUnpublishVolume: as('ControllerUnpublishVolume'),
    ValidateVolumeCapabilities: validated,
    ListVolumes: asList('ListVolumes', volumeInfoOf),
    GetCapacity: availableCapacity,
    // ControllerGetCapabilities waits for the service; Probe does not.
    ControllerProbe: async (_request: Message, v1: V1Calls) => {
      await v1.call('ControllerGetCapabilities', {});
      return probe(v1);
    },
    ControllerGetCapabilities: asTypes('ControllerGetCapabilities', CONTROLLER_TYPES),
    NodePublishVolume: async (request: Message, v1: V1Calls) => {
      const { target_path, readonly, ...use } = v1.fieldsOf('NodePublishVolume', request);
      await staging.publish(v1, use, { target_path, readonly });
      return {};
    },
    NodeUnpublishVolume: async (request: Message, v1: V1Calls) => {
      // The request of v1 has no secrets, so they are checked here.
      parseSecrets(request['user_credentials'], 'user_credentials');
      const { volume_id, target_path } = v1.fieldsOf('NodeUnpublishVolume', request);
      await staging.unpublish(v1, { volume_id, target_path });
      return {};
    },
    GetNodeID: as('NodeGetInfo', ({ node_id = '' }) => ({ node_id })),
    NodeProbe: async (_request: Message, v1: V1Calls) => {
      await v1.call('NodeGetCapabilities', {});
      return probe(v1);
    },
    // Every capability that the plugin could name came with a later version.
    NodeGetCapabilities: as('NodeGetCapabilities', () => ({})),
  };
}

function withVersion(translation: Translation): Translation {
  return async (request, v1) => {
    assertServed(request['version']);
    return translation(request, v1);
  };
}

function assertServed(version: Message | null): void {
  const served = versionText(VERSION);
  if (version === null) {
    throw CsiError.invalidArgument(`version is required; this interface serves ${served}`);
  }
  if (versionText(version) === served) return;
  throw CsiError.invalidArgument(`version ${versionText(version)} is not served; GetSupportedVersions lists ${served}`);
}

function versionText({ major, minor, patch }: Message): string {
  return `${major}.${minor}.${patch}`;
}

/** Sizes are unsigned in v0.1 and signed in v1. No volume is larger than INT64_MAX bytes. */
function signedRange(range: Message | null): Message | null {
  if (range === null) return null;
  const { required_bytes, limit_bytes } = range;
  if (BigInt(required_bytes) > INT64_MAX) {
    throw new CsiError(
      StatusCode.OUT_OF_RANGE,
      `capacity_range.required_bytes ${required_bytes} is over the largest size, ${INT64_MAX}`,
    );
  }
  const isUnlimited = BigInt(limit_bytes) > INT64_MAX;
  return { required_bytes, limit_bytes: isUnlimited ? `${INT64_MAX}` : limit_bytes };
}

function volumeInfoOf(answer: Message): Message {
  const { volume_id, capacity_bytes, volume_context } = present(answer['volume'], 'volume');
  return {
    volume_info: {
      id: volume_id ?? '',
      capacity_bytes: capacity_bytes ?? '0',
      attributes: volume_context ?? {},
    },
  };
}

/** Fails unless the plugin works: a response of v0.1 cannot say "not yet". */
async function probe(v1: V1Calls): Promise<object> {
  const { ready } = await v1.call('Probe', {});
  if (ready?.value === false) throw CsiError.unavailable('the plugin is starting; call again');
  return {};
}
