/** A router in this process, on a real socket, as `route` runs it but for its listener and the signal that stops it. */
import { createLogger } from '../../src/base/logger.js';
import { createRouter } from '../../src/router/router.js';
import { parseRouteConfig } from '../../src/router/settings.js';
import { createCsiServer } from '../../src/server/server.js';
import { CsiClient } from './csi-client.js';

/** @param plainStreams sends every message of a stream through gRPC */
export async function startRouter(
  endpoint: string,
  env: Record<string, string>,
  now?: () => number,
  plainStreams = false,
) {
  const config = parseRouteConfig({ CSI_ENDPOINT: endpoint, ...env });
  const lines: string[] = [];
  const logger = createLogger('debug', { write: (line) => lines.push(line) });
  let duplicates = 0;
  const router = await createRouter(config, logger, () => (duplicates += 1), now);
  const server = createCsiServer({ services: [router.identity], config, logger, plainStreams });
  await server.start();
  await router.discover();
  server.open(router.services);
  const client = new CsiClient(endpoint);
  const close = async (): Promise<void> => {
    client.close();
    server.force();
    await server.stop();
    router.close();
  };
  return { client, log: () => lines.join(''), duplicates: () => duplicates, close };
}
