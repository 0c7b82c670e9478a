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
    NodeStageVolume: (request) => {
      demand(request, 'volume_id', 'staging_target_path', 'volume_capability');
      const volume = state.volume(request['volume_id']);
      expectSupported(request);
      const path = String(request['staging_target_path']);
      if (volume.stagingPath !== null && volume.stagingPath !== path) {
        throw refusal('FAILED_PRECONDITION', `volume '${volume.id}' is at ${volume.stagingPath}`);
      }
      state.stage(volume, path);
      return {};
    },
    NodeUnstageVolume: (request) => {
      demand(request, 'volume_id', 'staging_target_path');
      const volume = state.volumes.get(request['volume_id']);
      if (volume === undefined || volume.stagingPath !== request['staging_target_path']) return {};
      if (volume.publications.size > 0) {
        throw refusal('FAILED_PRECONDITION', `volume '${volume.id}' is published`);
      }
      state.unstage(volume);
      return {};
    },
    NodePublishVolume: (request) => publish(state, request),
    NodeUnpublishVolume: (request) => {
      demand(request, 'volume_id', 'target_path');
      const volume = state.volumes.get(request['volume_id']);
      if (volume?.publications.delete(request['target_path'])) {
        unbind(request['target_path']);
        if (!state.has('STAGE_UNSTAGE_VOLUME')) state.unstage(volume);
      }
      return {};
    },
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

function publish(state: State, request: Message): Message {
  demand(request, 'volume_id', 'target_path', 'volume_capability');
  const volume = state.volume(request['volume_id']);
  const target = String(request['target_path']);
  if (!state.has('STAGE_UNSTAGE_VOLUME')) state.stage(volume, '');
  if (volume.device === null || volume.stagingPath !== request['staging_target_path']) {
    throw refusal('FAILED_PRECONDITION', `volume '${volume.id}' is not staged there`);
  }
  expectSupported(request);
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
  setReadOnly(volume.device.path, readOnly || mode === 'SINGLE_NODE_READER_ONLY');
  bind(volume.device.path, target);
  volume.publications.set(target, { readOnly, mode });
  return {};
}

function expectSupported(request: Message): void {
  const wrong = unsupported([request['volume_capability']]);
  if (wrong !== null) throw refusal('FAILED_PRECONDITION', wrong);
}
