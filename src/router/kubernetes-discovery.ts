/**
 * Finds nodes by watching the pods of their plugins in Kubernetes; pod-list.ts has the rules. If the settings
 * say so, a node with the taint node.kubernetes.io/out-of-service, by which an operator says that it is shut down, is retired.
 *
 * While the API server cannot be reached, the last list stays in force.
 */
import type { Logger } from 'pino';
import { messageOf } from '../base/errors.js';
import type { Clock, NodeEntry, NodeSource } from './node-list.js';
import { type ApiObject, ObjectWatch } from './object-watch.js';
import { type Pod, PodList, podOf } from './pod-list.js';
import type { NodeSourceSettings } from './settings.js';

/** How long changes are collected, because events come in bursts. */
const SETTLE_MS = 200;
/** How often the list is made again without an event, because nodes are forgotten without one. */
const REVIEW_MS = 60_000;

type Settings = Extract<NodeSourceSettings, { kind: 'kubernetes' }>;

export class KubernetesDiscovery implements NodeSource {
  completeSince: number | null = null;
  readonly #list: PodList;
  readonly #podWatch: ObjectWatch<Pod>;
  /** Of nodes: the names of those that are retired, and '' for all others. */
  readonly #taintWatch: ObjectWatch<string>;
  #pods: readonly Pod[] = [];
  #retired: ReadonlySet<string> = new Set();
  knowsRetired: boolean;
  #update: NodeJS.Timeout | undefined;
  #review: NodeJS.Timeout | undefined;
  /** The last list, as text. */
  #last = '';
  /** The last one of each watch. */
  readonly #problems = new Map<keyof typeof MEANWHILE, string>();

  constructor(
    private readonly settings: Settings,
    private readonly log: Logger,
    private readonly now: Clock,
  ) {
    this.#list = new PodList(settings.port);
    const { access, namespace, selector, taints } = settings;
    // Without taints none can be retired.
    this.knowsRetired = !taints;
    this.#podWatch = new ObjectWatch(access, { path: `/api/v1/namespaces/${namespace}/pods`, selector, needed: podOf });
    this.#taintWatch = new ObjectWatch(access, { path: '/api/v1/nodes', selector: '', needed: retiredName });
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
    if (this.settings.taints) this.#watchTaints(changed);
    await new Promise<void>((resolve) => {
      void this.#podWatch.run({
        listed: (pods) => {
          this.#pods = pods;
          this.#problems.delete('pods');
          this.completeSince ??= this.now();
          resolve();
          changed();
        },
        failed: (problem) => {
          this.completeSince = null;
          this.#complain('pods', problem);
        },
      });
    });
    this.#report(listener);
    this.#review = setInterval(changed, REVIEW_MS).unref();
  }

  stop(): void {
    clearTimeout(this.#update);
    clearInterval(this.#review);
    this.#podWatch.stop();
    this.#taintWatch.stop();
  }

  #watchTaints(changed: () => void): void {
    void this.#taintWatch.run({
      listed: (names) => {
        this.#retired = new Set(names.filter((name) => name !== ''));
        this.knowsRetired = true;
        this.#problems.delete('nodes');
        changed();
      },
      failed: (problem) => {
        this.knowsRetired = false;
        this.#complain('nodes', problem);
      },
    });
  }

  #report(listener: (nodes: readonly NodeEntry[]) => void): void {
    const found = this.#list.nodesOf(this.#pods, this.now());
    const isGone = ({ id }: NodeEntry): boolean => this.#retired.has(id);
    const gone = [...this.#retired].map((id) => ({ id, address: null, retired: true }));
    const nodes: NodeEntry[] = [...found.filter((each) => !isGone(each)), ...gone];
    nodes.sort((a, b) => (a.id < b.id ? -1 : 1));
    const text = JSON.stringify(nodes);
    if (text === this.#last) return;
    this.#last = text;
    listener(nodes);
  }

  /** Reports each problem once, because the API server may be away for hours. */
  #complain(of: keyof typeof MEANWHILE, thrown: unknown): void {
    const problem = messageOf(thrown).slice(0, 500);
    if (problem === this.#problems.get(of)) return;
    this.#problems.set(of, problem);
    const { host, port } = this.settings.access;
    this.log.error(
      { problem },
      `cannot watch ${of === 'pods' ? this.description : of} at ${host}:${port}; ${MEANWHILE[of]}. ` +
        `The router needs the verbs list and watch on ${of}, and a reachable API server`,
    );
  }
}

/** What is so while a watch fails. */
const MEANWHILE = {
  pods: 'the last list stays in force',
  nodes: 'the last taints stay in force, and a node that boots stages no volume that has had copies',
} as const;

/** The name of a retired node, and '' for any other. */
const retiredName = ({ metadata, spec }: ApiObject): string =>
  (spec?.taints ?? []).some(({ key }) => key === 'node.kubernetes.io/out-of-service') ? metadata.name : '';
