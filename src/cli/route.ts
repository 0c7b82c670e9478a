/**
 * `blockdelta route`: the router process, which gives the plugins of a cluster one address. Covers the process from its
 * settings to its exit code.
 *
 * The socket is served before the nodes are known, so that Probe can report "starting".
 */
import type { Command } from 'commander';
import { affordableConnections } from '../base/listening/open-files.js';
import type { Logger } from '../base/logger.js';
import { packageVersion } from '../base/version.js';
import { SETTINGS } from '../driver/config/config.js';
import { createRouter, type Router, routerFiles } from '../router/router.js';
import { RouterMetrics } from '../router/router-metrics.js';
import { parseRouteConfig, ROUTE_SETTINGS, type RouteConfig } from '../router/settings.js';
import type { Metrics } from '../server/metrics/metrics.js';
import { createCsiServer } from '../server/server.js';
import { EXIT_HELP, runService, settingsHelp, watchSignals } from './service-process.js';

export function addRouteCommand(program: Command): void {
  program
    .command('route')
    .description('serve the controllers of all nodes on one socket; it is configured by environment variables')
    .addHelpText('after', `\n${settingsHelp(ROUTE_SETTINGS)}\n\n${EXIT_HELP}`)
    .action(async () => {
      process.exit(await runService(() => parseRouteConfig(process.env, Object.keys(SETTINGS)), run));
    });
}

async function run(config: RouteConfig, log: Logger): Promise<void> {
  const files = routerFiles(config);
  const maxConnections = await affordableConnections(config.maxConnections, files, log);
  const metrics = config.metricsAddress === null ? null : new RouterMetrics();
  const router = await createRouter(config, log, () => metrics?.duplicateVolumes.inc());
  const server = createCsiServer({
    services: [router.identity],
    others: router.rpcs,
    config: { ...config, maxConnections },
    logger: log,
    observer: metrics?.calls,
  });
  const stopRequested = watchSignals(server, config, log);
  metrics?.observeCertificates(config.tls);
  const metricsAt = await listenForMetrics(metrics, config, router);
  await server.start();
  const { endpoint } = config;
  log.info({ version: packageVersion(), endpoint, ...metricsAt }, 'listening; finding the nodes');
  const discovering = router.discover().then(() => {
    server.open(router.services);
    log.info('ready');
  });
  try {
    await Promise.race([stopRequested, discovering.then(() => stopRequested)]);
  } finally {
    const { forced, unfinished } = await server.stop();
    router.close();
    await metrics?.close();
    if (forced) log.warn({ unfinished }, 'stopped; calls in flight were cancelled');
    else log.info('stopped');
  }
}

async function listenForMetrics(
  metrics: Metrics | null,
  { metricsAddress }: RouteConfig,
  router: Router,
): Promise<{ metrics?: string }> {
  if (metrics === null || metricsAddress === null) return {};
  const health = async () => (router.isReady ? 'ready' : 'starting');
  return { metrics: `http://${await metrics.listen(metricsAddress, health)}/metrics` };
}
