/**
 * Builds everything behind the socket from the settings: the one place that knows all parts.
 *
 * It runs while the socket is already served, so it may take its time; it throws if the plugin
 * cannot work with these settings on this machine.
 */
import type { Config } from './config.js';
import type { Service } from './csi/service.js';
import type { Logger } from './logger.js';

export interface Composition {
  /** All services but Identity. Those that the mode leaves out are absent. */
  readonly services: readonly Service[];
  /**
   * Resolves if the plugin works; throws a CsiError FAILED_PRECONDITION that says what is broken.
   * Called for every Probe.
   */
  health(): Promise<void>;
  /** Lets go of everything, after the last call has ended. Waits for work that cannot be stopped. */
  close(): Promise<void>;
}

export async function composeServices(_config: Config, _logger: Logger): Promise<Composition> {
  return {
    services: [],
    health: async () => undefined,
    close: async () => undefined,
  };
}
