/**
 * Makes the calls that bring a volume to a path of this node and away again, in the order of the specification, except
 * for calls that a driver does not have. Knows the order, but not the caller or the use of the volume.
 */
import type { DriverInfo, Message } from './csi-driver.js';

export interface VolumeUse {
  readonly volumeId: string;
  readonly capability: Message;
  readonly context: Message;
  readonly stagingPath: string;
  readonly targetPath: string;
  readonly readonly?: boolean;
  /** For NodeStageVolume. */
  readonly secrets?: Readonly<Record<string, string>>;
}

export interface Call {
  readonly rpc: string;
  readonly request: Message;
}

type Calls = (rpc: string, request: Message) => Promise<Message>;
type Capabilities = Pick<DriverInfo, 'controller' | 'node' | 'nodeId'>;

/**
 * Attaches, stages and publishes. The staging path and the parent of the target must exist.
 *
 * @param before called before each step with the call that undoes the step, because a failed step may have done its work
 */
export async function publish(
  call: Calls,
  capabilities: Capabilities,
  use: VolumeUse,
  before: (undo: Call) => void = () => undefined,
): Promise<void> {
  const { detach, unstage, unpublish } = undosOf(capabilities, use);
  const { volumeId, capability, context, stagingPath, targetPath, readonly = false, secrets = {} } = use;
  const common: Message = {
    volume_id: volumeId,
    volume_capability: capability,
    volume_context: context,
  };
  if (detach !== null) {
    before(detach);
    const request = { ...common, node_id: capabilities.nodeId, readonly };
    const { publish_context } = await call('ControllerPublishVolume', request);
    common['publish_context'] = publish_context ?? {};
  }
  if (unstage !== null) {
    before(unstage);
    common['staging_target_path'] = stagingPath;
    await call('NodeStageVolume', { ...common, secrets });
  }
  before(unpublish);
  await call('NodePublishVolume', { ...common, target_path: targetPath, readonly });
}

/** Returns the calls that undo a publication, in order. Each can be repeated, and is valid for a step that never ran. */
export function undoSteps(capabilities: Capabilities, use: Paths): Call[] {
  const { unpublish, unstage, detach } = undosOf(capabilities, use);
  return [unpublish, unstage, detach].filter((step) => step !== null);
}

type Paths = Pick<VolumeUse, 'volumeId' | 'stagingPath' | 'targetPath'>;

/** A step is null if the driver does not have it. */
function undosOf({ controller, node, nodeId }: Capabilities, use: Paths) {
  const { volumeId, stagingPath, targetPath } = use;
  const step = (rpc: string, where: Message): Call => ({
    rpc,
    request: { volume_id: volumeId, ...where },
  });
  const stages = node.has('STAGE_UNSTAGE_VOLUME');
  const attaches = controller.has('PUBLISH_UNPUBLISH_VOLUME');
  return {
    unpublish: step('NodeUnpublishVolume', { target_path: targetPath }),
    unstage: stages ? step('NodeUnstageVolume', { staging_target_path: stagingPath }) : null,
    detach: attaches ? step('ControllerUnpublishVolume', { node_id: nodeId }) : null,
  };
}

/** The capability of a raw block volume to which one pod writes. */
export const BLOCK_CAPABILITY = { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } };

/** The fields of CreateVolume that say where a volume must be accessible; none if the driver is not constrained. */
export function topologyRequirement(segments: DriverInfo['segments']): Message {
  if (segments === null) return {};
  const places = [{ segments }];
  return { accessibility_requirements: { requisite: places, preferred: places } };
}
