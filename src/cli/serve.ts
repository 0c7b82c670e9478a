/**
 * `blockdelta serve`: the plugin process, from its settings to its exit code.
 *
 * The socket is served before the pools are opened, so that Probe can report "starting". The first
 * SIGTERM or SIGINT waits for calls in flight, the second cancels them.
 */
import type { Command } from 'commander';
import { CsiError, StatusCode } from '../base/errors.js';
import { createLogger, type Logger } from '../base/logger.js';
import { packageVersion } from '../base/version.js';
import { type Config, ConfigError, parseConfig, SETTINGS, unknownNames } from '../config/config.js';
import { destinationOf } from '../csi/routed-calls.js';
import { PluginMetrics } from '../metrics/plugin-metrics.js';
import { type Composition, composeServices } from '../plugin/composition.js';
import { createIdentityService } from '../plugin/identity.js';
import { createPluginServer, type PluginServer, StartError } from '../plugin/server.js';
import { ExitCode } from './exit-codes.js';

/** Time from the end of the grace period, or from a second signal, until the process kills itself. */
const LAST_RESORT_MS = 15_000;
const LAST_RESORT_FORCED_MS = 5_000;

export function addServeCommand(program: Command): void {
  program
    .command('serve')
    .description('run the plugin; it is configured by environment variables')
    .addHelpText('after', `\n${settingsHelp()}\n\n${EXIT_HELP}`)
    .action(async () => {
      // Explicit, so that a leaked thread or handle cannot keep the process alive.
      process.exit(await serve(process.env));
    });
}

const EXIT_HELP = `Exit codes:
  0   stopped by SIGTERM or SIGINT
  1   could not start, or failed
  2   wrong usage
  78  a setting is invalid`;

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
  dieOnUnhandledErrors(log);
  for (const { name, nearest } of unknownNames(env)) {
    log.warn(
      { name, nearest },
      `${name} is not a setting and has no effect; the nearest one is ${nearest}`,
    );
  }
  try {
    await run(config, log);
    return ExitCode.OK;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    process.stderr.write(`blockdelta: ${message}\n`);
    // Every other message is complete. A stack beside it would hide it.
    const isDefect = error instanceof CsiError && error.code === StatusCode.INTERNAL;
    if (isDefect) log.fatal({ err: error.cause ?? error }, 'the plugin cannot start');
    else if (!(error instanceof StartError || error instanceof CsiError)) {
      log.fatal({ err: error }, 'the plugin failed');
    }
    return ExitCode.FAILURE;
  }
}

async function run(config: Config, log: Logger): Promise<void> {
  let composition: Composition | null = null;
  const health = async () => {
    if (composition === null) return 'starting';
    await composition.health();
    return 'ready';
  };
  const identity = createIdentityService({
    csiLevel: config.csiLevel,
    controllerPublish: config.controllerPublish,
    driverName: config.driverName,
    vendorVersion: packageVersion(),
    health,
  });
  const { metricsAddress, metricsOfVolumes: showsVolumes, listen } = config;
  const metrics = metricsAddress === null ? null : new PluginMetrics({ showsVolumes });
  const destination = destinationOf(config.driverName, config.nodeId);
  const server = createPluginServer({
    ...{ services: [identity], config, logger: log },
    routed: listen === null ? null : { settings: listen, destination },
    observer: metrics?.calls,
  });
  // Installed before the socket exists: whoever sees the socket may send a signal.
  const stopRequested = watchSignals(server, config, log);
  const metricsAt = await listenForMetrics(metrics, config, health);
  await server.start();
  log.info(
    {
      version: packageVersion(),
      endpoint: config.endpoint,
      node: config.nodeId,
      ...metricsAt,
    },
    'listening; starting the pools',
  );
  const composing = composeServices(config, log, metrics).then((composed) => {
    composition = composed;
    server.open(composed.services);
    const services = composed.services.map(({ name }) => name);
    log.info({ services, ...composed.facts }, 'ready');
  });
  try {
    await Promise.race([stopRequested, composing.then(() => stopRequested)]);
  } finally {
    await stop(server, composing, () => composition, log);
    await metrics?.close();
  }
}

/** What the start line says of it. The listener comes first: an address in use must not leave a socket. */
async function listenForMetrics(
  metrics: PluginMetrics | null,
  { metricsAddress }: Config,
  health: () => Promise<'starting' | 'ready'>,
): Promise<{ metrics?: string }> {
  if (metrics === null || metricsAddress === null) return {};
  return { metrics: `http://${await metrics.listen(metricsAddress, health)}/metrics` };
}

async function stop(
  server: PluginServer,
  composing: Promise<void>,
  composition: () => Composition | null,
  log: Logger,
): Promise<void> {
  const { forced, unfinished } = await server.stop();
  // A composition that is still starting cannot be closed.
  await composing.catch(() => undefined);
  await composition()?.close();
  if (forced) log.warn({ unfinished }, 'stopped; calls in flight were cancelled');
  else log.info('stopped');
}

/** Resolves at the first signal. From then on the process ends in bounded time. */
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
 * After a bug the state of the process is unknown, so it must end, with a log line. By SIGKILL, because an
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
