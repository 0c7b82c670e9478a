/** The Node service of the fake driver: a loop device on the volume's file, bound to the target path. */

import { unsupported } from './controller.js';
import { bind, setReadOnly, unbind } from './disk.js';
import { demand, type Message, type Rpcs, refusal } from './refusal.js';
import type { State } from './state.js';

export function nodeRpcs(state: State): Rpcs {
  return {
    NodeGetInfo: () => ({ node_id: 'fake-node' }),
    NodeGetCapabilities: () => ({
      capabilities: ['STAGE_UNSTAGE_VOLUME', 'GET_VOLUME_STATS']
        .filter((type) => state.has(type))
        .map((type) => ({ rpc: { type } })),
    }),
    NodeStageVolume: (request) => state.inTurn(() => stage(state, request)),
    NodeUnstageVolume: (request) => state.inTurn(() => unstage(state, request)),
    NodePublishVolume: (request) => state.inTurn(() => publish(state, request)),
    NodeUnpublishVolume: (request) => state.inTurn(() => unpublish(state, request)),
    NodeGetVolumeStats: (request) => {
      demand(request, 'volume_id', 'volume_path');
      const volume = state.volume(request['volume_id']);
      const path = String(request['volume_path']);
      if (path !== volume.stagingPath && !volume.publications.has(path)) {
        throw refusal('NOT_FOUND', `volume '${volume.id}' is not at ${path}`);
      }
      return { usage: [{ total: volume.sizeBytes, unit: 'BYTES' }] };
    },
  };
}

async function stage(state: State, request: Message): Promise<Message> {
  demand(request, 'volume_id', 'staging_target_path', 'volume_capability');
  const volume = state.volume(request['volume_id']);
  const wrong = unsupported([request['volume_capability']]);
  if (wrong !== null) throw refusal('FAILED_PRECONDITION', wrong);
  const path = String(request['staging_target_path']);
  if (volume.stagingPath !== null && volume.stagingPath !== path) {
    throw refusal('FAILED_PRECONDITION', `volume '${volume.id}' is at ${volume.stagingPath}`);
  }
  await state.stage(volume, path);
  return {};
}

async function unstage(state: State, request: Message): Promise<Message> {
  demand(request, 'volume_id', 'staging_target_path');
  const volume = state.volumes.get(request['volume_id']);
  if (volume === undefined || volume.stagingPath !== request['staging_target_path']) return {};
  if (volume.publications.size > 0) {
    throw refusal('FAILED_PRECONDITION', `volume '${volume.id}' is published`);
  }
  await state.unstage(volume);
  return {};
}

async function publish(state: State, request: Message): Promise<Message> {
  demand(request, 'volume_id', 'target_path', 'volume_capability');
  const volume = state.volume(request['volume_id']);
  const target = String(request['target_path']);
  if (!state.has('STAGE_UNSTAGE_VOLUME')) await state.stage(volume, '');
  if (volume.device === null || volume.stagingPath !== request['staging_target_path']) {
    throw refusal('FAILED_PRECONDITION', `volume '${volume.id}' is not staged there`);
  }
  const wrong = unsupported([request['volume_capability']]);
  if (wrong !== null) throw refusal('FAILED_PRECONDITION', wrong);
  const mode = String(request['volume_capability'].access_mode.mode);
  const readOnly = Boolean(request['readonly']);
  const known = volume.publications.get(target);
  if (known !== undefined) {
    if (known.readOnly === readOnly && known.mode === mode) return {};
    throw refusal('ALREADY_EXISTS', `volume '${volume.id}' is at ${target} in another way`);
  }
  if (volume.publications.size > 0) {
    throw refusal('FAILED_PRECONDITION', `volume '${volume.id}' is published elsewhere`);
  }
  await setReadOnly(volume.device, readOnly || mode === 'SINGLE_NODE_READER_ONLY');
  await bind(volume.device, target);
  volume.publications.set(target, { readOnly, mode });
  return {};
}

async function unpublish(state: State, request: Message): Promise<Message> {
  demand(request, 'volume_id', 'target_path');
  const volume = state.volumes.get(request['volume_id']);
  const target = String(request['target_path']);
  if (volume?.publications.has(target)) {
    await unbind(target);
    volume.publications.delete(target);
    if (!state.has('STAGE_UNSTAGE_VOLUME')) await state.unstage(volume);
  }
  return {};
}
