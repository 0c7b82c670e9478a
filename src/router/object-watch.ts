/**
 * Watches objects of one kind in Kubernetes: gets a list from the API server, and then the changes to this list. The router asks
 * Kubernetes for nothing else, so a client library of 50 MB would be too large. Knows no pods and no nodes.
 *
 * Source: "Efficient detection of changes" in the API concepts of Kubernetes. A list has a version, and a watch reports the
 * changes since that version. If the API server has forgotten the version, it answers 410, and this file lists all objects again.
 */
import { readFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** The API server, and the account that asks it. */
export interface ClusterAccess {
  readonly host: string;
  readonly port: number;
  /** Holds `token` and `ca.crt`, which are read for each request because the kubelet renews them. */
  readonly accountDirectory: string;
}

/** The objects that are watched, and what is kept of each. */
export interface Watched<Kept> {
  /** Of the list, as in `/api/v1/nodes`. */
  readonly path: string;
  /** A label selector; '' selects all. */
  readonly selector: string;
  /** The fields that are needed, because there may be thousands of objects. */
  needed(object: ApiObject): Kept;
}

export interface WatchListener<Kept> {
  /** Called with all current objects for each list and for each event. */
  listed(objects: readonly Kept[]): void;
  /** Called when the API server cannot be asked. The watch asks it again. */
  failed(problem: unknown): void;
}

/** As the API server sends it. */
export interface ApiObject {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly creationTimestamp?: string;
    readonly deletionTimestamp?: string;
  };
  readonly spec?: { readonly nodeName?: string; readonly taints?: readonly { readonly key: string }[] };
  readonly status?: { readonly podIP?: string; readonly phase?: string };
}

interface ApiList {
  readonly items: readonly ApiObject[];
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
}

interface ApiEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: ApiObject & { readonly code?: number; readonly message?: string };
}

const RETRY_MS = 3000;
/** The pause between the end of a watch and the next watch. */
const PAUSE_MS = 500;
const PAGE = 500;
/** The API server ends a watch after this time, and a new watch continues. */
const WATCH_SECONDS = 240;
/** A connection on which nothing has arrived for this time is dead. */
const SILENCE_MS = 300_000;
const LIST_MS = 60_000;
const GONE = 410;

class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export class ObjectWatch<Kept> {
  readonly #end = new AbortController();
  #objects = new Map<string, Kept>();

  constructor(
    private readonly access: ClusterAccess,
    private readonly watched: Watched<Kept>,
  ) {}

  /** Runs until `stop`. Never throws. */
  async run(listener: WatchListener<Kept>): Promise<void> {
    const { signal } = this.#end;
    /** Null if all objects have to be listed. */
    let version: string | null = null;
    while (!signal.aborted) {
      let pauseMs = PAUSE_MS;
      try {
        if (version === null) {
          version = await this.#list();
          listener.listed([...this.#objects.values()]);
        }
        version = await this.#watch(version, listener);
      } catch (thrown) {
        version = null;
        if (!signal.aborted && !(thrown instanceof ApiError && thrown.status === GONE)) {
          listener.failed(thrown);
          pauseMs = RETRY_MS;
        }
      }
      await delay(pauseMs, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  stop(): void {
    this.#end.abort();
  }

  /** Lists all objects. Resolves to the version of the list. */
  async #list(): Promise<string> {
    const objects = new Map<string, Kept>();
    let next = '';
    for (;;) {
      const query = { limit: `${PAGE}`, ...(next === '' ? {} : { continue: next }) };
      const list = JSON.parse(await textOf(await this.#get(query, LIST_MS))) as ApiList;
      for (const each of list.items) objects.set(each.metadata.uid, this.watched.needed(each));
      next = list.metadata.continue ?? '';
      if (next !== '') continue;
      this.#objects = objects;
      return list.metadata.resourceVersion;
    }
  }

  /** Applies changes. Resolves to the last version when the API server ends the watch. */
  async #watch(from: string, listener: WatchListener<Kept>): Promise<string> {
    let version = from;
    const response = await this.#get(
      {
        watch: 'true',
        allowWatchBookmarks: 'true',
        resourceVersion: from,
        timeoutSeconds: `${WATCH_SECONDS}`,
      },
      SILENCE_MS,
    );
    for await (const line of linesOf(response)) {
      const { type, object } = JSON.parse(line) as ApiEvent;
      if (type === 'ERROR') throw new ApiError(object.code ?? 0, object.message ?? line);
      version = object.metadata.resourceVersion;
      if (type === 'BOOKMARK') continue;
      if (type === 'DELETED') this.#objects.delete(object.metadata.uid);
      else this.#objects.set(object.metadata.uid, this.watched.needed(object));
      listener.listed([...this.#objects.values()]);
    }
    return version;
  }

  /** Rejects unless the answer is 200. */
  async #get(query: Record<string, string>, silenceMs: number): Promise<IncomingMessage> {
    const { host, port, accountDirectory } = this.access;
    const { path, selector } = this.watched;
    const [token, ca] = await Promise.all(
      ['token', 'ca.crt'].map((name) => readFile(join(accountDirectory, name), 'utf8')),
    );
    const asked = new URLSearchParams({ ...(selector === '' ? {} : { labelSelector: selector }), ...query });
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const outgoing = request({
        host,
        port,
        ca,
        agent: false,
        signal: this.#end.signal,
        path: `${path}?${asked}`,
        headers: { authorization: `Bearer ${token?.trim()}`, accept: 'application/json' },
      });
      outgoing.setTimeout(silenceMs, () => {
        outgoing.destroy(new Error(`the API server has not answered for ${silenceMs / 1000} s`));
      });
      outgoing.once('response', resolve).on('error', reject).end();
    });
    if (response.statusCode === 200) return response;
    const { statusCode = 0 } = response;
    const said = refusalIn(await textOf(response));
    throw new ApiError(statusCode, `HTTP status ${statusCode}${said}`);
  }
}

/** The reason that the API server gives for a refusal, after a colon; empty if it gives none. */
function refusalIn(text: string): string {
  try {
    const { message } = JSON.parse(text) as { message?: string };
    return message === undefined ? '' : `: ${message}`;
  } catch {
    return '';
  }
}

async function* linesOf(response: IncomingMessage): AsyncGenerator<string> {
  let rest = '';
  for await (const text of response.setEncoding('utf8')) {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}
