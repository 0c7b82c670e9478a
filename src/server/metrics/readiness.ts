/**
 * Tells whether the server is ready. Runs at most one check a second and never two at once, because every check may access
 * disks.
 */
import { messageOf } from '../../base/errors.js';
import { SingleFlight } from '../../base/single-flight.js';
import { withTimeout } from '../../base/timeout.js';

/** The check that Probe makes. Rejects with the reason if the server does not work. */
export type Health = () => Promise<'starting' | 'ready'>;

const FRESH_MS = 1000;
const TIMEOUT_MS = 6000;

export class Readiness {
  readonly #questions = new SingleFlight<'ready', string | null>();
  #last: { answer: string | null; at: number } | null = null;

  constructor(private readonly health: Health) {}

  /** Null if the server is ready; otherwise the reason why it is not. Never rejects. */
  async notReady(): Promise<string | null> {
    if (this.#last !== null && performance.now() - this.#last.at < FRESH_MS) {
      return this.#last.answer;
    }
    const asked = this.#questions.run('ready', async () => {
      const answer = await this.#ask();
      this.#last = { answer, at: performance.now() };
      return answer;
    });
    return withTimeout(asked, TIMEOUT_MS, () => 'the check of its pools takes too long');
  }

  #ask(): Promise<string | null> {
    return this.health().then((state) => (state === 'ready' ? null : 'it is starting'), messageOf);
  }
}
