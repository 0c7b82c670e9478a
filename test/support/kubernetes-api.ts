/**
 * An API server for the real kubectl: discovery, objects with versions, uids and finalizers, merge patches, logs, and exec over a
 * WebSocket. It keeps objects and tells who listens; what Kubernetes does with them is in kubernetes-controllers.ts.
 */
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { isDeepStrictEqual } from 'node:util';

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind, as JSON
export type KubernetesObject = any;

interface Kind {
  readonly group: string;
  readonly kind: string;
  readonly isNamespaced: boolean;
}

const KINDS: Readonly<Record<string, Kind>> = {
  nodes: { group: '', kind: 'Node', isNamespaced: false },
  pods: { group: '', kind: 'Pod', isNamespaced: true },
  persistentvolumes: { group: '', kind: 'PersistentVolume', isNamespaced: false },
  persistentvolumeclaims: { group: '', kind: 'PersistentVolumeClaim', isNamespaced: true },
  statefulsets: { group: 'apps', kind: 'StatefulSet', isNamespaced: true },
  deployments: { group: 'apps', kind: 'Deployment', isNamespaced: true },
  storageclasses: { group: 'storage.k8s.io', kind: 'StorageClass', isNamespaced: false },
  volumesnapshots: { group: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', isNamespaced: true },
  volumesnapshotcontents: { group: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshotContent', isNamespaced: false },
  jobs: { group: 'batch', kind: 'Job', isNamespaced: true },
  volumesnapshotclasses: { group: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshotClass', isNamespaced: false },
};
export type Resource = keyof typeof KINDS;

const versionOf = (group: string): string => (group === '' ? 'v1' : `${group}/v1`);
const pathOf = (group: string): string => (group === '' ? '/api/v1' : `/apis/${group}/v1`);
const GROUPS = [...new Set(Object.values(KINDS).map(({ group }) => group))];

/** A change that a client has made, or a command that it has had executed. */
export interface Change {
  /** Such as `PATCH persistentvolumes/pv-1`. */
  readonly what: string;
  /** What was sent, as JSON. */
  readonly body: string;
  /** Whether the object is another one than before. */
  readonly isEffective: boolean;
}

export interface ApiOptions {
  /** Executes a command in a pod. */
  exec(command: readonly string[]): Promise<{ code: number; output: string }>;
  /** Called after a change is made, before it is answered. */
  onChange(change: Change): void;
  /** What a pod has written. */
  logOf?(pod: KubernetesObject): string;
  /** Why an object must not be made; null if it may. */
  refuse?(object: KubernetesObject): string | null;
}

export class KubernetesApi {
  readonly #objects = new Map<string, KubernetesObject>();
  readonly #server: Server;
  #version = 1;
  /** Called after each change of an object. */
  onObject: () => void = () => undefined;

  private constructor(private readonly options: ApiOptions) {
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((thrown: Error) => fail(response, 500, thrown.message));
    });
    this.#server.on('upgrade', (request, socket) => void this.#exec(request, socket));
  }

  static async start(options: ApiOptions): Promise<KubernetesApi> {
    const api = new KubernetesApi(options);
    api.#server.listen(0, '127.0.0.1');
    await once(api.#server, 'listening');
    return api;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  list(resource: Resource): KubernetesObject[] {
    return [...this.#objects].filter(([key]) => key.startsWith(`${resource}/`)).map(([, object]) => object);
  }

  /** @param namespace '' for what is in none */
  find(resource: Resource, namespace: string, name: string): KubernetesObject | undefined {
    return this.#objects.get(`${resource}/${namespace}/${name}`);
  }

  create(resource: Resource, object: KubernetesObject): KubernetesObject {
    const { group, kind } = KINDS[resource] as Kind;
    const metadata = { ...object.metadata, uid: randomUUID(), creationTimestamp: new Date().toISOString() };
    return this.#put(resource, { apiVersion: versionOf(group), kind, status: {}, ...object, metadata });
  }

  /** Applies a JSON merge patch. Nothing if the object has gone. */
  patch(resource: Resource, { metadata: { namespace = '', name } }: KubernetesObject, patch: object): void {
    const object = this.find(resource, namespace, name);
    if (object !== undefined) this.#put(resource, merged(object, patch));
  }

  /** Removes the object, or marks it if finalizers hold it. */
  delete(resource: Resource, object: KubernetesObject): void {
    const { namespace = '', name, finalizers = [] } = object.metadata;
    if (finalizers.length > 0) {
      this.patch(resource, object, { metadata: { deletionTimestamp: new Date().toISOString() } });
      return;
    }
    this.#objects.delete(`${resource}/${namespace}/${name}`);
    this.onObject();
  }

  #put(resource: Resource, object: KubernetesObject): KubernetesObject {
    const { namespace = '', name, finalizers = [], deletionTimestamp } = object.metadata;
    const key = `${resource}/${namespace}/${name}`;
    this.#version += 1;
    object.metadata.resourceVersion = `${this.#version}`;
    if (deletionTimestamp !== undefined && finalizers.length === 0) this.#objects.delete(key);
    else this.#objects.set(key, object);
    this.onObject();
    return object;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://api');
    const found = discovery(pathname);
    if (found !== null) return send(response, 200, found);
    const log = /^(.*)\/log$/.exec(pathname)?.[1];
    const target = targetOf(log ?? pathname);
    if (target === null) return fail(response, 404, `there is no ${pathname}`);
    const { resource, namespace, name } = target;
    if (request.method === 'POST') return this.#post(target, await bodyOf(request), response);
    if (name === '') {
      const objects = this.#selected(target, searchParams);
      if (request.method === 'GET') return send(response, 200, listOf(resource, objects));
      for (const object of objects) this.delete(resource, object);
      this.#changed(`DELETE ${resource}`, objects.length > 0);
      return send(response, 200, listOf(resource, objects));
    }
    const object = this.find(resource, namespace, name);
    if (object === undefined) return fail(response, 404, `${resource} "${name}" not found`, 'NotFound');
    if (log !== undefined) {
      response.writeHead(200, { 'content-type': 'text/plain' });
      response.end(this.options.logOf?.(object) ?? '');
      return;
    }
    if (request.method === 'DELETE') {
      const isNew = object.metadata.deletionTimestamp === undefined;
      if (isNew) this.delete(resource, object);
      this.#changed(`DELETE ${resource}/${name}`, isNew);
      return send(response, 200, object);
    }
    if (request.method !== 'PATCH') return send(response, 200, object);
    const body = await bodyOf(request);
    const result = merged(object, body);
    const isEffective = !isDeepStrictEqual(result, object);
    if (isEffective) this.#put(resource, result);
    this.#changed(`PATCH ${resource}/${name}`, isEffective, body);
    return send(response, 200, result);
  }

  #post({ resource, namespace }: Target, body: KubernetesObject, response: ServerResponse): void {
    const { name } = body.metadata;
    if (this.find(resource, namespace, name) !== undefined) {
      fail(response, 409, `${resource} "${name}" already exists`, 'AlreadyExists');
      return;
    }
    const refusal = this.options.refuse?.(body) ?? null;
    if (refusal !== null) {
      fail(response, 403, refusal, 'Forbidden');
      return;
    }
    const { kind } = KINDS[resource] as Kind;
    // What kubectl asks for by --cascade=foreground.
    if (kind === 'Job') body.metadata.finalizers = ['foregroundDeletion'];
    if (kind === 'PersistentVolumeClaim') body.metadata.finalizers = ['kubernetes.io/pvc-protection'];
    if (kind === 'VolumeSnapshot') body.metadata.finalizers = ['snapshot.storage.kubernetes.io/volumesnapshot-bound'];
    for (const [key, value] of Object.entries(body.metadata)) if (value === null) delete body.metadata[key];
    const created = this.create(resource, { ...body, metadata: { ...body.metadata, namespace } });
    this.#changed(`POST ${resource}/${name}`, true);
    send(response, 201, created);
  }

  #changed(what: string, isEffective: boolean, body: object = {}): void {
    this.options.onChange({ what, isEffective, body: JSON.stringify(body) });
  }

  #selected({ resource, namespace }: Target, parameters: URLSearchParams): KubernetesObject[] {
    const selector = parameters.get('labelSelector') ?? '';
    const wanted = selector.split(',').filter((part) => part !== '');
    return this.list(resource).filter(
      ({ metadata }) =>
        (namespace === '' || metadata.namespace === namespace) &&
        wanted.every((part) => metadata.labels?.[part.split('=')[0] ?? ''] === part.split('=')[1]),
    );
  }

  /** RFC 6455, and the channels of v5.channel.k8s.io: 1 is stdout, 3 the status. Frames of a server have no mask. */
  async #exec(request: IncomingMessage, socket: Duplex): Promise<void> {
    const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    const accept = createHash('sha1').update(key).digest('base64');
    socket.on('error', () => undefined);
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n` +
        'Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n',
    );
    const command = new URL(request.url ?? '', 'http://api').searchParams.getAll('command');
    const { code, output } = await this.options.exec(command);
    this.#changed(`EXEC ${command.slice(1).join(' ')}`, code === 0);
    const status =
      code === 0
        ? { status: 'Success' }
        : {
            status: 'Failure',
            message: `command terminated with exit code ${code}`,
            reason: 'NonZeroExitCode',
            details: { causes: [{ reason: 'ExitCode', message: `${code}` }] },
          };
    for (const [channel, text] of [
      [1, output],
      [3, JSON.stringify({ kind: 'Status', apiVersion: 'v1', metadata: {}, ...status })],
    ] as const) {
      socket.write(frame(2, Buffer.concat([Buffer.from([channel]), Buffer.from(text)])));
    }
    socket.end(frame(8, Buffer.from([0x03, 0xe8])));
  }
}

function frame(opcode: number, payload: Buffer): Buffer {
  const length =
    payload.length < 126
      ? Buffer.from([payload.length])
      : Buffer.from([126, payload.length >> 8, payload.length & 255]);
  return Buffer.concat([Buffer.from([0x80 | opcode]), length, payload]);
}

interface Target {
  readonly resource: Resource;
  readonly namespace: string;
  readonly name: string;
}

function targetOf(pathname: string): Target | null {
  const found = /^\/(?:api|apis\/[^/]+)\/v1(?:\/namespaces\/([^/]+))?\/([^/]+)(?:\/([^/]+))?$/.exec(pathname);
  const [, namespace = '', resource = '', name = ''] = found ?? [];
  return resource in KINDS ? { resource, namespace, name } : null;
}

function listOf(resource: Resource, items: readonly KubernetesObject[]): object {
  const { group, kind } = KINDS[resource] as Kind;
  return { apiVersion: versionOf(group), kind: `${kind}List`, metadata: { resourceVersion: '1' }, items };
}

/** What kubectl asks about the API itself; null if it asks for something else. */
function discovery(pathname: string): object | null {
  if (pathname === '/api') return { kind: 'APIVersions', versions: ['v1'] };
  if (pathname === '/apis') {
    const groups = GROUPS.filter((name) => name !== '').map((name) => {
      const version = { groupVersion: `${name}/v1`, version: 'v1' };
      return { name, versions: [version], preferredVersion: version };
    });
    return { kind: 'APIGroupList', apiVersion: 'v1', groups };
  }
  if (pathname === '/openapi/v3') {
    const paths = GROUPS.map((group) => [pathOf(group).slice(1), { serverRelativeURL: `/openapi/v3${pathOf(group)}` }]);
    return { paths: Object.fromEntries(paths) };
  }
  for (const group of GROUPS) {
    const kinds = Object.entries(KINDS).filter(([, kind]) => kind.group === group);
    if (pathname === pathOf(group)) return resourceList(group, kinds);
    if (pathname === `/openapi/v3${pathOf(group)}`) return openApi(group, kinds);
  }
  return null;
}

function resourceList(group: string, kinds: readonly [string, Kind][]): object {
  const resources = kinds.map(([name, { kind, isNamespaced }]) => ({
    name,
    singularName: kind.toLowerCase(),
    namespaced: isNamespaced,
    kind,
    verbs: ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'],
  }));
  return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion: versionOf(group), resources };
}

/** As much as kubectl needs to leave the validation to the server. */
function openApi(group: string, kinds: readonly [string, Kind][]): object {
  const paths = kinds.map(([name, { kind }]) => [
    `${pathOf(group)}/namespaces/{namespace}/${name}/{name}`,
    {
      patch: {
        parameters: [{ name: 'fieldValidation', in: 'query' }],
        responses: {},
        'x-kubernetes-group-version-kind': { group, version: 'v1', kind },
      },
    },
  ]);
  return { openapi: '3.0.0', info: { title: 'test', version: '1' }, paths: Object.fromEntries(paths) };
}

/** RFC 7386. */
function merged(target: KubernetesObject, patch: KubernetesObject): KubernetesObject {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch;
  const isObject = typeof target === 'object' && target !== null && !Array.isArray(target);
  const result = isObject ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = merged(result[key], value);
  }
  return result;
}

async function bodyOf(request: IncomingMessage): Promise<KubernetesObject> {
  let text = '';
  for await (const part of request) text += part;
  return JSON.parse(text);
}

function send(response: ServerResponse, code: number, body: object): void {
  response.writeHead(code, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

const fail = (response: ServerResponse, code: number, message: string, reason = 'InternalError'): void =>
  send(response, code, { kind: 'Status', apiVersion: 'v1', status: 'Failure', message, reason, code });
