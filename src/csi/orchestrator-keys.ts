/** Keys that orchestrators add to parameters and contexts on their own account; they say nothing to us. */

/** Kubernetes: metadata of the claim, snapshot or pod, and the provisioner's identity. */
const PREFIXES = ['csi.storage.k8s.io/', 'storage.kubernetes.io/'] as const;

export function isOrchestratorKey(key: string): boolean {
  return PREFIXES.some((prefix) => key.startsWith(prefix));
}
