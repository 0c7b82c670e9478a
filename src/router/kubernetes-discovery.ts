/**
 * Finds nodes by watching the pods of their plugins in Kubernetes (pod-watch.ts). pod-list.ts has the rules.
 *
 * While the API server cannot be reached, the last list stays in force.
 */
import type { Logger } from 'pino';
import { messageOf } from '../base/errors.js';
import type { Clock, NodeEntry, NodeSource } from './node-list.js';
import { type Pod, PodList } from './pod-list.js';
import { PodWatch } from './pod-watch.js';
import type { NodeSourceSettings } from './settings.js';

/** How long changes are collected, because events come in bursts. */
const SETTLE_MS = 200;
/** How often the list is made again without an event, because nodes are forgotten without one. */
const REVIEW_MS = 60_000;

type Settings = Extract<NodeSourceSettings, { kind: 'kubernetes' }>;

export class KubernetesDiscovery implements NodeSource {
  completeSince: number | null = null;
  readonly #list: PodList;
  readonly #watch: PodWatch;
  #pods: readonly Pod[] = [];
  #update: NodeJS.Timeout | undefined;
  #review: NodeJS.Timeout | undefined;
  /** The last list, as text. */
  #last = '';
  #problem: string | null = null;

  constructor(
    private readonly settings: Settings,
    private readonly log: Logger,
    private readonly now: Clock,
  ) {
    this.#list = new PodList(settings.port);
    this.#watch = new PodWatch(settings.access, settings);
  }

  get description(): string {
    const { namespace, selector } = this.settings;
    return `the pods ${selector} of namespace ${namespace}`;
  }

  async start(listener: (nodes: readonly NodeEntry[]) => void): Promise<void> {
    const changed = (): void => {
      this.#update ??= setTimeout(() => {
        this.#update = undefined;
        this.#report(listener);
      }, SETTLE_MS).unref();
    };
    await new Promise<void>((resolve) => {
      void this.#watch.run({
        listed: (pods) => {
          this.#pods = pods;
          this.#problem = null;
          this.completeSince ??= this.now();
          resolve();
          changed();
        },
        failed: (problem) => {
          this.completeSince = null;
          this.#complain(problem);
        },
      });
    });
    this.#report(listener);
    this.#review = setInterval(changed, REVIEW_MS).unref();
  }

  stop(): void {
    clearTimeout(this.#update);
    clearInterval(this.#review);
    this.#watch.stop();
  }

  #report(listener: (nodes: readonly NodeEntry[]) => void): void {
    const nodes = this.#list.nodesOf(this.#pods, this.now());
    nodes.sort((a, b) => (a.id < b.id ? -1 : 1));
    const text = JSON.stringify(nodes);
    if (text === this.#last) return;
    this.#last = text;
    listener(nodes);
  }

  /** Reports each problem once, because the API server may be away for hours. */
  #complain(thrown: unknown): void {
    const problem = messageOf(thrown).slice(0, 500);
    if (problem === this.#problem) return;
    this.#problem = problem;
    const { host, port } = this.settings.access;
    this.log.error(
      { problem },
      `cannot watch ${this.description} at ${host}:${port}; the last list stays in force. ` +
        'The router needs the verbs list and watch on pods, and a reachable API server',
    );
  }
}
