/** A small hand-written reader of GetMetadata*Response messages: visits every range, makes no objects. */

/** Offsets and sizes as numbers: exact up to 8 PiB. */
export type VisitRange = (offset: number, size: number) => void;

const BLOCK_METADATA_TAG = 0x1a;
const BYTE_OFFSET_TAG = 0x08;
const SIZE_BYTES_TAG = 0x10;

export function readRanges(message: Uint8Array, visit: VisitRange): void {
  const reader = new VarintReader(message);
  while (reader.position < message.length) {
    if (reader.next() !== BLOCK_METADATA_TAG) {
      // block_metadata_type and volume_capacity_bytes are varints.
      reader.next();
      continue;
    }
    const length = reader.next();
    const end = length + reader.position;
    let offset = 0;
    let size = 0;
    while (reader.position < end) {
      const tag = reader.next();
      if (tag === BYTE_OFFSET_TAG) offset = reader.next();
      else if (tag === SIZE_BYTES_TAG) size = reader.next();
      else throw new Error(`tag ${tag} in a range`);
    }
    visit(offset, size);
  }
}

class VarintReader {
  position = 0;

  constructor(private readonly bytes: Uint8Array) {}

  next(): number {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = this.bytes[this.position];
      if (byte === undefined) throw new Error('the message ends within a number');
      this.position += 1;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
  }
}
