/**
 * Makes the list of nodes from the pods of their plugins. Does no I/O: kubernetes-discovery.ts watches the pods.
 *
 * A pod that goes away is replaced, and the volumes of its node stay. So a node whose pod has gone remains listed without an
 * address, and its objects are UNAVAILABLE instead of missing. After an hour the list drops the node, which then counts as
 * missing.
 */
import { isIPv6 } from 'node:net';
import type { NodeEntry } from './node-list.js';
import type { ApiObject } from './object-watch.js';

export interface Pod {
  readonly spec?: { readonly nodeName?: string };
  readonly status?: { readonly podIP?: string; readonly phase?: string };
  /** Times as text in the form of the API; empty if there is none. */
  readonly metadata?: { readonly creationTimestamp?: string; readonly deletionTimestamp?: string };
}

/** What is kept of a pod. */
export const podOf = ({ spec, status, metadata }: ApiObject): Pod => ({
  spec: { nodeName: spec?.nodeName ?? '' },
  status: { podIP: status?.podIP ?? '', phase: status?.phase ?? '' },
  metadata: {
    creationTimestamp: metadata.creationTimestamp ?? '',
    deletionTimestamp: metadata.deletionTimestamp ?? '',
  },
});

const REMEMBERED_MS = 3_600_000;

export class PodList {
  /** When each node last had a pod (milliseconds of the caller's clock), by the id of the node. */
  readonly #seen = new Map<string, number>();

  constructor(private readonly port: number) {}

  /** The nodes, given the pods that exist at the time `now`. */
  nodesOf(pods: readonly Pod[], now: number): NodeEntry[] {
    const addresses = new Map<string, string | null>();
    for (const pod of [...pods].sort(byPreference)) {
      const id = pod.spec?.nodeName ?? '';
      if (id === '') continue;
      this.#seen.set(id, now);
      if (addresses.get(id)) continue;
      addresses.set(id, addressOf(pod, this.port));
    }
    for (const [id, seenAt] of this.#seen) {
      if (addresses.has(id)) continue;
      if (now - seenAt > REMEMBERED_MS) this.#seen.delete(id);
      else addresses.set(id, null);
    }
    return [...addresses].map(([id, address]) => ({ id, address }));
  }
}

/** While a DaemonSet replaces a pod, its node may have two pods. Pods that stay come first, then the newest. */
function byPreference(a: Pod, b: Pod): number {
  return isEnding(a) - isEnding(b) || createdAt(b) - createdAt(a);
}

function isEnding({ metadata }: Pod): number {
  return (metadata?.deletionTimestamp ?? '') === '' ? 0 : 1;
}

function createdAt({ metadata }: Pod): number {
  return Date.parse(metadata?.creationTimestamp ?? '') || 0;
}

function addressOf({ status }: Pod, port: number): string | null {
  const ip = status?.podIP ?? '';
  if (ip === '' || status?.phase === 'Failed' || status?.phase === 'Succeeded') return null;
  return isIPv6(ip) ? `[${ip}]:${port}` : `${ip}:${port}`;
}
