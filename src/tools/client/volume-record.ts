/**
 * Records a volume that a command uses for a while, with enough data to ask the driver for the volume by its name
 * again. Knows the form of the file, not what is done with the record.
 */
import { CsiError } from '../../base/errors.js';
import type { RuntimeEntry } from '../../base/system/runtime-directory.js';
import type { Message } from './csi-driver.js';
import { BLOCK_CAPABILITY, topologyRequirement } from './publication.js';

export interface VolumeRecord {
  readonly socketPath: string;
  /** The start of the volume's name. The rest is the id of the entry, so a record can name no other volume. */
  readonly namePrefix: string;
  /** 0 if the driver chooses. */
  readonly sizeBytes: bigint;
  /** The snapshot from which the volume is made; null for an empty volume. */
  readonly snapshotId: string | null;
  /** Where the volume must be accessible; null for anywhere. */
  readonly segments: Readonly<Record<string, string>> | null;
  /** Null until CreateVolume has answered, although the volume may already exist. */
  readonly volumeId: string | null;
  /** Whether the volume is deleted when it is closed. */
  readonly isTemporary: boolean;
}

export const nameOf = ({ namePrefix }: VolumeRecord, { id }: RuntimeEntry): string => `${namePrefix}-${id}`;

/** Returns the same request for the same record, so that the driver answers a repetition with the same volume. */
export function createRequest(record: VolumeRecord, entry: RuntimeEntry): Message {
  const { sizeBytes, snapshotId, segments } = record;
  return {
    name: nameOf(record, entry),
    volume_capabilities: [BLOCK_CAPABILITY],
    ...(sizeBytes === 0n ? {} : { capacity_range: { required_bytes: `${sizeBytes}` } }),
    ...(snapshotId === null ? {} : { volume_content_source: { snapshot: { snapshot_id: snapshotId } } }),
    ...topologyRequirement(segments),
  };
}

const FILE = 'record.json';
const VERSION = 1;
/** Each id has at most 128 bytes, and a topology has a few segments of such ids. */
const MAX_BYTES = 65_536;

export function writeRecord(entry: RuntimeEntry, { sizeBytes, ...rest }: VolumeRecord): void {
  entry.write(FILE, JSON.stringify({ version: VERSION, sizeBytes: `${sizeBytes}`, ...rest }));
}

/** Returns null if there is no record. Throws FAILED_PRECONDITION if the file is not ours or holds no valid record. */
export function readRecord(entry: RuntimeEntry): VolumeRecord | null {
  const text = entry.read(FILE, MAX_BYTES);
  if (text === null) return null;
  const record = parseRecord(text);
  if (record !== null) return record;
  throw CsiError.failedPrecondition(
    `${FILE} is no record of a volume: remove the directory, and with the driver the volume whose name ends in ` +
      `${entry.id}, if there is one`,
  );
}

function parseRecord(text: string): VolumeRecord | null {
  let found: Partial<Record<keyof VolumeRecord | 'version', unknown>> | null;
  try {
    found = JSON.parse(text) as typeof found;
  } catch {
    return null;
  }
  // A JSON text or number has none of these fields.
  const { version, socketPath, namePrefix, sizeBytes, snapshotId, segments, volumeId, isTemporary } = found ?? {};
  if (typeof version === 'number' && version > VERSION) {
    throw CsiError.failedPrecondition(
      `${FILE} has version ${version}, and this program reads version ${VERSION}: run a command of the version of ` +
        'blockdelta that has made it, or of a newer one',
    );
  }
  const isWhole =
    version === VERSION &&
    isText(socketPath) &&
    isText(namePrefix) &&
    isText(sizeBytes) &&
    /^\d{1,19}$/.test(sizeBytes) &&
    (snapshotId === null || isText(snapshotId)) &&
    (segments === null || isTextMap(segments)) &&
    (volumeId === null || isText(volumeId)) &&
    typeof isTemporary === 'boolean';
  if (!isWhole) return null;
  const size = BigInt(sizeBytes);
  return { socketPath, namePrefix, sizeBytes: size, snapshotId, segments, volumeId, isTemporary };
}

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';

function isTextMap(value: unknown): value is Record<string, string> {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every((each) => typeof each === 'string')
  );
}
