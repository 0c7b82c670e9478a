/**
 * The plugin in this process, on a real socket, pool and catalogue: to start and stop it hundreds of times, or
 * in an emulated guest, where a process takes seconds to start.
 */
import { createLogger } from '../../src/base/logger.js';
import { parseConfig } from '../../src/config/config.js';
import { type Composition, composeServices } from '../../src/plugin/composition.js';
import { createPluginServer, type PluginServer } from '../../src/plugin/server.js';
import { CsiClient } from '../support/csi-client.js';

/** Far above what a call takes in a guest on a busy machine. */
const DEADLINE_MS = 1_200_000;

export interface PluginPlace {
  socketPath: string;
  stateDirectory: string;
  pool: string;
}

export class InProcessPlugin {
  private constructor(
    readonly client: CsiClient,
    private readonly server: PluginServer,
    private readonly composition: Composition,
    private readonly lines: readonly string[],
  ) {}

  static async start({ socketPath, stateDirectory, pool }: PluginPlace): Promise<InProcessPlugin> {
    const config = parseConfig({
      CSI_ENDPOINT: `unix://${socketPath}`,
      BLOCKDELTA_STATE_DIR: stateDirectory,
      BLOCKDELTA_POOLS: `main=${pool}`,
      BLOCKDELTA_NODE_ID: 'test-node',
      BLOCKDELTA_MOUNT_PROPAGATION: 'off',
      BLOCKDELTA_SCAN_THREADS: '1',
      BLOCKDELTA_DEVICE_THREADS: '1',
    });
    const lines: string[] = [];
    const logger = createLogger('info', { write: (line) => lines.push(line) });
    const composition = await composeServices(config, logger);
    const server = createPluginServer({ services: [], config, logger, routed: null });
    await server.start();
    server.open(composition.services);
    const client = new CsiClient(config.endpoint, DEADLINE_MS);
    return new InProcessPlugin(client, server, composition, lines);
  }

  /** Everything it has logged so far. */
  get log(): string {
    return this.lines.join('');
  }

  async stop(): Promise<void> {
    this.client.close();
    await this.server.stop();
    await this.composition.close();
  }
}
