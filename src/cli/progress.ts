/**
 * A line on stderr that shows the progress of a command. It appears only on a terminal, and only after two seconds, so
 * a short command shows nothing, and neither does a command whose output is collected. The line is erased before
 * anything else is written to stderr.
 */
import { cell } from '../base/plain-text.js';

const APPEARS_AFTER_MS = 2000;
const REDRAWS_EVERY_MS = 250;
const BAR_CELLS = 30;

export interface ProgressState {
  /** From 0 to 1; null if the total is unknown. */
  share: number | null;
  text: string;
}

export interface ProgressOptions {
  stream?: Pick<NodeJS.WriteStream, 'isTTY' | 'columns' | 'write'>;
  appearsAfterMs?: number;
}

export class ProgressLine {
  readonly #stream: Pick<NodeJS.WriteStream, 'isTTY' | 'columns' | 'write'>;
  #timer: NodeJS.Timeout | undefined;
  #isShown = false;

  /** @param state called whenever the line is drawn */
  constructor(
    private readonly state: () => ProgressState,
    { stream = process.stderr, appearsAfterMs = APPEARS_AFTER_MS }: ProgressOptions = {},
  ) {
    this.#stream = stream;
    if (stream.isTTY !== true) return;
    this.#timer = setTimeout(() => {
      this.#draw();
      this.#timer = setInterval(() => this.#draw(), REDRAWS_EVERY_MS).unref();
    }, appearsAfterMs).unref();
  }

  /** Erases the line before other output; the timer draws it again later. */
  clear(): void {
    if (this.#isShown) this.#stream.write('\r\x1b[K');
    this.#isShown = false;
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.clear();
  }

  #draw(): void {
    const line = progressText(this.state(), this.#stream.columns ?? 80);
    this.#stream.write(`\r${line}\x1b[K`);
    this.#isShown = true;
  }
}

/** At most one column less than the terminal has, so that the line never wraps. */
export function progressText({ share, text }: ProgressState, columns: number): string {
  const shown = cell(text);
  if (share === null) return shown.slice(0, columns - 1);
  const bounded = Math.min(Math.max(share, 0), 1);
  const full = Math.floor(bounded * BAR_CELLS);
  const bar = `[${'#'.repeat(full)}${'.'.repeat(BAR_CELLS - full)}]`;
  return `${bar} ${String(Math.floor(bounded * 100)).padStart(3)} % ${shown}`.slice(0, columns - 1);
}
