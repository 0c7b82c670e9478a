/**
 * Refuses two kinds of requests before a handler sees them, whatever the handler would do.
 *
 * The first kind names an object of another node: every handle contains the key of its node. A node that does not know
 * the object would otherwise treat the object as deleted: DeleteSnapshot would succeed and leave the snapshot where it
 * is, and a delta would be "not found", which means a full backup.
 *
 * The second kind changes an object while the catalogue lacks rows. All other requests are still served: pods keep
 * running and can be torn down, and backups can be made.
 *
 * Knows RPCs only by name and by the table of base/csi/handle-fields.ts.
 */
import { type GivenHandle, handlesIn } from '../../base/csi/handle-fields.js';
import { nodeKeyOf } from '../../base/csi/handles.js';
import type { RpcName } from '../../base/csi/service.js';
import { CsiError } from '../../base/errors.js';
import type { RequestCheck } from '../../server/server.js';
import type { NodeIdentity } from '../volumes/node-identity.js';
import type { LostRows } from '../volumes/unknown-objects.js';

/** The RPCs that create, delete or change an object of the catalogue. */
const CHANGES: ReadonlySet<string> = new Set<RpcName>([
  'CreateVolume',
  'DeleteVolume',
  'ControllerExpandVolume',
  'ControllerModifyVolume',
  'CreateSnapshot',
  'DeleteSnapshot',
  'CreateVolumeGroupSnapshot',
  'DeleteVolumeGroupSnapshot',
]);

/**
 * These RPCs release only mounts on this node that a record or a device proves to be the volume's. Their
 * answer is about this node whatever the handle says, and a node must always be able to release.
 */
const ALWAYS_SERVED: readonly string[] = ['NodeUnstageVolume', 'NodeUnpublishVolume'];

/** @param lost read at each call, because a pool that starts later may show that rows are missing */
export function requestCheck(identity: NodeIdentity, lost: Pick<LostRows, 'found' | 'refusal'>): RequestCheck {
  return (rpc, request) => {
    if (lost.found && CHANGES.has(rpc)) throw lost.refusal(rpc);
    if (ALWAYS_SERVED.includes(rpc)) return;
    // There may be a replica of a source on another node here: volumes/volume-source.ts looks.
    const isSource = (field: string): boolean => field.startsWith('volume_content_source.');
    const foreign = handlesIn(rpc, request).find(
      ({ field, handle }) => !isSource(field) && isForeign(handle, identity),
    );
    if (foreign !== undefined) throw refusal(foreign, identity);
  };
}

function isForeign(handle: string, { key }: NodeIdentity): boolean {
  const found = nodeKeyOf(handle);
  return found !== null && found !== key;
}

/**
 * Callers try again later and give nothing up. The answer is never NOT_FOUND and never OK.
 */
function refusal({ field, handle }: GivenHandle, { nodeId, key }: NodeIdentity): CsiError {
  return CsiError.failedPrecondition(
    `${field}: ${handle} belongs to the node with the key ${nodeKeyOf(handle)}, and this is node ${nodeId} ` +
      `with the key ${key}; call the plugin of that node`,
  );
}
