/**
 * Finds nodes by watching the pods of their plugins in Kubernetes. The client library is loaded on use:
 * it takes longer than all the rest of the router. pod-list.ts has the rules.
 *
 * While the API server cannot be reached, the last list stays in force.
 */
import type { CoreV1Api, Informer, ObjectCache, V1Pod } from '@kubernetes/client-node';
import type { Logger } from 'pino';
import type { NodeEntry, NodeSource } from './node-list.js';
import { PodList } from './pod-list.js';
import type { NodeSourceSettings } from './settings.js';

/** After the API server has ended a watch with an error, or could not be reached. */
const RETRY_MS = 3000;
/** Events come in bursts. */
const SETTLE_MS = 200;
/** Nodes are forgotten without an event. */
const REVIEW_MS = 60_000;

type Settings = Extract<NodeSourceSettings, { kind: 'kubernetes' }>;
type Pods = Informer<V1Pod> & ObjectCache<V1Pod>;

export class KubernetesDiscovery implements NodeSource {
  readonly #settings: Settings;
  readonly #log: Logger;
  readonly #list: PodList;
  #stopped = false;
  #onList: () => void = () => undefined;
  #retry: NodeJS.Timeout | undefined;
  #pods: Pods | null = null;
  #update: NodeJS.Timeout | undefined;
  #review: NodeJS.Timeout | undefined;
  /** The last list, as text. */
  #last = '';
  #problem: string | null = null;

  constructor(settings: Settings, log: Logger) {
    this.#settings = settings;
    this.#log = log;
    this.#list = new PodList(settings.port);
  }

  get description(): string {
    const { namespace, selector } = this.#settings;
    return `the pods ${selector} of namespace ${namespace}`;
  }

  async start(listener: (nodes: readonly NodeEntry[]) => void): Promise<void> {
    const listed = new Promise<void>((resolve) => {
      this.#onList = resolve;
    });
    const pods = await this.#informer();
    this.#pods = pods;
    const changed = (): void => {
      this.#update ??= setTimeout(() => {
        this.#update = undefined;
        this.#report(listener);
      }, SETTLE_MS).unref();
    };
    for (const verb of ['add', 'update', 'delete'] as const) pods.on(verb, changed);
    pods.on('error', (error: unknown) => {
      this.#complain(error);
      this.#beginAgain();
    });
    this.#begin();
    await listed;
    this.#report(listener);
    this.#review = setInterval(changed, REVIEW_MS).unref();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#update);
    clearInterval(this.#review);
    clearTimeout(this.#retry);
    void this.#pods?.stop();
  }

  async #informer(): Promise<Pods> {
    const { CoreV1Api, KubeConfig, makeInformer } = await import('@kubernetes/client-node');
    const { namespace, selector: labelSelector } = this.#settings;
    const config = new KubeConfig();
    config.loadFromDefault();
    const api: CoreV1Api = config.makeApiClient(CoreV1Api);
    return makeInformer<V1Pod>(
      config,
      `/api/v1/namespaces/${namespace}/pods`,
      async () => {
        const list = await api.listNamespacedPod({ namespace, labelSelector });
        this.#problem = null;
        // The informer takes the list over before the next turn of the event loop.
        setImmediate(this.#onList);
        return list;
      },
      labelSelector,
    );
  }

  /** Lists and begins to watch. The informer reports failures as events. */
  #begin(): void {
    if (this.#stopped) return;
    void this.#pods?.start().catch((thrown: unknown) => {
      this.#complain(thrown);
      this.#beginAgain();
    });
  }

  #beginAgain(): void {
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      this.#begin();
    }, RETRY_MS).unref();
  }

  #report(listener: (nodes: readonly NodeEntry[]) => void): void {
    const { namespace } = this.#settings;
    const nodes = this.#list.nodesOf(this.#pods?.list(namespace) ?? [], Date.now());
    nodes.sort((a, b) => (a.id < b.id ? -1 : 1));
    const text = JSON.stringify(nodes);
    if (text === this.#last) return;
    this.#last = text;
    listener(nodes);
  }

  /** Once for each problem: the API server may be away for hours. */
  #complain(thrown: unknown): void {
    const problem = thrown instanceof Error ? thrown.message.slice(0, 500) : String(thrown);
    if (problem === this.#problem || this.#stopped) return;
    this.#problem = problem;
    this.#log.error(
      { problem },
      `cannot watch ${this.description}; the last list stays in force. ` +
        'The router needs the verbs get, list and watch on pods, and a reachable API server',
    );
  }
}
