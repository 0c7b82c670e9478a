/**
 * Volumes that a snapshot found frozen by another program, as long as nothing was written to them since: whoever does not
 * thaw one again leaves its pods hanging. Freezes nothing to find out, and knows nothing after a start.
 */
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';

/** Of /sys/block/NAME/stat: reads, which go on while it is frozen, come first, then writes and their sectors. */
const COUNTERS = /^\s*(?:\d+\s+){4}(\d+)\s+\d+\s+(\d+)/;

/** Beyond, the oldest is forgotten: volumes are deleted, too. */
const MAX_REMEMBERED = 1024;

interface Source {
  volumeId: string;
  loopPath: string | null;
  freezePath: string | null;
}

export class FoundFrozen {
  readonly #found = new Map<string, { loopPath: string; written: string; at: number }>();

  /** @param frozenNs how long the plugin itself froze one of them; 0: all that are mounted were frozen already */
  async note(sources: readonly Source[], frozenNs: bigint): Promise<void> {
    for (const { volumeId, loopPath, freezePath } of sources) {
      this.#found.delete(volumeId);
      if (frozenNs > 0n || loopPath === null || freezePath === null) continue;
      const written = await writtenTo(loopPath);
      if (written !== null) this.#found.set(volumeId, { loopPath, written, at: Date.now() });
    }
    for (const volumeId of this.#found.keys()) {
      if (this.#found.size > MAX_REMEMBERED) this.#found.delete(volumeId);
    }
  }

  /** How long ago it was found so; null: it was not, or has been written to, or detached. */
  async forMs(volumeId: string): Promise<number | null> {
    const found = this.#found.get(volumeId);
    if (found === undefined) return null;
    if ((await writtenTo(found.loopPath)) === found.written) return Date.now() - found.at;
    this.#found.delete(volumeId);
    return null;
  }
}

/** Changes with each write, and when the device is attached again; null: it cannot be told. */
async function writtenTo(loopPath: string): Promise<string | null> {
  const directory = `/sys/block/${basename(loopPath)}`;
  const [stat, backing] = await Promise.all(
    ['stat', 'loop/backing_file'].map((name) =>
      readFile(`${directory}/${name}`, 'utf8').catch(() => ''),
    ),
  );
  const [, writes, sectors] = COUNTERS.exec(stat ?? '') ?? [];
  return writes === undefined || backing === '' ? null : `${writes} ${sectors} ${backing}`;
}
