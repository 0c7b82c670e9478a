/** The native scan of a thin delta, called in this process the way a worker of the plugin calls it. */

import { readRanges, type VisitRange } from '../../../src/base/csi/range-reader.js';
import { toSystemError } from '../../../src/base/system/native-result.js';
import { MAX_ENTRIES_PER_MESSAGE } from '../../../src/driver/metadata/scanner.js';
import type { Addon, FillResult } from '../../../src/driver/native/addon.js';
import type { ThinScanSource } from '../../../src/driver/native/thin-addon.js';
import { BASE_DEVICE, type Metadata, TARGET_DEVICE } from './metadata.js';

/** What the plugin's scanner asks for in one call, and the buffer it lends. */
const ENTRIES_PER_CALL = 65_536;
const EXTENTS_PER_CALL = 131_072;
const BUFFER_BYTES = 1536 * 1024;
/** A zero byte and the length, before every message. */
const FRAME_HEAD_BYTES = 5;

export interface Scanned {
  ms: number;
  ranges: number;
  bytes: bigint;
  /** Blocks of metadata read. */
  nodes: number;
}

/** The delta as a backend gives it to the service: with the roots that the devices have now. */
export function thinSource(addon: Addon, { path, volumeBytes }: Metadata): ThinScanSource {
  const where = { metadata: path, superblock: 0n };
  const answer = addon.thinDevices({ ...where, deviceIds: [BASE_DEVICE, TARGET_DEVICE] });
  if (!answer.ok) throw toSystemError(answer);
  const [base, target] = answer.devices;
  if (base === undefined || target === undefined) throw new Error(`${path}: no snapshots`);
  return {
    ...where,
    kind: 'thin',
    sizeBytes: volumeBytes,
    base: { deviceId: base.deviceId, root: base.root },
    target: { deviceId: target.deviceId, root: target.root },
    bookmark: null,
  };
}

/** One whole scan. Its messages are in the buffer and thrown away, unless `visit` wants the ranges. */
export function scanOnce(addon: Addon, source: ThinScanSource, visit?: VisitRange): Scanned {
  const buffer = new ArrayBuffer(BUFFER_BYTES);
  const sums = { ranges: 0, bytes: 0n, nodes: 0 };
  const started = performance.now();
  let at = { offset: 0n, rangeStart: 0n };
  for (;;) {
    const result = addon.fillMetadata(
      {
        ...at,
        source,
        maxEntries: ENTRIES_PER_CALL,
        maxEntriesPerMessage: MAX_ENTRIES_PER_MESSAGE,
        maxExtents: EXTENTS_PER_CALL,
        sendEmpty: false,
      },
      buffer,
    );
    if (!result.ok) throw toSystemError(result);
    sums.ranges += result.entries;
    sums.bytes += result.entryBytes;
    sums.nodes += result.nodes;
    if (visit !== undefined) visitMessages(buffer, result, visit);
    if (result.done) return { ...sums, ms: performance.now() - started };
    at = { offset: result.nextOffset, rangeStart: result.nextRangeStart };
  }
}

function visitMessages(buffer: ArrayBuffer, { bytes }: FillResult, visit: VisitRange): void {
  const view = new DataView(buffer, 0, bytes);
  for (let at = 0; at < bytes; ) {
    const length = view.getUint32(at + 1);
    readRanges(new Uint8Array(buffer, at + FRAME_HEAD_BYTES, length), visit);
    at += FRAME_HEAD_BYTES + length;
  }
}
