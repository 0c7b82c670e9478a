/**
 * The PersistentVolume for a volume that Kubernetes does not know, such as a restored one, so that a claim can have it. Knows the
 * objects of Kubernetes and a volume's record, and reads nothing else.
 */
import { nodeSegment } from '../../base/csi/topology.js';
import { CsiError } from '../../base/errors.js';
import type { CatalogueContents } from '../../driver/catalogue/contents.js';

export interface PersistentVolumeRequest {
  volumeId: string;
  /** The claim that may have it, as NAMESPACE/NAME. */
  claim: { namespace: string; name: string };
  /** The file system on a volume that was made as a raw one; null: as the volume was made. */
  fsType: string | null;
  /** Also for a volume that a PersistentVolume may name already. */
  force: boolean;
  driverName: string;
  topologyKey: string;
}

/** external-provisioner names each volume `pvc-` and the uid of the claim. */
const PROVISIONED = /^pvc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * An object of `v1 PersistentVolume` with the reclaim policy Retain. NOT_FOUND without such a volume; FAILED_PRECONDITION while it is not
 * ready, before the node has an id, or if a provisioner made it and `force` is not set.
 */
export function persistentVolume(catalogue: CatalogueContents, request: PersistentVolumeRequest): object {
  const { volumeId, claim, driverName, topologyKey } = request;
  const volume = catalogue.volumes.find((each) => each.volumeId === volumeId);
  if (volume === undefined) {
    throw CsiError.notFound(`there is no volume ${volumeId} on this node; blockdelta volumes lists those there are`);
  }
  const { nodeId } = catalogue;
  if (volume.state !== 'ready' || nodeId === null) {
    throw CsiError.failedPrecondition(
      `volume ${volumeId} is in state ${volume.state}, so no claim can have it; wait, or start the plugin`,
    );
  }
  if (PROVISIONED.test(volume.name) && !request.force) {
    throw CsiError.failedPrecondition(
      `volume ${volumeId} is named ${volume.name}, so a provisioner made it and a PersistentVolume may name it already. ` +
        'Two of them mount one volume twice, and deleting one deletes the data of the other: look for the handle in ' +
        'kubectl get pv, and use --force only if none has it',
    );
  }
  const mounted = volume.capabilities.find((capability) => capability.accessType === 'mount');
  const fsType = request.fsType ?? (mounted?.accessType === 'mount' ? mounted.fsType || 'ext4' : null);
  const segments = Object.entries(nodeSegment({ topologyKey, nodeId }));
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: volumeId },
    spec: {
      capacity: { storage: String(volume.sizeBytes) },
      accessModes: ['ReadWriteOnce'],
      volumeMode: fsType === null ? 'Block' : 'Filesystem',
      // Whoever deletes the claim keeps the volume.
      persistentVolumeReclaimPolicy: 'Retain',
      storageClassName: '',
      claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', ...claim },
      csi: { driver: driverName, volumeHandle: volumeId, ...(fsType === null ? {} : { fsType }) },
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [
            { matchExpressions: segments.map(([key, value]) => ({ key, operator: 'In', values: [value] })) },
          ],
        },
      },
    },
  };
}
