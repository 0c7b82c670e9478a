/** Row lifecycle-start: from the start of the plugin's process until Probe says that it is ready, with many objects. */
import type { PluginProcess } from '../../../src/tools/bench/plugin-process.js';
import type { Row } from '../../../src/tools/bench/row.js';
import { type Settings, shuffledRounds } from '../../../src/tools/bench/suite.js';

/** A plugin that is not running, on a pool and a state directory of its own. */
export interface StoppedPlugin {
  label: string;
  start(): Promise<PluginProcess>;
}

/** Leaves both stopped. */
export async function startRow(settings: Settings, full: StoppedPlugin, empty: StoppedPlugin): Promise<Row> {
  const found = await shuffledRounds(settings, [full, empty], async (plugin) => {
    const started = performance.now();
    const running = await plugin.start();
    const ms = performance.now() - started;
    await running.stop();
    return ms;
  });
  const sideOf = (plugin: StoppedPlugin) => ({
    label: plugin.label,
    unit: 'ms',
    rounds: found.get(plugin) ?? [],
  });
  return {
    name: 'lifecycle-start',
    measures: `from the start of the process until Probe says ready, ${full.label} beside ${empty.label}`,
    ours: sideOf(full),
    peer: sideOf(empty),
    facts: {},
  };
}
