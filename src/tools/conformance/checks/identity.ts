/** Identity checks, and whether the advertised capabilities are consistent. */
import { StatusCode } from '../../../base/errors.js';
import { type CheckContext, checksOf } from '../check.js';
import { ConformanceFailure, expect } from '../failure.js';
import { expectRefusal } from '../judged-driver.js';
import { readToEnd } from '../lists.js';
import { describeRefusal } from '../refusal.js';

const NAME_MAX = 63;
const NAME = /^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$/;
const STRING_MAX_BYTES = 128;

async function info({ driver }: CheckContext): Promise<void> {
  const { name, vendor_version } = await driver.call('GetPluginInfo', {});
  expect(
    NAME.test(name) && name.length <= NAME_MAX,
    'GetPluginInfo: name',
    `a domain name of at most ${NAME_MAX} characters`,
    () => `'${name}'`,
  );
  const bytes = Buffer.byteLength(vendor_version);
  expect(
    bytes > 0 && bytes <= STRING_MAX_BYTES,
    'GetPluginInfo: vendor_version',
    `1 to ${STRING_MAX_BYTES} bytes`,
    () => `${bytes}`,
  );
}

async function probe({ driver }: CheckContext): Promise<void> {
  const { ready } = await driver.call('Probe', {});
  expect(ready?.value !== false, 'Probe', 'ready true or unset', () => 'ready false');
}

async function stable({ driver }: CheckContext): Promise<void> {
  for (const rpc of ['GetPluginInfo', 'GetPluginCapabilities']) {
    const first = JSON.stringify(await driver.call(rpc, {}));
    const again = JSON.stringify(await driver.call(rpc, {}));
    expect(first === again, `${rpc} a second time`, first, () => again);
  }
}

/** A capability that is useless, or against the rules, without one of `needs`. */
interface Dependency {
  readonly of: keyof Lists;
  readonly name: string;
  readonly needs: readonly { readonly in: keyof Lists; readonly name: string }[];
}

interface Lists {
  readonly plugin: ReadonlySet<string>;
  readonly expansion: ReadonlySet<string>;
  readonly controller: ReadonlySet<string>;
  readonly node: ReadonlySet<string>;
}

const PUBLISH = { in: 'controller', name: 'PUBLISH_UNPUBLISH_VOLUME' } as const;
const CONTROLLER_EXPAND = { in: 'controller', name: 'EXPAND_VOLUME' } as const;
const NODE_EXPAND = { in: 'node', name: 'EXPAND_VOLUME' } as const;

const DEPENDENCIES: readonly Dependency[] = [
  { of: 'controller', name: 'LIST_VOLUMES_PUBLISHED_NODES', needs: [PUBLISH] },
  { of: 'controller', name: 'PUBLISH_READONLY', needs: [PUBLISH] },
  {
    of: 'controller',
    name: 'LIST_VOLUME_HEALTH',
    needs: [{ in: 'controller', name: 'GET_VOLUME_HEALTH' }],
  },
  { of: 'expansion', name: 'ONLINE', needs: [CONTROLLER_EXPAND, NODE_EXPAND] },
  { of: 'expansion', name: 'OFFLINE', needs: [CONTROLLER_EXPAND] },
];

async function consistency(context: CheckContext): Promise<void> {
  const { plugin, expansion, controller, node, nodeInfo } = context.advertised;
  const lists: Lists = { plugin, expansion, controller, node: node ?? new Set() };
  for (const { of, name, needs } of DEPENDENCIES) {
    if (!lists[of].has(name)) continue;
    expect(
      needs.some((need) => lists[need.in].has(need.name)),
      `${name} (${of})`,
      needs.map((need) => `${need.name} (${need.in})`).join(' or '),
      () => 'neither advertised',
    );
  }
  if (controller.has('EXPAND_VOLUME') && expansion.size === 0) {
    context.note('EXPAND_VOLUME without VolumeExpansion: callers cannot know when to expand');
  }
  if (node !== null) {
    const name = 'SINGLE_NODE_MULTI_WRITER';
    expect(
      controller.size === 0 || controller.has(name) === node.has(name),
      name,
      'the same on the controller and the node',
      () => `${controller.has(name)} on the controller and ${node.has(name)} on the node`,
    );
  }
  const constrained = 'VOLUME_ACCESSIBILITY_CONSTRAINTS';
  if (nodeInfo === null) return;
  expect(
    plugin.has(constrained) === (nodeInfo.topology !== null),
    'NodeGetInfo: accessible_topology',
    `one exactly when ${constrained} is advertised`,
    () => (nodeInfo.topology === null ? 'none' : 'one'),
  );
}

async function knownValues(context: CheckContext): Promise<void> {
  const { plugin, expansion, controller, group, node } = context.advertised;
  for (const list of [plugin, expansion, controller, group, node ?? new Set<string>()]) {
    for (const value of list) {
      // protobuf.js decodes a value that this proto does not define as a number.
      expect(!/^\d+$|^UNKNOWN$/.test(value), 'capabilities', 'known values', () => value);
    }
  }
}

/** The RPCs that a capability requires. Each RPC gets an empty request, and any status but UNIMPLEMENTED passes. */
const REQUIRED_RPCS: readonly (readonly [keyof Lists | 'group', string, readonly string[]])[] = [
  ['controller', 'CREATE_DELETE_VOLUME', ['CreateVolume', 'DeleteVolume']],
  ['controller', 'PUBLISH_UNPUBLISH_VOLUME', ['ControllerPublishVolume', 'ControllerUnpublishVolume']],
  ['controller', 'LIST_VOLUMES', ['ListVolumes']],
  ['controller', 'GET_CAPACITY', ['GetCapacity']],
  ['controller', 'CREATE_DELETE_SNAPSHOT', ['CreateSnapshot', 'DeleteSnapshot']],
  ['controller', 'LIST_SNAPSHOTS', ['ListSnapshots']],
  ['controller', 'EXPAND_VOLUME', ['ControllerExpandVolume']],
  ['controller', 'GET_VOLUME', ['ControllerGetVolume']],
  ['controller', 'MODIFY_VOLUME', ['ControllerModifyVolume']],
  ['controller', 'GET_SNAPSHOT', ['GetSnapshot']],
  ['controller', 'GET_VOLUME_HEALTH', ['ControllerGetVolumeHealth']],
  ['controller', 'LIST_VOLUME_HEALTH', ['ControllerListVolumeHealth']],
  ['plugin', 'CONTROLLER_SERVICE', ['ControllerGetCapabilities', 'ValidateVolumeCapabilities']],
  [
    'group',
    'CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT',
    ['CreateVolumeGroupSnapshot', 'DeleteVolumeGroupSnapshot', 'GetVolumeGroupSnapshot'],
  ],
  ['node', 'STAGE_UNSTAGE_VOLUME', ['NodeStageVolume', 'NodeUnstageVolume']],
  ['node', 'GET_VOLUME_STATS', ['NodeGetVolumeStats']],
  ['node', 'EXPAND_VOLUME', ['NodeExpandVolume']],
  ['node', 'GET_VOLUME_HEALTH', ['NodeGetVolumeHealth']],
  ['node', 'GET_STORAGE_HEALTH', ['NodeGetStorageHealth']],
];

async function served(context: CheckContext): Promise<void> {
  const { advertised, driver } = context;
  await metadataServed(context);
  for (const [of, name, rpcs] of REQUIRED_RPCS) {
    if (!advertised[of]?.has(name)) continue;
    for (const rpc of rpcs) {
      const { refusal } = await driver.outcome(rpc, {});
      if (refusal?.code !== StatusCode.UNIMPLEMENTED) continue;
      throw new ConformanceFailure(`${rpc}, as ${name} is advertised`, 'an answer', describeRefusal(refusal));
    }
  }
}

async function metadataServed({ advertised, driver }: CheckContext): Promise<void> {
  if (!advertised.plugin.has('SNAPSHOT_METADATA_SERVICE')) return;
  for (const rpc of ['GetMetadataAllocated', 'GetMetadataDelta'] as const) {
    const { end } = await readToEnd({ driver }, { rpc, ids: {} });
    expect(
      end.code !== StatusCode.UNIMPLEMENTED,
      `${rpc}, as SNAPSHOT_METADATA_SERVICE is advertised`,
      'an answer',
      () => describeRefusal(end),
    );
  }
}

async function nodeInfo({ advertised }: CheckContext): Promise<void> {
  const bytes = Buffer.byteLength(advertised.nodeInfo?.nodeId ?? '');
  expect(
    bytes > 0 && bytes <= 2 * STRING_MAX_BYTES,
    'NodeGetInfo: node_id',
    `1 to ${2 * STRING_MAX_BYTES} bytes`,
    () => `${bytes}`,
  );
}

/** Checks the form of every error status of the run, and of two that it provokes. */
async function statusMessage({ driver, advertised }: CheckContext): Promise<void> {
  if (advertised.plugin.has('CONTROLLER_SERVICE')) {
    const outcome = await driver.attempt('ValidateVolumeCapabilities', {});
    expectRefusal('ValidateVolumeCapabilities without fields', outcome, [StatusCode.INVALID_ARGUMENT]);
  }
  if (advertised.node !== null) await driver.attempt('NodePublishVolume', {});
  for (const refusal of driver.refusals) {
    const found = describeRefusal(refusal);
    expect(refusal.message !== '', `a refusal of ${refusal.rpc}`, 'a status message', () => found);
    expect(!refusal.hasDetails, `a refusal of ${refusal.rpc}`, 'no status details', () => found);
  }
}

export const identityChecks = checksOf([], 'Identity: GetPluginCapabilities', [
  {
    id: 'identity.info',
    section: 'Identity: GetPluginInfo',
    rule: 'ID1',
    title: 'the driver has a name and a version of the right form',
    run: info,
  },
  {
    id: 'identity.probe',
    section: 'Identity: Probe',
    rule: 'ID7',
    title: 'the driver is ready',
    run: probe,
  },
  {
    id: 'identity.stable',
    rule: 'ID5',
    title: 'two calls return the same answer',
    run: stable,
  },
  {
    id: 'node.info',
    section: 'Node: NodeGetInfo',
    rule: 'NI2',
    title: 'the node has an id',
    also: ['publish'],
    run: nodeInfo,
  },
  {
    id: 'capability.known',
    rule: 'ID6',
    title: 'every capability is a value that CSI defines, up to 1.13',
    run: knownValues,
  },
  {
    id: 'capability.consistency',
    section: 'Controller: ControllerGetCapabilities',
    rule: 'CC1',
    title: 'every capability comes with the capabilities it depends on',
    run: consistency,
  },
  {
    id: 'capability.served',
    section: 'Error Scheme',
    rule: 'G10',
    title: 'the RPCs of an advertised capability are implemented',
    run: served,
  },
]);

/** Runs last, over the error statuses of all checks. */
export const statusChecks = checksOf([], 'Error Scheme', [
  {
    id: 'status.message',
    rule: 'G2',
    title: 'every error of the run has a message and no rich details',
    run: statusMessage,
  },
]);
