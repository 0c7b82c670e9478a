/**
 * The part of the Kubernetes API that the router uses: lists and watches of pods and nodes, by TLS and for a token. It grants what
 * the roles of a manifest grant, and nothing else.
 */
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Authority } from './certificates.js';
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

export interface FakeNode {
  metadata: { name: string };
  spec: { taints?: { key: string; effect: string }[] };
}

const PAGE = 2;

export class PodsApi {
  /** Each request as `verb resource namespace`, with `refused` behind it if no role allows it. */
  readonly requests: string[] = [];
  /** Refuses everything with 503. */
  isBroken = false;
  /** The token that it accepts; the account's file has the first one. */
  token = 'first token';
  /** Of watches that begin: their version is forgotten. */
  hasForgotten = false;
  /** What it lists; grown and changed by the test, which then ends the watches. */
  readonly nodes: FakeNode[] = [];
  readonly #watches = new Set<ServerResponse>();
  readonly #nodeWatches = new Set<ServerResponse>();
  readonly #server: Server;
  readonly #account: string;

  private constructor(
    private readonly roles: readonly Manifest[],
    private readonly pods: readonly FakePod[],
    directory: string,
  ) {
    this.#account = join(directory, 'account');
    mkdirSync(this.#account);
    const { certificate, key, ca } = new Authority(directory).issue('api', 'localhost');
    copyFileSync(ca, join(this.#account, 'ca.crt'));
    this.giveToken();
    const files = { cert: readFileSync(certificate), key: readFileSync(key) };
    this.#server = createServer(files, (request, response) => this.#answer(request, response));
  }

  /** @param directory for its files and those of the account */
  static async start(roles: readonly Manifest[], pods: readonly FakePod[], directory: string): Promise<PodsApi> {
    const api = new PodsApi(roles, pods, directory);
    api.#server.listen(0, 'localhost');
    await once(api.#server, 'listening');
    return api;
  }

  /** What Kubernetes sets in a container, and where the account is. */
  get environment(): Record<string, string> {
    return {
      KUBERNETES_SERVICE_HOST: 'localhost',
      KUBERNETES_SERVICE_PORT: `${(this.#server.address() as AddressInfo).port}`,
      BLOCKDELTA_ROUTE_ACCOUNT: this.#account,
    };
  }

  /** Renews the account's file, as the kubelet does. */
  giveToken(): void {
    writeFileSync(join(this.#account, 'token'), `${this.token}\n`);
  }

  /** Ends all watches, as after their time. */
  endWatches(): void {
    for (const watch of this.#watches) watch.end();
  }

  /** Adds a node, or changes one, and tells all who watch nodes. */
  node(name: string, ...taints: string[]): void {
    const node = { metadata: { name }, spec: { taints: taints.map((key) => ({ key, effect: 'NoExecute' })) } };
    const at = this.nodes.findIndex(({ metadata }) => metadata.name === name);
    if (at >= 0) this.nodes.splice(at, 1);
    this.nodes.push(node);
    const type = at < 0 ? 'ADDED' : 'MODIFIED';
    for (const watch of this.#nodeWatches) watch.write(`${JSON.stringify({ type, object: asInApi(node) })}\n`);
  }

  get watches(): number {
    return this.#watches.size;
  }

  /** Tells all who watch. */
  event(type: 'ADDED' | 'DELETED', pod: FakePod): void {
    const object = asInApi(pod);
    for (const watch of this.#watches) watch.write(`${JSON.stringify({ type, object })}\n`);
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://fake');
    const [, namespace = '', resource = ''] = /^\/api\/v1\/(?:namespaces\/([^/]+)\/)?([^/]+)$/.exec(pathname) ?? [];
    const isWatch = searchParams.get('watch') === 'true';
    const title = `${isWatch ? 'watch' : 'list'} ${resource} ${namespace}`;
    response.setHeader('content-type', 'application/json');
    const isGranted = this.#isGranted(isWatch ? 'watch' : 'list', resource, namespace);
    this.requests.push(isGranted ? title : `${title} refused`);
    const isKnown = request.headers.authorization === `Bearer ${this.token}`;
    if (!isGranted || !isKnown || this.isBroken || (isWatch && this.hasForgotten)) {
      const code = !isKnown ? 401 : !isGranted ? 403 : this.isBroken ? 503 : 410;
      this.hasForgotten = false;
      response.statusCode = code;
      response.end(JSON.stringify({ kind: 'Status', apiVersion: 'v1', code }));
      return;
    }
    if (isWatch) {
      const watches = resource === 'nodes' ? this.#nodeWatches : this.#watches;
      watches.add(response);
      response.on('close', () => watches.delete(response));
      response.flushHeaders();
      return;
    }
    const wanted = (searchParams.get('labelSelector') ?? '').split(',');
    const pods = this.pods.filter(({ metadata }) =>
      wanted.every((part) => metadata.labels[part.split('=')[0] ?? ''] === part.split('=')[1]),
    );
    const items: (FakePod | FakeNode)[] = resource === 'nodes' ? this.nodes : pods;
    const from = Number(searchParams.get('continue') ?? 0);
    const isLast = from + PAGE >= items.length;
    const metadata = { resourceVersion: '1', ...(isLast ? {} : { continue: `${from + PAGE}` }) };
    const page = items.slice(from, from + PAGE).map(asInApi);
    response.end(JSON.stringify({ kind: 'List', apiVersion: 'v1', metadata, items: page }));
  }

  /** @param namespace '' for what is in none */
  #isGranted(verb: string, resource: string, namespace: string): boolean {
    return this.roles.some(
      ({ metadata, rules }) =>
        (metadata.namespace ?? '') === namespace &&
        (rules as Rule[]).some(
          ({ apiGroups, resources, verbs }) =>
            apiGroups.includes('') && resources.includes(resource) && verbs.includes(verb),
        ),
    );
  }
}

const asInApi = (object: FakePod | FakeNode): object => ({
  ...object,
  apiVersion: 'v1',
  metadata: { ...object.metadata, uid: object.metadata.name, resourceVersion: '2' },
});
