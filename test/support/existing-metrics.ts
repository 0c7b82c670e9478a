/** The metrics that `blockdelta serve` has, by its own registry. */
import { PluginMetrics } from '../../src/metrics/plugin-metrics.js';

export interface ExistingMetric {
  name: string;
  type: string;
  labels: readonly string[];
  help: string;
}

export function existingMetrics(): ExistingMetric[] {
  const { registry } = new PluginMetrics({ showsVolumes: true });
  return registry.getMetricsAsArray().map((metric) => {
    // prom-client's types lack what every metric has.
    const { name, help, labelNames } = metric as unknown as {
      name: string;
      help: string;
      labelNames: readonly string[];
    };
    return { name, type: metric.constructor.name.toLowerCase(), labels: labelNames, help };
  });
}
