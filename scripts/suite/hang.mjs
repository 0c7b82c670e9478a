/**
 * Tells a job that hangs from one on a slow machine: by the processor time that its processes have had, and never
 * by the clock alone. Knows nothing of tests.
 */
import { ProcessorTime } from './processor-time.mjs';
import { waitForLockOfOthers } from './waiting.mjs';

/** Between two looks at a job. */
export const LOOK_MS = 10_000;
/** Looks in a row: five minutes. A run that is itself stopped, or starved, looks less often and ends nothing sooner. */
const QUIET_LOOKS = 30;
/** What does nothing has had less than that meanwhile: timers and garbage collection take some. */
const QUIET_SECONDS = 1;
/** A slower machine, a sanitizer or a coverage run takes a few times what was recorded; what spins takes any. */
const FACTOR = 10;
/**
 * Of a job that no run has recorded; and of one that has a smaller record, such as that of a build which had nothing
 * to do, or of a test that mostly starts Node.js: ten times that is no measure of another machine.
 */
const LEAST_SECONDS = 120;

/**
 * Looks at a job until it hangs, which whoever is told ends it for, or until it has ended.
 * @param {import('./processor-time.mjs').Processes} processes
 * @param {object} options
 * @param {number} [options.cpuSeconds]   of processor time that it took when it was recorded
 * @param {boolean} [options.givesUp]     by itself when what it waits for does not come
 * @param {number} [options.lookMs]
 * @param {(reason: string) => void} hangs
 * @returns {() => number} stops looking, and gives the processor time that the job has had
 */
export function watchForHang(processes, { cpuSeconds, givesUp = false, lookMs = LOOK_MS }, hangs) {
  const time = new ProcessorTime(processes);
  const watch = new HangWatch(cpuSeconds);
  const looks = setInterval(() => {
    const reason = watch.look(time.look(), () => givesUp || waitForLockOfOthers(processes));
    if (reason === undefined) return;
    clearInterval(looks);
    hangs(reason);
  }, lookMs);
  return () => {
    clearInterval(looks);
    return time.look();
  };
}

export class HangWatch {
  #limit;
  #quiet = { looks: 0, seconds: 0 };

  /** @param {number} [recordedSeconds]   of processor, that the job took when it was recorded */
  constructor(recordedSeconds = 0) {
    this.#limit = FACTOR * Math.max(recordedSeconds, LEAST_SECONDS);
  }

  /**
   * Called every LOOK_MS.
   * @param {number} seconds            of processor, that the job has had so far
   * @param {() => boolean} mayBeQuiet  whether it waits for something outside the job, which is no hang of its own
   * @returns {string | undefined} why the job has to be ended
   */
  look(seconds, mayBeQuiet) {
    if (seconds > this.#limit) {
      return `ended after ${seconds.toFixed(0)} s of processor time, above ten times what it should take`;
    }
    if (seconds - this.#quiet.seconds >= QUIET_SECONDS || mayBeQuiet()) this.#quiet = { looks: 0, seconds };
    else this.#quiet.looks += 1;
    if (this.#quiet.looks < QUIET_LOOKS) return undefined;
    const minutes = (QUIET_LOOKS * LOOK_MS) / 60_000;
    return `ended: its processes had less than ${QUIET_SECONDS} s of processor time in ${minutes} minutes`;
  }
}
