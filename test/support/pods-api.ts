/**
 * The part of the Kubernetes API that the router uses: lists and watches of pods. It grants what the roles of
 * a manifest grant, and nothing else.
 */
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Manifest } from './manifests.js';

interface Rule {
  apiGroups: string[];
  resources: string[];
  verbs: string[];
}

export interface FakePod {
  metadata: { name: string; namespace: string; labels: Record<string, string> };
  spec: { nodeName: string };
  status: { phase: 'Running'; podIP: string };
}

export class PodsApi {
  /** Each request as `verb resource namespace`, with `refused` behind it if no role allows it. */
  readonly requests: string[] = [];
  /** Refuses everything with 503. */
  isBroken = false;
  readonly #watches = new Set<ServerResponse>();
  readonly #server = createServer((request, response) => this.#answer(request, response));

  private constructor(
    private readonly roles: readonly Manifest[],
    private readonly pods: readonly FakePod[],
  ) {}

  /** @param configFile gets the configuration of a client, for KUBECONFIG */
  static async start(
    roles: readonly Manifest[],
    pods: readonly FakePod[],
    configFile: string,
  ): Promise<PodsApi> {
    const api = new PodsApi(roles, pods);
    api.#server.listen(0, '127.0.0.1');
    await once(api.#server, 'listening');
    const server = `http://127.0.0.1:${(api.#server.address() as AddressInfo).port}`;
    const config = {
      ...{ kind: 'Config', apiVersion: 'v1', 'current-context': 'fake' },
      clusters: [{ name: 'fake', cluster: { server, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'fake', user: {} }],
      contexts: [{ name: 'fake', context: { cluster: 'fake', user: 'fake' } }],
    };
    writeFileSync(configFile, JSON.stringify(config));
    return api;
  }

  get watches(): number {
    return this.#watches.size;
  }

  /** Tells all who watch. */
  event(type: 'ADDED' | 'DELETED', pod: FakePod): void {
    const object = { ...pod, kind: 'Pod', apiVersion: 'v1' };
    for (const watch of this.#watches) watch.write(`${JSON.stringify({ type, object })}\n`);
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://fake');
    const [, namespace = '', resource = ''] =
      /^\/api\/v1\/namespaces\/([^/]+)\/([^/]+)$/.exec(pathname) ?? [];
    const isWatch = searchParams.get('watch') === 'true';
    const title = `${isWatch ? 'watch' : 'list'} ${resource} ${namespace}`;
    response.setHeader('content-type', 'application/json');
    const isGranted = this.#isGranted(isWatch ? 'watch' : 'list', resource, namespace);
    this.requests.push(isGranted ? title : `${title} refused`);
    if (!isGranted || this.isBroken) {
      const code = isGranted ? 503 : 403;
      response.statusCode = code;
      response.end(JSON.stringify({ kind: 'Status', apiVersion: 'v1', code }));
      return;
    }
    if (isWatch) {
      this.#watches.add(response);
      response.on('close', () => this.#watches.delete(response));
      response.flushHeaders();
      return;
    }
    const wanted = (searchParams.get('labelSelector') ?? '').split(',');
    const items = this.pods.filter(({ metadata }) =>
      wanted.every((part) => metadata.labels[part.split('=')[0] ?? ''] === part.split('=')[1]),
    );
    const metadata = { resourceVersion: '1' };
    response.end(JSON.stringify({ kind: 'PodList', apiVersion: 'v1', metadata, items }));
  }

  /** Roles of a namespace only: the router needs no others. */
  #isGranted(verb: string, resource: string, namespace: string): boolean {
    return this.roles.some(
      ({ metadata, rules }) =>
        metadata.namespace === namespace &&
        (rules as Rule[]).some(
          ({ apiGroups, resources, verbs }) =>
            apiGroups.includes('') && resources.includes(resource) && verbs.includes(verb),
        ),
    );
  }
}
