/** Reads what the scanner writes: whole gRPC frames of GetMetadata*Response messages. */
import assert from 'node:assert/strict';
import { type ScanOptions, scan } from '../../src/driver/metadata/scanner.js';
import type { ScanSource } from '../../src/driver/native/addon.js';
import type { NativeFiller } from '../../src/driver/native/pool.js';
import { ScanThreads } from '../../src/driver/native/scan-threads.js';
import { type MetadataAnswer, type Range, rangesIn } from './csi-client.js';
import { decodeMessage } from './raw-call.js';
import { patientTurn } from './turn.js';

const FRAME_HEAD_BYTES = 5;

export interface DecodedMessage {
  type: string;
  capacity: bigint;
  ranges: Range[];
}

/** The messages of a buffer of frames. Throws if it does not end with a frame. */
export function decodeFrames(bytes: Uint8Array): DecodedMessage[] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const messages: DecodedMessage[] = [];
  let at = 0;
  while (at < buffer.length) {
    assert.equal(buffer[at], 0, 'a frame is not compressed');
    const end = at + FRAME_HEAD_BYTES + buffer.readUInt32BE(at + 1);
    assert.ok(end <= buffer.length, 'a frame is whole');
    const body = buffer.subarray(at + FRAME_HEAD_BYTES, end);
    const message = decodeMessage('GetMetadataAllocatedResponse', body);
    messages.push({
      type: message['block_metadata_type'],
      capacity: BigInt(message['volume_capacity_bytes']),
      ranges: rangesIn(message),
    });
    at = end;
  }
  return messages;
}

/** The whole list of a scan, through the scanner and the wire form. */
export async function scanAll(
  filler: NativeFiller,
  source: ScanSource,
  options: Partial<ScanOptions> = {},
): Promise<MetadataAnswer & { rescans: number; unprovedBytes: bigint }> {
  const answer = { type: '', capacity: -1n, ranges: [] as Range[], messages: 0 };
  let rescans = 0;
  let unprovedBytes = 0n;
  for await (const { bytes, result } of scan(new ScanThreads(filler, 1), source, {
    startingOffset: 0n,
    maxResults: 0,
    turn: patientTurn(),
    ...options,
  })) {
    const messages = decodeFrames(bytes);
    assert.equal(messages.length, result.messages);
    rescans += result.rescans;
    unprovedBytes += result.unprovedBytes;
    answer.messages += messages.length;
    for (const message of messages) {
      answer.type = message.type;
      answer.capacity = message.capacity;
      answer.ranges.push(...message.ranges);
    }
  }
  return { ...answer, rescans, unprovedBytes };
}
