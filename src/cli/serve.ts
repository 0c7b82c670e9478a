/**
 * `blockdelta serve`: the plugin process, from its settings to its exit code.
 *
 * The socket is served before the pools are opened, so that Probe can report "starting". The first
 * SIGTERM or SIGINT waits for calls in flight, the second cancels them.
 */
import { type Command, Option } from 'commander';
import { nodeUri } from '../base/csi/routed-calls.js';
import { CsiError } from '../base/errors.js';
import { affordableConnections } from '../base/listening/open-files.js';
import type { Logger } from '../base/logger.js';
import { packageVersion } from '../base/version.js';
import { type Config, parseConfig, SETTINGS, unknownNames } from '../driver/config/config.js';
import { PluginMetrics } from '../driver/metrics/plugin-metrics.js';
import { type Composition, composeServices } from '../driver/plugin/composition.js';
import { createIdentityService } from '../driver/plugin/identity.js';
import { nodeRpcs } from '../driver/plugin/node-rpcs.js';
import { pluginFiles } from '../driver/plugin/open-files.js';
import { restoreRpcs } from '../driver/plugin/restore-rpcs.js';
import type { ServedRpc } from '../server/calls/served-rpc.js';
import { type CsiServer, createCsiServer } from '../server/server.js';
import { EXIT_HELP, runService, settingsHelp, watchSignals } from './service-process.js';

export function addServeCommand(program: Command): void {
  program
    .command('serve')
    .description('run the plugin; it is configured by environment variables')
    // Every other command has this option, so people try it here.
    .addOption(new Option('--endpoint <endpoint>').hideHelp())
    .addHelpText('after', `\n${settingsHelp(SETTINGS)}\n\n${EXIT_HELP}`)
    .action(async ({ endpoint }: { endpoint?: string }, command: Command) => {
      if (endpoint !== undefined) {
        command.error(`error: serve takes its settings from the environment: set CSI_ENDPOINT=${endpoint}`);
      }
      // The exit is explicit, so that a leaked thread or handle cannot keep the process alive.
      process.exit(await serve(process.env));
    });
}

/** Resolves with the exit code. */
function serve(env: NodeJS.ProcessEnv): Promise<number> {
  return runService(
    () => parseConfig(env),
    (config, log) => {
      for (const { name, nearest } of unknownNames(env)) {
        log.warn({ name, nearest }, `${name} is not a setting and has no effect; the nearest one is ${nearest}`);
      }
      return run(config, log);
    },
  );
}

/** @param watch called before the plugin's socket exists; resolves when the plugin must stop */
export async function run(
  config: Config,
  log: Logger,
  watch: (server: CsiServer) => Promise<void> = (server) => watchSignals(server, config, log),
): Promise<void> {
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
  const { metricsAddress, metricsOfVolumes: showsVolumes, listen, maxConnections: wanted } = config;
  const maxConnections = await affordableConnections(wanted, pluginFiles(config), log);
  const metrics = metricsAddress === null ? null : new PluginMetrics({ showsVolumes });
  const uri = nodeUri(config.driverName, config.nodeId);
  const composed = (): Composition => {
    if (composition === null) throw CsiError.unavailable('the plugin is starting; call again');
    return composition;
  };
  const server = createCsiServer({
    services: [identity],
    config: { ...config, maxConnections },
    logger: log,
    others: [...(await legacyRpcsOf(config, () => composition)), ...restoreRpcs(() => composed().inPlaceRestores)],
    routed: listen === null ? null : { settings: listen, nodeUri: uri, rpcs: nodeRpcs(() => composed().nodeSide) },
    observer: metrics?.calls,
  });
  // The handlers must exist before the socket does: whoever sees the socket may send a signal.
  const stopRequested = watch(server);
  if (listen !== null) metrics?.observeCertificates(listen.tls);
  if (config.guardianSocket !== null) metrics?.observeGuardian(config.guardianSocket);
  const metricsAt = await listenForMetrics(metrics, config, health);
  const listening = server.start().then(() => {
    const { endpoint, nodeId: node } = config;
    log.info({ version: packageVersion(), endpoint, node, ...metricsAt }, 'listening; starting the pools');
  });
  const composing = composeServices(config, log, metrics, listening).then((found) => {
    composition = found;
    server.open(found.services, found.check);
    const services = found.services.map(({ name }) => name);
    log.info({ services, ...found.facts }, 'ready');
  });
  await listening.catch(() => composing);
  try {
    await Promise.race([stopRequested, composing.then(() => stopRequested)]);
  } finally {
    await stop(server, composing, () => composition, log);
    await metrics?.close();
  }
}

/** A translation calls a v1 handler before it asks for publications, so the plugin is composed by then. */
async function legacyRpcsOf(
  { legacyVersions, legacyStagingDirectory: directory }: Config,
  composition: () => Composition | null,
): Promise<ServedRpc[]> {
  if (legacyVersions.length === 0) return [];
  const { legacyRpcs } = await import('../driver/legacy/interfaces.js');
  return legacyRpcs(legacyVersions, {
    directory,
    publicationsOf: async (volumeId) => composition()?.publicationsOf(volumeId) ?? [],
  });
}

/** Returns a part of the start line. The caller listens before it makes the socket: an address in use must leave none. */
async function listenForMetrics(
  metrics: PluginMetrics | null,
  { metricsAddress }: Config,
  health: () => Promise<'starting' | 'ready'>,
): Promise<{ metrics?: string }> {
  if (metrics === null || metricsAddress === null) return {};
  return { metrics: `http://${await metrics.listen(metricsAddress, health)}/metrics` };
}

async function stop(
  server: CsiServer,
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
