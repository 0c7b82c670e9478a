/** What a fuzzer knows of an interface: its RPCs and messages, and which requests may succeed. */
import type protobuf from 'protobufjs';
import { csiMessage } from '../../src/csi/proto.js';
import type { Message } from './csi-client.js';
import { type FuzzWorld, plausibleRequest } from './plausible-requests.js';
import type { Random } from './random.js';
import { allRpcs, type RpcDescription } from './raw-call.js';

export interface FuzzedProto {
  readonly rpcs: readonly RpcDescription[];
  /** @param name relative to the package */
  typeOf(name: string): protobuf.Type;
  plausible(rpc: string, random: Random, world: FuzzWorld): Message;
  /** Fields without which nothing of a request is looked at. */
  always(rpc: string): Message;
  /** The id of the volume, or of the snapshot, that an answer says was made. */
  volumeId(answer: Message): string;
  snapshotId(answer: Message): string;
}

export const CSI_V1: FuzzedProto = {
  rpcs: allRpcs(),
  typeOf: csiMessage,
  plausible: plausibleRequest,
  always: () => ({}),
  volumeId: ({ volume }) => volume.volume_id,
  snapshotId: ({ snapshot }) => snapshot.snapshot_id,
};
