/**
 * Combines the messages of one or more streams into one list, and checks what CSI guarantees: ascending
 * order, no overlap, entries within the volume, one capacity. A list that violates this must not be used
 * for a backup, so it is an error; nothing is repaired.
 */
import type { MetadataMessage } from './metadata-stream.js';

export interface Entry {
  readonly offset: bigint;
  readonly size: bigint;
}

/** The plugin's list violates the CSI specification. */
export class InvalidListError extends Error {
  override readonly name = 'InvalidListError';
}

export class MetadataList {
  /** All entries before this offset have been received. The next stream starts here. */
  position: bigint;
  /** Null until the first message. */
  capacityBytes: bigint | null = null;
  #type: string | null = null;
  /** The last entry, which is not returned yet. After an interruption, the next stream may continue this entry. */
  #held: Entry | null = null;
  /** Whether no entry of the current stream has been seen. */
  #atStreamStart = true;

  constructor(startingOffset: bigint) {
    this.position = startingOffset;
  }

  /** Whether the list is complete, however the stream ends. */
  get isComplete(): boolean {
    return this.#held !== null && this.position === this.capacityBytes;
  }

  /** Call this before the messages of another stream that starts at `position`. */
  resume(): void {
    this.#atStreamStart = true;
  }

  /** Returns the entries that are final. */
  accept(message: MetadataMessage): Entry[] {
    this.#checkHead(message);
    const entries: Entry[] = [];
    for (const block of message.block_metadata) {
      const entry = this.#place(BigInt(block.byte_offset), BigInt(block.size_bytes));
      if (entry !== null) entries.push(entry);
    }
    return entries;
  }

  /** Returns the last entry. */
  finish(): Entry[] {
    const entries = this.#held === null ? [] : [this.#held];
    this.#held = null;
    return entries;
  }

  #checkHead(message: MetadataMessage): void {
    const capacity = BigInt(message.volume_capacity_bytes);
    const type = message.block_metadata_type;
    if (capacity < 0n) {
      throw new InvalidListError(`the list says that the volume has ${capacity} bytes`);
    }
    if (capacity !== (this.capacityBytes ?? capacity)) {
      throw new InvalidListError(
        `the volume's capacity changed within the list, from ${this.capacityBytes} to ${capacity}`,
      );
    }
    if (type !== (this.#type ?? type)) {
      throw new InvalidListError(`the block metadata type changed within the list, from ${this.#type} to ${type}`);
    }
    this.capacityBytes = capacity;
    this.#type = type;
  }

  /** Takes the next entry and returns the previous entry, unless the two are merged. */
  #place(offset: bigint, size: bigint): Entry | null {
    const end = offset + size;
    if (offset < 0n || size <= 0n || end > (this.capacityBytes ?? 0n)) {
      throw new InvalidListError(
        `the list contains ${describe(offset, size)}, outside the volume of ${this.capacityBytes} bytes`,
      );
    }
    const previous = this.#held;
    const entry = this.#startOfStream(offset, end) ?? { offset, size };
    if (previous !== null && entry.offset < previous.offset + previous.size) {
      throw new InvalidListError(
        `the list is out of order: ${describe(offset, size)} follows ${describe(previous.offset, previous.size)}`,
      );
    }
    const joins = this.#atStreamStart && this.#type === 'VARIABLE_LENGTH';
    this.#atStreamStart = false;
    this.position = end;
    if (joins && previous !== null && previous.offset + previous.size === entry.offset) {
      this.#held = { offset: previous.offset, size: end - previous.offset };
      return null;
    }
    this.#held = entry;
    return previous;
  }

  /** The first entry may begin before the requested offset. When resuming, that part is already known. */
  #startOfStream(offset: bigint, end: bigint): Entry | null {
    if (!this.#atStreamStart) return null;
    if (end <= this.position) {
      throw new InvalidListError(
        `the list was requested from ${this.position} but starts with ${describe(offset, end - offset)}`,
      );
    }
    const isKnown = this.#held !== null && offset < this.position;
    return isKnown ? { offset: this.position, size: end - this.position } : null;
  }
}

function describe(offset: bigint, size: bigint): string {
  return `${size} bytes at ${offset}`;
}
