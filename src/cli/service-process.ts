/**
 * What `serve` and `route` have in common: a process that serves until it is told to stop, from its
 * settings to its exit code. Knows only the interface of a server.
 */
import { CsiError, messageOf, StatusCode } from '../base/errors.js';
import { createLogger, type Logger, type LogLevel } from '../base/logger.js';
import { describeRange, type Settings } from '../base/settings/reader.js';
import { ConfigError } from '../base/settings/values.js';
import { type CsiServer, StartError } from '../server/server.js';
import { ExitCode } from './exit-codes.js';

/** Time until the process kills itself, counted from the end of the grace period, or from a second signal (FORCED). */
export const LAST_RESORT_MS = 15_000;
const LAST_RESORT_FORCED_MS = 5_000;

export const EXIT_HELP = `Exit codes:
  0   stopped by SIGTERM or SIGINT
  1   could not start, or failed
  2   wrong usage
  78  a setting is invalid`;

export function settingsHelp(settings: Settings): string {
  const width = Math.max(...Object.keys(settings).map((name) => name.length));
  const lines = Object.entries(settings).map(([name, { fallback, unset, range, meaning }]) => {
    const without = fallback ?? unset;
    const shown = without === undefined ? 'required' : `default: ${without}`;
    return `  ${name.padEnd(width)}  ${meaning} (${describeRange(range)}) (${shown})`.replaceAll('`', '');
  });
  return ['Environment:', ...lines].join('\n');
}

/**
 * Runs until the service has stopped. Resolves with the exit code.
 *
 * @param parse throws a ConfigError for an invalid setting
 */
export async function runService<Config extends { readonly logLevel: LogLevel }>(
  parse: () => Config,
  run: (config: Config, log: Logger) => Promise<void>,
): Promise<number> {
  let config: Config;
  try {
    config = parse();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`blockdelta: ${error.message}\n`);
    return ExitCode.CONFIG;
  }
  const log = createLogger(config.logLevel);
  dieOnUnhandledErrors(log);
  try {
    await run(config, log);
    return ExitCode.OK;
  } catch (error) {
    const message = messageOf(error);
    process.stderr.write(`blockdelta: ${message}\n`);
    // Only a bug needs a stack in the log. Every other message is complete, and a stack would hide it.
    const isDefect = error instanceof CsiError && error.code === StatusCode.INTERNAL;
    if (isDefect) log.fatal({ err: error.cause ?? error }, 'the plugin cannot start');
    else if (!(error instanceof StartError || error instanceof CsiError)) {
      log.fatal({ err: error }, 'the plugin failed');
    }
    return ExitCode.FAILURE;
  }
}

/** Resolves at the first signal. From that moment the process ends in bounded time. */
export function watchSignals(
  server: CsiServer,
  { shutdownGraceMs }: { readonly shutdownGraceMs: number },
  log: Logger,
): Promise<void> {
  return new Promise((resolve) => {
    let signals = 0;
    const onSignal = (signal: NodeJS.Signals): void => {
      signals += 1;
      if (signals === 1) {
        log.info({ signal, graceMs: shutdownGraceMs }, 'stopping');
        killSelfAfter(shutdownGraceMs + LAST_RESORT_MS, log);
        resolve();
      } else if (signals === 2) {
        log.warn({ signal }, 'stopping at once');
        killSelfAfter(LAST_RESORT_FORCED_MS, log);
        server.force();
      }
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
  });
}

/**
 * A worker thread stuck in a system call blocks every ordinary exit, process.exit included. The next
 * start completes or rolls back unfinished work.
 */
function killSelfAfter(ms: number, log: Logger): void {
  const timer = setTimeout(() => {
    log.fatal('unfinished work in the kernel blocks the exit; the plugin kills itself');
    process.kill(process.pid, 'SIGKILL');
  }, ms);
  timer.unref();
}

/**
 * After a bug the state of the process is unknown, so the process logs a line and ends. It ends by SIGKILL, because an
 * ordinary exit waits for worker threads, and one of them may be stuck in the kernel.
 */
function dieOnUnhandledErrors(log: Logger): void {
  const die = (error: unknown): void => {
    log.fatal({ err: error }, 'bug: unhandled error');
    process.kill(process.pid, 'SIGKILL');
  };
  process.on('uncaughtException', die);
  process.on('unhandledRejection', die);
}
