/** What the commands about backups have in common: options, how failures end them, and their progress line. */
import { type Command, InvalidArgumentError } from 'commander';
import { CsiError, StatusCode } from '../../base/errors.js';
import { humanSize } from '../../base/human-size.js';
import { InterruptedError } from '../../client/resumable-stream.js';
import { ExitCode, exitCodeOfStatus } from '../exit-codes.js';
import { type CommandFailure, messageOf } from '../output.js';
import type { ProgressState } from '../progress.js';

export const ENDPOINT_HELP = "the driver's socket, unix:///path (default: CSI_ENDPOINT)";

export function addChoice(command: Command): Command {
  return command
    .option('--volume <id>', 'the volume whose backups are meant', '')
    .option('--snapshot <id>', 'the snapshot whose backup is meant (default: the newest)', '');
}

export function backupFailure(error: unknown): CommandFailure {
  const message = messageOf(error);
  if (error instanceof InterruptedError) return { code: ExitCode.UNREACHABLE, message };
  const { code } = CsiError.from(error);
  if (code === StatusCode.UNAVAILABLE) return { code: ExitCode.UNREACHABLE, message };
  return { code: exitCodeOfStatus(code), message };
}

export function parseCount(value: string): number {
  if (/^\d{1,6}$/.test(value)) return Number(value);
  throw new InvalidArgumentError('It must be a whole number.');
}

/** Bytes done of a total, with the rate and the time left. */
export class TransferProgress {
  readonly #started = performance.now();
  #done = 0n;

  /** @param totalBytes null: not known yet */
  constructor(
    private readonly what: string,
    public totalBytes: bigint | null,
  ) {}

  set done(bytes: bigint) {
    this.#done = bytes;
  }

  get state(): ProgressState {
    const seconds = (performance.now() - this.#started) / 1000;
    const rate = seconds > 0 ? Number(this.#done) / seconds : 0;
    const parts = [
      `${this.what} ${humanSize(this.#done)}`,
      `${humanSize(BigInt(Math.round(rate)))}/s`,
    ];
    if (this.totalBytes === null || this.totalBytes === 0n) {
      return { share: null, text: parts.join(', ') };
    }
    const left = rate > 0 ? (Number(this.totalBytes - this.#done) / rate).toFixed(0) : '?';
    return {
      share: Number(this.#done) / Number(this.totalBytes),
      text: [...parts, `${left} s left`].join(', '),
    };
  }
}
