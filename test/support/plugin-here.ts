/**
 * The plugin in this process, as `serve` runs it but for the signal that stops it: to start it hundreds of times, or
 * on an emulated processor, where starting a process takes many seconds. Whatever needs it to die needs plugin.ts.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { createLogger } from '../../src/base/logger.js';
import { run } from '../../src/cli/serve.js';
import { parseConfig } from '../../src/driver/config/config.js';
import { CsiClient } from './csi-client.js';
import { type AnyPlugin, type PluginOptions, pluginEnvironment } from './plugin.js';
import type { Workspace } from './workspace.js';

export class PluginHere implements AnyPlugin {
  readonly client: CsiClient;
  readonly #lines: string[] = [];
  readonly #ended: Promise<void>;
  #askToStop: () => void = () => undefined;
  #failure: unknown;

  private constructor(
    readonly endpoint: string,
    readonly environment: NodeJS.ProcessEnv,
    deadlineMs: number | undefined,
  ) {
    const config = parseConfig(environment);
    const logger = createLogger(config.logLevel, { write: (line) => this.#lines.push(line) });
    const stopRequested = new Promise<void>((resolve) => {
      this.#askToStop = resolve;
    });
    this.#ended = run(config, logger, () => stopRequested);
    this.#ended.catch((thrown: unknown) => {
      this.#failure = thrown;
    });
    this.client = new CsiClient(endpoint, deadlineMs);
  }

  /**
   * Starts the plugin and waits until it says that it is ready: calls would delay the start.
   *
   * @param deadlineMs of calls that name none; the client's own if it is not given
   */
  static async start(
    workspace: Pick<Workspace, 'path'>,
    options: PluginOptions = {},
    deadlineMs?: number,
  ): Promise<PluginHere> {
    const environment = pluginEnvironment(workspace, options);
    const plugin = new PluginHere(environment['CSI_ENDPOINT'] ?? '', environment, deadlineMs);
    try {
      while (!plugin.#isReady()) await delay(50);
    } catch (thrown) {
      await plugin.kill();
      throw thrown;
    }
    return plugin;
  }

  get log(): string {
    return this.#lines.join('');
  }

  async stop(): Promise<number> {
    this.client.close();
    this.#askToStop();
    await this.#ended;
    return 0;
  }

  /** As orderly as `stop`, whatever becomes of it. */
  async kill(): Promise<void> {
    await this.stop().catch(() => undefined);
  }

  #isReady(): boolean {
    if (this.#failure !== undefined) throw this.#failure;
    return this.#lines.some((line) => line.includes('"msg":"ready"'));
  }
}
