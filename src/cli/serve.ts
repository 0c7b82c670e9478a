/**
 * `blockdelta serve`: the life of the plugin process, from its settings to its exit code.
 *
 * The socket is served before the pools are opened, so that Probe can say "starting". The first
 * SIGTERM or SIGINT lets calls in flight end, the second cuts them off.
 */
import type { Command } from 'commander';
import { CsiError } from '../base/errors.js';
import { createLogger, type Logger } from '../base/logger.js';
import { packageVersion } from '../base/version.js';
import { type Config, ConfigError, parseConfig, SETTINGS } from '../config/config.js';
import { type Composition, composeServices } from '../plugin/composition.js';
import { createIdentityService } from '../plugin/identity.js';
import { createPluginServer, type PluginServer, StartError } from '../plugin/server.js';
import { ExitCode } from './exit-codes.js';

/** From the end of the grace time, or from a second signal, until the process ends itself. */
const LAST_RESORT_MS = 15_000;
const LAST_RESORT_FORCED_MS = 5_000;

export function addServeCommand(program: Command): void {
  program
    .command('serve')
    .description('run the plugin; all settings come from the environment')
    .addHelpText('after', `\n${settingsHelp()}\n\n${EXIT_HELP}`)
    .action(async () => {
      // Explicit: a thread or a handle that was forgotten must not keep the process.
      process.exit(await serve(process.env));
    });
}

const EXIT_HELP = `Exit codes:
  0   stopped by SIGTERM or SIGINT
  1   could not start, or failed
  2   wrong usage
  78  a setting is wrong`;

function settingsHelp(): string {
  const width = Math.max(...Object.keys(SETTINGS).map((name) => name.length));
  const lines = Object.entries(SETTINGS).map(([name, { fallback, meaning }]) => {
    const shown = fallback === null ? '' : ` (default: ${fallback})`;
    return `  ${name.padEnd(width)}  ${meaning}${shown}`;
  });
  return ['Environment:', ...lines].join('\n');
}

/** Resolves with the exit code. */
async function serve(env: NodeJS.ProcessEnv): Promise<number> {
  let config: Config;
  try {
    config = parseConfig(env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`blockdelta: ${error.message}\n`);
    return ExitCode.CONFIG;
  }
  const log = createLogger(config.logLevel);
  dieLoudly(log);
  try {
    await run(config, log);
    return ExitCode.OK;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    process.stderr.write(`blockdelta: ${message}\n`);
    // These say all there is to say; a CsiError only if nothing lies behind it.
    if (error instanceof CsiError && error.cause !== undefined) {
      log.fatal({ err: error.cause }, 'the plugin cannot start');
    } else if (!(error instanceof StartError || error instanceof CsiError)) {
      log.fatal({ err: error }, 'the plugin failed');
    }
    return ExitCode.FAILURE;
  }
}

async function run(config: Config, log: Logger): Promise<void> {
  let composition: Composition | null = null;
  const identity = createIdentityService({
    csiLevel: config.csiLevel,
    controllerPublish: config.controllerPublish,
    driverName: config.driverName,
    vendorVersion: packageVersion(),
    health: async () => {
      if (composition === null) return 'starting';
      await composition.health();
      return 'ready';
    },
  });
  const server = createPluginServer({ services: [identity], config, logger: log });
  // Before the socket is there: whoever sees it may send a signal.
  const stopAsked = watchSignals(server, config, log);
  await server.start();
  log.info(
    {
      version: packageVersion(),
      endpoint: config.endpoint,
      node: config.nodeId,
    },
    'listening; starting the pools',
  );
  const composing = composeServices(config, log).then((composed) => {
    composition = composed;
    server.open(composed.services);
    log.info({ services: composed.services.map(({ name }) => name) }, 'ready');
  });
  try {
    await Promise.race([stopAsked, composing.then(() => stopAsked)]);
  } finally {
    await stop(server, composing, () => composition, log);
  }
}

async function stop(
  server: PluginServer,
  composing: Promise<void>,
  composition: () => Composition | null,
  log: Logger,
): Promise<void> {
  const { forced, unfinished } = await server.stop();
  // What is half started cannot be let go of.
  await composing.catch(() => undefined);
  await composition()?.close();
  if (forced) log.warn({ unfinished }, 'stopped; calls in flight were cut off');
  else log.info('stopped');
}

/** Resolves at the first signal. From then on the process ends, whatever happens. */
function watchSignals(server: PluginServer, config: Config, log: Logger): Promise<void> {
  return new Promise((resolve) => {
    let signals = 0;
    const onSignal = (signal: NodeJS.Signals): void => {
      signals += 1;
      if (signals === 1) {
        log.info({ signal, graceMs: config.shutdownGraceMs }, 'stopping');
        killSelfAfter(config.shutdownGraceMs + LAST_RESORT_MS, log);
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
 * The last resort: a worker thread that is stuck in a system call keeps every ordinary exit
 * waiting, process.exit included. What was under way is finished or undone at the next start.
 */
function killSelfAfter(ms: number, log: Logger): void {
  const timer = setTimeout(() => {
    log.fatal('work that cannot be stopped keeps the plugin from ending; killing it');
    process.kill(process.pid, 'SIGKILL');
  }, ms);
  timer.unref();
}

/**
 * A bug must end the process, since nobody knows its state, and must be seen in the log. By SIGKILL,
 * because an ordinary exit waits for worker threads, and one of them may be stuck in the kernel.
 */
function dieLoudly(log: Logger): void {
  const die = (error: unknown): void => {
    log.fatal({ err: error }, 'bug: an error was not handled');
    process.kill(process.pid, 'SIGKILL');
  };
  process.on('uncaughtException', die);
  process.on('unhandledRejection', die);
}
