/** A router in a process of its own, with the settings that its environment has. */
import { createLogger } from '../../../src/base/logger.js';
import { createRouter } from '../../../src/router/router.js';
import { parseRouteConfig } from '../../../src/router/settings.js';
import { createCsiServer } from '../../../src/server/server.js';
import { givenEndpoint, reportToParent } from './server-process.js';

const config = parseRouteConfig({ ...process.env, CSI_ENDPOINT: givenEndpoint() });
const logger = createLogger('warn');
const router = await createRouter(config, logger);
const server = createCsiServer({ services: [router.identity], config, logger });
await server.start();
await router.discover();
server.open(router.services);
reportToParent();
