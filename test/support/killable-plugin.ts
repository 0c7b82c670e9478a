/**
 * A plugin that is killed with SIGKILL during its calls and started again on the same state. The moment of
 * each kill is random within the measured duration of the call.
 */
import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import { setImmediate } from 'node:timers/promises';
import type { CsiClient } from './csi-client.js';
import type { PluginOptions } from './plugin.js';
import { startReport } from './plugin-log.js';
import { PluginProcess } from './plugin-process.js';
import type { Random } from './random.js';
import { statusOf } from './refusal.js';
import type { Workspace } from './workspace.js';

/** The outcome of a call whose plugin was killed. */
export type KillOutcome<T> = { answer: T } | 'interrupted';

interface Figures {
  /** Duration of an uninterrupted call, ms. */
  durationMs: number;
  kills: number;
  answered: number;
}

/** One in this many restarts is killed as well. */
const START_KILL_EVERY = 10;

export class KillablePlugin {
  #plugin: PluginProcess | undefined;
  #client: CsiClient | undefined;
  readonly #figures = new Map<string, Figures>();
  #starts = 0;
  #startMs = 500;
  #killedStarts = 0;
  #recoveries = 0;

  constructor(
    private readonly workspace: Workspace,
    private readonly options: PluginOptions,
    private readonly random: Random,
  ) {}

  get client(): CsiClient {
    if (this.#client === undefined) throw new Error('no plugin is running');
    return this.#client;
  }

  /** Kills during calls. */
  get kills(): number {
    return [...this.#figures.values()].reduce((sum, { kills }) => sum + kills, 0);
  }

  /** Starts the plugin, sometimes after starts that are killed. Fails if its start report has differences. */
  async start(): Promise<void> {
    this.#starts += 1;
    while (this.#starts > 1 && this.random.below(START_KILL_EVERY) === 0) await this.#killStart();
    const begin = performance.now();
    this.#plugin = new PluginProcess(this.workspace, this.options);
    this.#client = await this.#plugin.ready();
    this.#startMs = performance.now() - begin;
    const report = startReport(this.#plugin.output);
    assert.deepEqual(report.differences, [], 'the catalogue and the pool agree after a start');
    if (report.finished.length + report.undone.length > 0) this.#recoveries += 1;
  }

  /** Sends SIGTERM; the plugin must exit with 0. */
  async stop(): Promise<void> {
    this.#client?.close();
    this.#client = undefined;
    this.#plugin?.child.kill('SIGTERM');
    assert.equal(await this.#plugin?.exitCode(), 0, this.#plugin?.output);
    this.#plugin = undefined;
  }

  async end(): Promise<void> {
    await this.#plugin?.kill();
    this.#client?.close();
    this.#plugin = undefined;
    this.#client = undefined;
  }

  /**
   * Measures an uninterrupted call in a plugin that has just been started, where it takes far longer than
   * in a warm one.
   */
  async measure<T>(label: string, call: () => Promise<T>): Promise<T> {
    if (this.#figures.has(label)) return call();
    await this.end();
    await this.start();
    await this.client.controller.ListVolumes({});
    const begin = performance.now();
    const answer = await call();
    this.#recordDuration(label, performance.now() - begin);
    return answer;
  }

  /** Kills the plugin during the call. The caller starts it again. */
  async killDuring<T>(label: string, call: () => Promise<T>): Promise<KillOutcome<T>> {
    const figures = this.#figures.get(label);
    if (figures === undefined) throw new Error(`${label} was never measured`);
    const begin = performance.now();
    const running = call();
    running.then(
      () => this.#recordDuration(label, performance.now() - begin),
      () => undefined,
    );
    await passed(begin + this.random.unit() * figures.durationMs * 1.1);
    this.#plugin?.child.kill('SIGKILL');
    const status = await statusOf(running);
    await this.end();
    figures.kills += 1;
    if (status !== 'OK') {
      assert.ok(['UNAVAILABLE', 'CANCELLED', 'INTERNAL'].includes(status), `${label}: ${status}`);
      return 'interrupted';
    }
    figures.answered += 1;
    return { answer: await running };
  }

  summary(): string {
    const lines = [...this.#figures].map(
      ([label, { durationMs, kills, answered }]) =>
        `#   ${label}: ${kills} kills, ${kills - answered} before the answer, ` +
        `${durationMs.toFixed(1)} ms`,
    );
    return [
      `# ${this.kills} kills during calls, ${this.#killedStarts} during starts; ` +
        `${this.#recoveries} of ${this.#starts} starts had something to complete or roll back; ` +
        `a start takes ${this.#startMs.toFixed(0)} ms`,
      ...lines.sort(),
    ].join('\n');
  }

  async #killStart(): Promise<void> {
    const begin = performance.now();
    const started = new PluginProcess(this.workspace, this.options);
    await passed(begin + this.random.unit() * this.#startMs);
    await started.kill();
    this.#killedStarts += 1;
  }

  #recordDuration(label: string, ms: number): void {
    const figures = this.#figures.get(label);
    if (figures === undefined) {
      this.#figures.set(label, { durationMs: ms, kills: 0, answered: 0 });
    } else {
      figures.durationMs = 0.7 * figures.durationMs + 0.3 * ms;
    }
  }
}

/** Waits for the moment to about a tenth of a millisecond, while calls continue. */
async function passed(moment: number): Promise<void> {
  while (performance.now() < moment) await setImmediate();
}
