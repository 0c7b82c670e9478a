/**
 * What the router advertises: the capabilities of its CSI level that every node has which answers.
 *
 * Callers ask once, when they start. A node that cannot be reached then does not count: otherwise one node
 * that is down would keep all sidecars from starting. A node of an older version may so be asked for what
 * it cannot do, and answers UNIMPLEMENTED.
 */

import type { CsiLevel } from '../base/csi/capabilities.js';
import {
  controllerCapabilities,
  GROUP_CAPABILITIES,
  pluginServices,
  rpcCapabilities,
  VOLUME_EXPANSION,
} from '../base/csi/capabilities.js';
import { encode, fieldsOf } from './messages.js';

/** The response of a plugin of this version that has everything which is optional, encoded. */
export function capabilitiesFor(rpc: string, csiLevel: CsiLevel): Buffer {
  const settings = { csiLevel, controllerPublish: true };
  switch (rpc) {
    case 'GetPluginCapabilities':
      return encode('GetPluginCapabilitiesResponse', {
        capabilities: [
          ...pluginServices(settings).map((type) => ({ service: { type } })),
          ...VOLUME_EXPANSION.map((type) => ({ volume_expansion: { type } })),
        ],
      });
    case 'ControllerGetCapabilities':
      return encode('ControllerGetCapabilitiesResponse', {
        capabilities: rpcCapabilities(controllerCapabilities(settings)),
      });
    case 'GroupControllerGetCapabilities':
      return encode('GroupControllerGetCapabilitiesResponse', {
        capabilities: rpcCapabilities(GROUP_CAPABILITIES),
      });
    default:
      throw new Error(`${rpc} does not report capabilities`);
  }
}

/** The entries of a list that are in every other list too; each is a message with one repeated field. */
export function commonEntries(own: Buffer, others: readonly Buffer[]): Buffer {
  const sets = others.map(
    (list) => new Set(fieldsOf(list).map(({ bytes }) => bytes.toString('hex'))),
  );
  const common = fieldsOf(own).filter(({ bytes }) =>
    sets.every((set) => set.has(bytes.toString('hex'))),
  );
  return Buffer.concat(common.map(({ bytes }) => bytes));
}
