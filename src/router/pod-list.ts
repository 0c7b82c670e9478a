/**
 * The list of nodes that the pods of the plugins make. Pure; kubernetes-discovery.ts watches the pods.
 *
 * A pod that goes away is replaced, and its node's volumes stay: a node whose pod has gone remains listed
 * without an address, so that its objects are UNAVAILABLE and not missing. After an hour it counts as
 * retired.
 */
import { isIPv6 } from 'node:net';
import type { NodeEntry } from './node-list.js';

export interface Pod {
  readonly spec?: { readonly nodeName?: string };
  readonly status?: { readonly podIP?: string; readonly phase?: string };
  /** Times as texts, as in the API; empty: none. */
  readonly metadata?: { readonly creationTimestamp?: string; readonly deletionTimestamp?: string };
}

const REMEMBERED_MS = 3_600_000;

export class PodList {
  /** When each node last had a pod, by its id (milliseconds of the caller's clock). */
  readonly #seen = new Map<string, number>();

  constructor(private readonly port: number) {}

  /** Of the pods that there are at a moment. */
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

/** While a DaemonSet replaces a pod, its node may have two: first those that stay, then the newest. */
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
