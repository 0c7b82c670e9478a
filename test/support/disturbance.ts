/** Work in the background, round after round until it is stopped. */
import { execFile } from 'node:child_process';

export class Disturbance {
  #isStopped = false;
  /** Rounds that were finished. */
  rounds = 0;
  /** It was stopped, or a round has failed. */
  hasEnded = false;
  /** The end of what a script has said. */
  output = '';
  readonly #done: Promise<void>;

  constructor(round: (number: number) => Promise<void>) {
    this.#done = this.#run(round);
    // Heard by stop().
    this.#done.catch(() => undefined);
  }

  /** `script` finds `args` as $1 and so on, and its exit status is ignored. */
  static script(script: string, args: readonly string[]): Disturbance {
    const command = ['-c', `exec 2>&1\n${script}`, 'disturbance', ...args];
    const round = (): Promise<void> =>
      new Promise((resolve) => {
        execFile('bash', command, { maxBuffer: Infinity }, (_, said) => {
          made.output = (made.output + said).slice(-4000);
          resolve();
        });
      });
    const made = new Disturbance(round);
    return made;
  }

  /** Lets the current round come to its end. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#done;
  }

  async #run(round: (number: number) => Promise<void>): Promise<void> {
    try {
      for (; !this.#isStopped; this.rounds += 1) await round(this.rounds);
    } finally {
      this.hasEnded = true;
    }
  }
}
