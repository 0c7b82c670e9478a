/** The parts that several responses share: types of messages for the encoder, and text within CSI's limit. */
import { MAX_STRING_BYTES } from '../../base/csi/fields.js';
import type { Snapshot as GeneratedSnapshot } from '../../base/csi/generated/csi/v1/Snapshot.js';
import type { Volume as GeneratedVolume } from '../../base/csi/generated/csi/v1/Volume.js';
import type { VolumeHealth as GeneratedVolumeHealth } from '../../base/csi/generated/csi/v1/VolumeHealth.js';
import type { VolumeUsage as GeneratedVolumeUsage } from '../../base/csi/generated/csi/v1/VolumeUsage.js';
import type { Timestamp as GeneratedTimestamp } from '../../base/csi/generated/google/protobuf/Timestamp.js';
import type { Message } from '../../base/csi/service.js';

export type Snapshot = Message<GeneratedSnapshot>;
export type Timestamp = Message<GeneratedTimestamp>;
export type Volume = Message<GeneratedVolume>;
export type VolumeHealth = Message<GeneratedVolumeHealth>;
export type VolumeUsage = Message<GeneratedVolumeUsage>;

/** For timestamps. */
export const NS_PER_SECOND = 1_000_000_000n;

/** Shortens a text to CSI's limit for fields, with an ellipsis at the end. Do not use this for status messages. */
export function limitedText(text: string): string {
  if (Buffer.byteLength(text) <= MAX_STRING_BYTES) return text;
  const bytes = Buffer.from(text).subarray(0, MAX_STRING_BYTES - '...'.length);
  // In stream mode the decoder omits an incomplete character at the end.
  return `${new TextDecoder().decode(bytes, { stream: true })}...`;
}
