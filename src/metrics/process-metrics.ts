/** What every process reports: its build, its memory and processor time, the delay of its event loop. */
import { collectDefaultMetrics, Gauge, type Registry } from 'prom-client';

/** The interval at which the delay of the event loop is sampled. */
const EVENT_LOOP_SAMPLE_MS = 20;

export interface Build {
  version: string;
  /** What runs, such as `serve`. */
  command: string;
}

export function addProcessMetrics(registry: Registry, { version, command }: Build): void {
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: EVENT_LOOP_SAMPLE_MS });
  new Gauge({
    name: 'blockdelta_build_info',
    help: 'always 1; the labels say which release runs, which of its commands, and on what',
    labelNames: ['version', 'command', 'node_version', 'arch'],
    registers: [registry],
  }).set({ version, command, node_version: process.version, arch: process.arch }, 1);
}
