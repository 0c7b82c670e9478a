/** Keys that orchestrators add to parameters and contexts by themselves. The plugin ignores all but the pod's uid. */

import { CsiError } from '../../base/errors.js';

/** Kubernetes: metadata of the claim, snapshot or pod, and the provisioner's identity. */
const PREFIXES = ['csi.storage.k8s.io/', 'storage.kubernetes.io/'] as const;

/** A key in the volume_context of NodePublishVolume if the CSIDriver object sets podInfoOnMount. */
const POD_UID = 'csi.storage.k8s.io/pod.uid';

/** Null if the context has no uid. INVALID_ARGUMENT if the value is not a uid, since it becomes a file name. */
export function podUidOf(context: Readonly<Record<string, string>>): string | null {
  const uid = Object.hasOwn(context, POD_UID) ? context[POD_UID] : undefined;
  if (uid === undefined || uid === '') return null;
  if (/^[A-Za-z0-9-]{1,64}$/.test(uid)) return uid;
  throw CsiError.invalidArgument(`volume_context['${POD_UID}'] is not a uid of a pod`);
}

/** INVALID_ARGUMENT for a key of no orchestrator: no volume has one. Keys and values may be secret, so none is shown. */
export function assertContextOf(volumeId: string, volumeContext: Readonly<Record<string, string>>): void {
  if (Object.keys(volumeContext).every(isOrchestratorKey)) return;
  throw CsiError.invalidArgument(`volume_context is not the one volume ${volumeId} was created with`);
}

export function isOrchestratorKey(key: string): boolean {
  return PREFIXES.some((prefix) => key.startsWith(prefix));
}
