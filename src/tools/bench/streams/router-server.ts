/** A router in a process of its own, with the settings that its environment has. */
import { createLogger } from '../../../base/logger.js';
import { createPluginServer } from '../../../driver/plugin/server.js';
import { createRouter } from '../../../router/router.js';
import { parseRouteConfig } from '../../../router/settings.js';
import { givenEndpoint, reportToParent } from './server-process.js';

const config = parseRouteConfig({ ...process.env, CSI_ENDPOINT: givenEndpoint() });
const logger = createLogger('warn');
const router = await createRouter(config, logger);
const server = createPluginServer({ services: [router.identity], config, logger });
await server.start();
await router.discover();
server.open(router.services);
reportToParent();
