/** The metrics that every process reports: its build, memory, processor time and event loop delay. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { collectDefaultMetrics, Gauge, type Registry } from 'prom-client';

/** How often the delay of the event loop is sampled. */
const SAMPLE_MS = 20;
/** Metrics of prom-client that duplicate others here, or that describe Node.js rather than this process. */
const LEFT_OUT = /^nodejs_(eventloop_lag|active_|heap_space|version)/;

export interface Build {
  version: string;
  /** The command that runs, such as `serve`. */
  command: string;
}

export function addProcessMetrics(registry: Registry, { version, command }: Build): void {
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 10_000 });
  for (const { name } of registry.getMetricsAsArray()) {
    if (LEFT_OUT.test(name)) registry.removeSingleMetric(name);
  }
  new Gauge({
    name: 'blockdelta_build_info',
    help: 'always 1; the labels say which release runs, which of its commands, and on what',
    labelNames: ['version', 'command', 'node_version', 'arch'],
    registers: [registry],
  }).set({ version, command, node_version: process.version, arch: process.arch }, 1);
  addEventLoopDelay(registry);
}

/** Measures how late the event loop has run since the last collection. */
function addEventLoopDelay(registry: Registry): void {
  const histogram = monitorEventLoopDelay({ resolution: SAMPLE_MS });
  histogram.enable();
  new Gauge({
    name: 'blockdelta_event_loop_delay_seconds',
    help: 'how late the event loop ran since the last scrape: median, 99th percentile and maximum',
    labelNames: ['percentile'],
    registers: [registry],
    collect() {
      // A sample is the time between two runs of a timer that is due every SAMPLE_MS.
      const late = (ns: number) => Math.max(ns / 1e6 - SAMPLE_MS, 0) / 1000;
      this.set({ percentile: '50' }, late(histogram.percentile(50)));
      this.set({ percentile: '99' }, late(histogram.percentile(99)));
      this.set({ percentile: '100' }, late(histogram.max));
      histogram.reset();
    },
  });
}
