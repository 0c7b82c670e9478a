/** What the job prints, step by step, and the signals that end it between two steps. */

const MIB = 1024 ** 2;

let step = 0;
/** Set by the first signal: the step that runs comes to its end, and no other one begins. */
let interruption = null;

export const headline = (text) => console.log(`[${String(++step).padStart(2)}] ${text}`);
export const detail = (text) => console.log(`       ${text}`);
export const mib = (bytes) => `${(Number(bytes) / MIB).toFixed(1)} MiB`;
export const isInterrupted = () => interruption !== null;

export function throwIfInterrupted() {
  if (interruption !== null) throw interruption;
}

/** Begins a step of the job. */
export function say(text) {
  throwIfInterrupted();
  headline(text);
}

/**
 * A clean-up beside a running step would miss what that step makes, so it waits for the step's
 * end. The same signal once more ends the process as it is, for those who do not want to wait.
 */
export function heedSignals() {
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, () => {
      interruption ??= new Error(`interrupted by ${signal}`);
      detail(`${signal}: cleaning up after this step`);
    });
  }
}
