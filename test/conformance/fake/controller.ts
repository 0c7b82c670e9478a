/** The Controller service of the fake driver: raw block volumes, snapshots that are full copies. */
import { rmSync, truncateSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { BLOCK_BYTES, regrow } from './disk.js';
import { demand, type Message, type Rpcs, refusal } from './refusal.js';
import type { Snapshot, State, Volume } from './state.js';

const TOKEN = /^after-(\d+)$/;
const DEFAULT_BYTES = 8 << 20;
const LARGEST_BYTES = 1 << 30;
const MODES = ['SINGLE_NODE_WRITER', 'SINGLE_NODE_READER_ONLY'];
const CAPABILITIES = [
  'CREATE_DELETE_VOLUME',
  'LIST_VOLUMES',
  'GET_CAPACITY',
  'CREATE_DELETE_SNAPSHOT',
  'LIST_SNAPSHOTS',
  'GET_SNAPSHOT',
  'CLONE_VOLUME',
  'EXPAND_VOLUME',
];

export function controllerRpcs(state: State): Rpcs {
  return {
    ControllerGetCapabilities: () => ({
      capabilities: CAPABILITIES.filter((type) => state.has(type)).map((type) => ({ rpc: { type } })),
    }),
    CreateVolume: (request) => createVolume(state, request),
    DeleteVolume: (request) => deleteVolume(state, request),
    ControllerExpandVolume: (request) => expandVolume(state, request),
    ValidateVolumeCapabilities: (request) => {
      demand(request, 'volume_id', 'volume_capabilities');
      state.volume(request['volume_id']);
      const wrong = unsupported(request['volume_capabilities']);
      const confirmed = { volume_capabilities: request['volume_capabilities'] };
      return wrong === null ? { confirmed } : { message: wrong };
    },
    ListVolumes: (request) => page(request, state.volumes.values(), (volume) => ({ volume: volumeMessage(volume) })),
    GetCapacity: (request) => ({
      available_capacity: unsupported(request['volume_capabilities']) === null ? LARGEST_BYTES : 0,
    }),
    CreateSnapshot: (request) => createSnapshot(state, request),
    DeleteSnapshot: (request) => deleteSnapshot(state, request),
    GetSnapshot: (request) => {
      demand(request, 'snapshot_id');
      return { snapshot: snapshotMessage(state.snapshot(request['snapshot_id'])) };
    },
    ListSnapshots: (request) => {
      const { snapshot_id: id, source_volume_id: source } = request;
      const all = [...state.snapshots.values()].filter(
        (one) => (id === '' || one.id === id) && (source === '' || one.volumeId === source),
      );
      return page(request, all, (one) => ({ snapshot: snapshotMessage(one) }));
    },
  };
}

export function snapshotMessage(snapshot: Snapshot): Message {
  return {
    snapshot_id: snapshot.id,
    source_volume_id: snapshot.volumeId,
    size_bytes: snapshot.sizeBytes,
    creation_time: timestamp(snapshot.createdMs),
    ready_to_use: true,
    group_snapshot_id: snapshot.groupId,
  };
}

export function timestamp(ms: number): Message {
  return { seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1_000_000 };
}

/** The reason why a capability cannot be confirmed; null if all can. */
export function unsupported(capabilities: readonly Message[]): string | null {
  for (const capability of capabilities) {
    const mode = String(capability['access_mode']?.mode ?? 'none');
    if (!capability['block']) return 'only raw block volumes are served';
    if (!MODES.includes(mode)) return `access mode ${mode} is not supported`;
  }
  return null;
}

function volumeMessage(volume: Volume): Message {
  return {
    volume_id: volume.id,
    capacity_bytes: volume.sizeBytes,
    ...(volume.source === null ? {} : { content_source: volume.source }),
  };
}

function createVolume(state: State, request: Message): Message {
  demand(request, 'name', 'volume_capabilities');
  if (Buffer.byteLength(request['name']) > 128) {
    throw refusal('INVALID_ARGUMENT', 'name is longer than 128 bytes');
  }
  const wrong = unsupported(request['volume_capabilities']);
  if (wrong !== null) throw refusal('INVALID_ARGUMENT', wrong);
  const [name, parameters] = [String(request['name']), request['parameters']];
  if (Object.keys({ ...request['mutable_parameters'] }).length > 0) {
    throw refusal('INVALID_ARGUMENT', 'mutable_parameters are not supported');
  }
  const source: Message | null = request['volume_content_source'];
  const from = source === null ? null : sourceOf(state, source);
  const known = [...state.volumes.values()].find((volume) => volume.name === name);
  if (known !== undefined) {
    const { required, limit } = rangeOf(request);
    const fits = known.sizeBytes >= required && (limit === 0 || known.sizeBytes <= limit);
    const isSame = [
      [known.source, source],
      [{ ...known.parameters }, { ...parameters }],
    ].every(([a, b]) => isDeepStrictEqual(a, b));
    if (fits && isSame) return { volume: volumeMessage(known) };
    throw refusal('ALREADY_EXISTS', `another volume has the name '${name}'`);
  }
  const sizeBytes = sizeFor(request, from?.sizeBytes ?? 0);
  const volume = state.makeVolume({ name, sizeBytes, parameters, source }, from);
  return { volume: volumeMessage(volume) };
}

function sourceOf(state: State, source: Message): Snapshot | Volume {
  const id = String(source['snapshot']?.snapshot_id ?? source['volume']?.volume_id ?? '');
  if (id === '') throw refusal('INVALID_ARGUMENT', 'volume_content_source names nothing');
  if (source['snapshot']) return state.snapshot(id);
  if (!state.has('CLONE_VOLUME')) throw refusal('INVALID_ARGUMENT', 'volumes cannot be cloned');
  return state.volume(id);
}

function rangeOf(request: Message): { required: number; limit: number } {
  const range = request['capacity_range'];
  const [required, limit] = [Number(range?.required_bytes ?? 0), Number(range?.limit_bytes ?? 0)];
  const isUnset = range && required === 0 && limit === 0;
  if (isUnset || required < 0 || limit < 0 || (limit > 0 && required > limit)) {
    throw refusal('INVALID_ARGUMENT', `capacity_range ${required} to ${limit} is no range`);
  }
  return { required, limit };
}

/** Rounded up to whole blocks. */
function sizeFor(request: Message, leastBytes: number): number {
  const { required, limit } = rangeOf(request);
  const spec = required > 0 ? required : leastBytes > 0 ? leastBytes : DEFAULT_BYTES;
  const unlimited = limit > 0 && required === 0 && leastBytes === 0 ? Math.min(spec, limit) : spec;
  const sizeBytes = Math.ceil(unlimited / BLOCK_BYTES) * BLOCK_BYTES;
  if ((limit > 0 && sizeBytes > limit) || sizeBytes > LARGEST_BYTES || sizeBytes < leastBytes) {
    throw refusal('OUT_OF_RANGE', `${sizeBytes} bytes: limit ${limit}, at least ${leastBytes}`);
  }
  return sizeBytes;
}

function deleteVolume(state: State, request: Message): Message {
  demand(request, 'volume_id');
  const volume = state.volumes.get(request['volume_id']);
  if (volume === undefined) return {};
  if (volume.device !== null) {
    throw refusal('FAILED_PRECONDITION', `volume '${volume.id}' is staged`);
  }
  if (state.options.dependentSnapshots && state.snapshotsOf(volume.id).length > 0) {
    throw refusal('FAILED_PRECONDITION', `volume '${volume.id}' has snapshots`);
  }
  state.volumes.delete(volume.id);
  rmSync(volume.path);
  return {};
}

function expandVolume(state: State, request: Message): Message {
  demand(request, 'volume_id', 'capacity_range');
  const volume = state.volume(request['volume_id']);
  const { limit } = rangeOf(request);
  if (limit > 0 && limit < volume.sizeBytes) {
    throw refusal('OUT_OF_RANGE', `volume '${volume.id}' has ${volume.sizeBytes} bytes already`);
  }
  const sizeBytes = sizeFor(request, 0);
  if (sizeBytes > volume.sizeBytes) {
    truncateSync(volume.path, sizeBytes);
    volume.sizeBytes = sizeBytes;
    if (volume.device !== null) regrow(volume.device.path);
  }
  return { capacity_bytes: volume.sizeBytes, node_expansion_required: false };
}

function createSnapshot(state: State, request: Message): Message {
  demand(request, 'source_volume_id', 'name');
  const [name, volumeId] = [String(request['name']), String(request['source_volume_id'])];
  const known = [...state.snapshots.values()].find((snapshot) => snapshot.name === name);
  if (known !== undefined) {
    if (known.volumeId === volumeId) return { snapshot: snapshotMessage(known) };
    throw refusal('ALREADY_EXISTS', `snapshot '${name}' is one of volume '${known.volumeId}'`);
  }
  const snapshot = state.takeSnapshot(state.volume(volumeId), name);
  return { snapshot: snapshotMessage(snapshot) };
}

function deleteSnapshot(state: State, request: Message): Message {
  demand(request, 'snapshot_id');
  const snapshot = state.snapshots.get(request['snapshot_id']);
  if (snapshot === undefined) return {};
  if (snapshot.groupId !== '') {
    throw refusal('INVALID_ARGUMENT', `'${snapshot.id}' is a member of '${snapshot.groupId}'`);
  }
  state.snapshots.delete(snapshot.id);
  return {};
}

/** A page of a list: a token is the sequence number after which it starts. */
function page<T extends { sequence: number }>(
  request: Message,
  all: Iterable<T>,
  entryOf: (item: T) => Message,
): Message {
  const limit = Number(request['max_entries']);
  if (limit < 0) throw refusal('INVALID_ARGUMENT', `max_entries is negative: ${limit}`);
  const token = String(request['starting_token']);
  const match = TOKEN.exec(token);
  if (token !== '' && match === null) {
    throw refusal('ABORTED', `starting_token '${token}' is not one of ours: begin without a token`);
  }
  const after = Number(match?.[1] ?? 0);
  const rest = [...all].filter((item) => item.sequence > after);
  const shown = limit === 0 ? rest : rest.slice(0, limit);
  const isLast = shown.length === rest.length;
  return { entries: shown.map(entryOf), next_token: isLast ? '' : `after-${shown.at(-1)?.sequence}` };
}
