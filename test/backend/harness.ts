/** What the contract suite needs from a backend besides the contract: how to read and write its volumes. */

import { newSnapshotId, newVolumeId } from '../../src/base/csi/handles.js';
import type { Backend } from '../../src/driver/backends/backend.js';
import { TEST_NODE_KEY } from '../support/records.js';

export const VOLUME_BYTES = 4 << 20;

export interface BackendHarness {
  readonly backend: Backend;
  /** Whether volumes are block devices of this machine. */
  readonly attaches: boolean;
  /** As a workload would: not synced, and without closing the device. Attaches where needed. */
  write(volumeId: string, offset: number, bytes: Buffer): Promise<void>;
  discard(volumeId: string, offset: number, length: number): Promise<void>;
  /** Parts of these, bytes, are not discarded: they keep their content. */
  readonly discardGranularity: number;
  /** The content of the volume. Attaches where needed. */
  read(volumeId: string): Promise<Buffer>;
  /** Lets go of what write and read opened. */
  release(volumeId: string): Promise<void>;
  /** Leaves in the pool what a run leaves that is killed while it makes these. The names that the next start returns. */
  leaveTemporary(objects: readonly HalfMade[]): Promise<string[]>;
  /** Leaves something foreign beside the volumes. */
  leaveForeign(): Promise<void>;
  /** What the storage below has free, bytes. */
  reallyFree(): Promise<bigint>;
  /** Starts another backend object on the same pool, as after a restart. */
  reopen(): Promise<StartedBackend>;
  dispose(): Promise<void>;
}

export interface StartedBackend {
  backend: Backend;
  /** What the start handed to `claim`. */
  uuid: string;
  swept: string[];
}

export async function started(backend: Backend): Promise<StartedBackend> {
  let uuid = '';
  const swept = await backend.start('any', async (found) => {
    uuid = found;
  });
  return { backend, uuid, swept };
}

export interface HalfMade {
  of: 'volume' | 'snapshot';
  id: string;
}

export interface ContractContext {
  readonly harness: BackendHarness;
  readonly backend: Backend;
  /** What the first start of the pool handed to `claim`. */
  readonly uuid: string;
  /** A new volume. Resolves to its id. */
  volume(sizeBytes?: bigint): Promise<string>;
  /** A new snapshot of the volume. Resolves to its id. */
  snapshot(volumeId: string): Promise<string>;
}

export const newVolume = (): string => newVolumeId(TEST_NODE_KEY);
export const newSnapshot = (): string => newSnapshotId(TEST_NODE_KEY);
export const SIZE = BigInt(VOLUME_BYTES);
