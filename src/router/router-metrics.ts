/** The metrics of `blockdelta route`: the metrics of every server, and what the router has found out about its nodes. */
import { Counter } from 'prom-client';
import { Metrics } from '../server/metrics/metrics.js';

export class RouterMetrics extends Metrics {
  readonly duplicateVolumes = new Counter({
    name: 'blockdelta_router_duplicate_volumes_total',
    help: 'how often the router found volumes of the same name on several nodes',
    registers: [this.registry],
  });

  constructor() {
    super({ command: 'route' });
  }
}
