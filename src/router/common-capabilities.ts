/**
 * The capabilities that the router advertises: those of its CSI level that all answering nodes have.
 *
 * Callers ask once, when they start. A node that cannot be reached at that time does not count, because one node that is down
 * would otherwise keep all sidecars from starting. So a caller may later ask a node of an older version for something that the
 * node cannot do, and the node answers UNIMPLEMENTED.
 */

import type { CsiLevel } from '../base/csi/capabilities.js';
import {
  controllerCapabilities,
  GROUP_CAPABILITIES,
  pluginServices,
  rpcCapabilities,
  VOLUME_EXPANSION,
} from '../base/csi/capabilities.js';
import { encodeMessage } from '../base/csi/proto.js';
import { fieldsOf } from './messages.js';

/** The encoded response of a plugin of this version that has every optional capability. */
export function capabilitiesFor(rpc: string, csiLevel: CsiLevel): Buffer {
  const settings = { csiLevel, controllerPublish: true };
  switch (rpc) {
    case 'GetPluginCapabilities':
      return encodeMessage('GetPluginCapabilitiesResponse', {
        capabilities: [
          ...pluginServices(settings).map((type) => ({ service: { type } })),
          ...VOLUME_EXPANSION.map((type) => ({ volume_expansion: { type } })),
        ],
      });
    case 'ControllerGetCapabilities':
      return encodeMessage('ControllerGetCapabilitiesResponse', {
        capabilities: rpcCapabilities(controllerCapabilities(settings)),
      });
    case 'GroupControllerGetCapabilities':
      return encodeMessage('GroupControllerGetCapabilitiesResponse', {
        capabilities: rpcCapabilities(GROUP_CAPABILITIES),
      });
    default:
      throw new Error(`${rpc} does not report capabilities`);
  }
}

/** The entries of `own` that all other lists have too. Each list is a message with one repeated field. */
export function commonEntries(own: Buffer, others: readonly Buffer[]): Buffer {
  const sets = others.map((list) => new Set(fieldsOf(list).map(({ bytes }) => bytes.toString('hex'))));
  const common = fieldsOf(own).filter(({ bytes }) => sets.every((set) => set.has(bytes.toString('hex'))));
  return Buffer.concat(common.map(({ bytes }) => bytes));
}
