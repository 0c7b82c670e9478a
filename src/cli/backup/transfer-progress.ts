/** How far a transfer of bytes is, for the progress line: bytes, rate and time left. */
import { humanSize } from '../../base/human-size.js';
import type { ProgressState } from '../progress.js';

export class TransferProgress {
  #what: string;
  #since = performance.now();
  #bytes = 0n;
  #total: bigint | null = null;

  /** @param what the activity to show, such as "copying" */
  constructor(what: string, totalBytes: bigint | null = null) {
    this.#what = what;
    this.#total = totalBytes;
  }

  /** A new activity starts a new measurement of the rate. */
  begin(what: string, totalBytes: bigint | null): void {
    if (what !== this.#what) this.#since = performance.now();
    this.#what = what;
    this.#total = totalBytes;
  }

  set done(bytes: bigint) {
    this.#bytes = bytes;
  }

  get state(): ProgressState {
    const [bytes, total] = [this.#bytes, this.#total];
    if (total === null || total === 0n) return { share: null, text: this.#what };
    const seconds = (performance.now() - this.#since) / 1000;
    const rate = seconds > 0 ? Number(bytes) / seconds : 0;
    const left = rate > 0 ? Number(total - bytes) / rate : 0;
    const figures = `${humanSize(bytes)} of ${humanSize(total)}, ${humanSize(BigInt(Math.round(rate)))}/s`;
    return {
      share: Number(bytes) / Number(total),
      text: `${this.#what}: ${figures}, ${duration(left)} left`,
    };
  }
}

function duration(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}
