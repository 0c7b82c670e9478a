/** Reads the driver's capabilities once at the start, and finds the reason why a check is skipped. */
import { typesOf } from '../client/csi-driver.js';
import { ConformanceFailure } from './failure.js';
import type { Driver } from './judged-driver.js';
import type { AccessType, StringMap } from './options.js';
import { describeRefusal } from './refusal.js';

export interface NodeInfo {
  readonly nodeId: string;
  /** Null if the driver reports none. */
  readonly topology: StringMap | null;
}

/** What a check requires of the driver. */
export type Need =
  | 'volumes'
  | 'list-volumes'
  | 'snapshots'
  | 'list-snapshots'
  | 'get-snapshot'
  | 'clone'
  | 'expand'
  | 'groups'
  | 'metadata'
  | 'publish'
  | 'block'
  | 'mount';

/** Needs that correspond to one capability of the controller. */
const CONTROLLER_NEEDS: Readonly<Partial<Record<Need, string>>> = {
  volumes: 'CREATE_DELETE_VOLUME',
  'list-volumes': 'LIST_VOLUMES',
  snapshots: 'CREATE_DELETE_SNAPSHOT',
  'list-snapshots': 'LIST_SNAPSHOTS',
  'get-snapshot': 'GET_SNAPSHOT',
  clone: 'CLONE_VOLUME',
  expand: 'EXPAND_VOLUME',
};

export class Advertised {
  private constructor(
    readonly plugin: ReadonlySet<string>,
    /** Holds ONLINE and OFFLINE. */
    readonly expansion: ReadonlySet<string>,
    readonly controller: ReadonlySet<string>,
    readonly group: ReadonlySet<string>,
    /** Null if the endpoint serves no Node service. */
    readonly node: ReadonlySet<string> | null,
    readonly nodeInfo: NodeInfo | null,
  ) {}

  /** @throws ConformanceFailure if an RPC that every driver must serve fails */
  static async read(driver: Driver): Promise<Advertised> {
    const { capabilities } = await driver.call('GetPluginCapabilities', {});
    const plugin = typesOf(capabilities, 'service');
    const controller = plugin.has('CONTROLLER_SERVICE')
      ? typesOf((await driver.call('ControllerGetCapabilities', {}))['capabilities'], 'rpc')
      : new Set<string>();
    const group = plugin.has('GROUP_CONTROLLER_SERVICE')
      ? typesOf((await driver.call('GroupControllerGetCapabilities', {}))['capabilities'], 'rpc')
      : new Set<string>();
    const node = await nodeCapabilities(driver);
    return new Advertised(
      plugin,
      typesOf(capabilities, 'volume_expansion'),
      controller,
      group,
      node,
      node === null ? null : await askNodeInfo(driver, controller),
    );
  }

  /** Returns why a check with these needs cannot run; null if it can run. */
  reasonAgainst(needs: readonly Need[], access: readonly AccessType[]): string | null {
    for (const need of needs) {
      const reason = this.#missing(need, access);
      if (reason !== null) return reason;
    }
    return null;
  }

  #missing(need: Need, access: readonly AccessType[]): string | null {
    const capability = CONTROLLER_NEEDS[need];
    if (capability !== undefined) {
      return this.controller.has(capability) ? null : `${capability} is not advertised`;
    }
    if (need === 'metadata') {
      const name = 'SNAPSHOT_METADATA_SERVICE';
      return this.plugin.has(name) ? null : `${name} is not advertised`;
    }
    if (need === 'groups') {
      const name = 'CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT';
      return this.group.has(name) ? null : `${name} is not advertised`;
    }
    if (need === 'publish') {
      return this.node === null ? 'the endpoint serves no Node service' : null;
    }
    return access.includes(need as AccessType) ? null : `--access leaves out ${need} volumes`;
  }
}

async function nodeCapabilities(driver: Driver): Promise<Set<string> | null> {
  const { response, refusal } = await driver.outcome('NodeGetCapabilities', {});
  // Any error counts as "no Node service": a driver whose node part runs elsewhere can still be tested.
  return refusal === null ? typesOf(response['capabilities'], 'rpc') : null;
}

async function askNodeInfo(driver: Driver, controller: ReadonlySet<string>): Promise<NodeInfo | null> {
  const { response, refusal } = await driver.outcome('NodeGetInfo', {});
  if (refusal !== null) {
    if (!controller.has('PUBLISH_UNPUBLISH_VOLUME')) return null;
    throw new ConformanceFailure('NodeGetInfo', 'OK', describeRefusal(refusal));
  }
  const topology = response['accessible_topology'] as { segments: StringMap } | null;
  return { nodeId: String(response['node_id']), topology: topology?.segments ?? null };
}
