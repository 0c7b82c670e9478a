/** Messages that are part of more than one response, as the encoder takes them. */
import type { Snapshot as GeneratedSnapshot } from './generated/csi/v1/Snapshot.js';
import type { Volume as GeneratedVolume } from './generated/csi/v1/Volume.js';
import type { VolumeHealth as GeneratedVolumeHealth } from './generated/csi/v1/VolumeHealth.js';
import type { VolumeUsage as GeneratedVolumeUsage } from './generated/csi/v1/VolumeUsage.js';
import type { Timestamp as GeneratedTimestamp } from './generated/google/protobuf/Timestamp.js';
import type { Message } from './service.js';

export type Snapshot = Message<GeneratedSnapshot>;
export type Timestamp = Message<GeneratedTimestamp>;
export type Volume = Message<GeneratedVolume>;
export type VolumeHealth = Message<GeneratedVolumeHealth>;
export type VolumeUsage = Message<GeneratedVolumeUsage>;
