/**
 * What Kubernetes and the sidecars do with the objects of kubernetes-api.ts, by real calls to a real router and real nodes:
 * provisioner, binder, protection and reclaim of claims, snapshots, StatefulSets of one pod, and a kubelet for raw block volumes.
 * Each work is repeated until it succeeds, as there.
 */
import { createHash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../../src/base/errors.js';
import { SingleFlight } from '../../src/base/single-flight.js';
import { blockCapability } from './csi-client.js';
import type { KubernetesApi, KubernetesObject } from './kubernetes-api.js';
import type { NodeCluster } from './node-cluster.js';
import type { HeldVolume } from './orchestrator.js';

const TOPOLOGY_KEY = 'blockdelta.csi/node';
const DRIVER = 'blockdelta.csi';
const SELECTED = 'volume.kubernetes.io/selected-node';
const NAMESPACE = 'default';

const digestOf = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex');

export class KubernetesControllers {
  readonly #works = new SingleFlight<string, void>();
  readonly #stagings = new Map<string, HeldVolume>();
  #isStopped = false;
  /** The digests of what the last pod has left in its volume, and of what the last one has found. */
  left = '';
  found = '';

  constructor(
    private readonly api: KubernetesApi,
    private readonly cluster: NodeCluster,
  ) {
    api.onObject = () => this.#look();
  }

  stop(): void {
    this.#isStopped = true;
  }

  /** Where the pod has its volume; null while it does not run. */
  get path(): string | null {
    const pod = this.api
      .list('pods')
      .find(({ metadata, status }) => metadata.name.endsWith('-0') && status.phase === 'Running');
    return pod === undefined ? null : (this.#stagings.get(pod.metadata.uid)?.targetPath ?? null);
  }

  /** Writes durably to the volume of the pod, if it runs. */
  write(bytes: Buffer, offset: number): void {
    const { path } = this;
    if (path === null) return;
    const file = openSync(path, 'r+');
    writeSync(file, bytes, 0, bytes.length, offset);
    fsyncSync(file);
    closeSync(file);
  }

  /** A volume as its node's kubelet would use it. */
  held(volume: KubernetesObject): { node: number; volume: HeldVolume } {
    const [term] = volume.spec.nodeAffinity.required.nodeSelectorTerms;
    const node = Number(term.matchExpressions[0].values[0].split('-')[1]);
    const capacity_bytes = volume.spec.capacity.storage;
    const { volumeHandle } = volume.spec.csi;
    const message = { volume_id: volumeHandle, capacity_bytes };
    return { node, volume: this.cluster.orchestrator(node).hold(volume.metadata.name, message, blockCapability()) };
  }

  #look(): void {
    const { api } = this;
    for (const claim of api.list('persistentvolumeclaims')) this.#claim(claim);
    for (const volume of api.list('persistentvolumes')) this.#volume(volume);
    for (const snapshot of api.list('volumesnapshots')) this.#snapshot(snapshot);
    for (const set of api.list('statefulsets')) this.#set(set);
  }

  /** Repeats the work while it fails, unless it is not wanted any more. */
  #work(what: string, isWanted: () => boolean, work: () => Promise<void>): void {
    void this.#works.run(what, async () => {
      // Works begin after the change that they are for.
      await delay(0);
      while (!this.#isStopped && isWanted()) {
        try {
          return await work();
        } catch {
          await delay(100);
        }
      }
    });
  }

  #current(resource: string, { metadata }: KubernetesObject): KubernetesObject | undefined {
    const found = this.api.find(resource, metadata.namespace ?? '', metadata.name);
    return found?.metadata.uid === metadata.uid ? found : undefined;
  }

  #claim(claim: KubernetesObject): void {
    const { uid, name, deletionTimestamp } = claim.metadata;
    const current = () => this.#current('persistentvolumeclaims', claim);
    if (deletionTimestamp !== undefined) {
      const isUsed = this.api
        .list('pods')
        .some(({ spec }) =>
          spec.volumes?.some((each: KubernetesObject) => each.persistentVolumeClaim?.claimName === name),
        );
      const release = async () => this.api.patch('persistentvolumeclaims', claim, { metadata: { finalizers: [] } });
      if (!isUsed) this.#work(`release ${uid}`, () => current() !== undefined, release);
      return;
    }
    if (claim.status.phase === 'Bound') return;
    const { volumeName } = claim.spec;
    if (volumeName !== undefined) this.#bind(claim, this.api.find('persistentvolumes', '', volumeName));
    else if (claim.metadata.annotations?.[SELECTED] !== undefined) {
      const isWanted = () =>
        current()?.metadata.annotations?.[SELECTED] !== undefined && current()?.spec.volumeName === undefined;
      this.#work(`provision ${uid}`, isWanted, () => this.#provision(claim));
    }
  }

  /** As the binder does it for a claim that names its volume. */
  #bind(claim: KubernetesObject, volume: KubernetesObject | undefined): void {
    const ref = volume?.spec.claimRef;
    if (ref?.name !== claim.metadata.name || ref.namespace !== claim.metadata.namespace) return;
    if (ref.uid !== undefined && ref.uid !== claim.metadata.uid) return;
    if (volume.spec.storageClassName !== claim.spec.storageClassName) return;
    this.#work(
      `bind ${claim.metadata.uid}`,
      () => this.#current('persistentvolumeclaims', claim) !== undefined,
      async () => {
        const { uid, name, namespace } = claim.metadata;
        this.api.patch('persistentvolumes', volume, {
          spec: { claimRef: { uid, name, namespace } },
          status: { phase: 'Bound' },
        });
        const annotations = { 'pv.kubernetes.io/bind-completed': 'yes' };
        const spec = { volumeName: volume.metadata.name };
        this.api.patch('persistentvolumeclaims', claim, {
          metadata: { annotations },
          spec,
          status: { phase: 'Bound' },
        });
      },
    );
  }

  /** As external-provisioner does it under WaitForFirstConsumer. */
  async #provision(claim: KubernetesObject): Promise<void> {
    const { metadata, spec } = claim;
    const storageClass = this.api.find('storageclasses', '', spec.storageClassName);
    const snapshot = this.api.find('volumesnapshots', NAMESPACE, spec.dataSource?.name ?? '');
    if (spec.dataSource !== undefined && snapshot?.status.readyToUse !== true)
      throw new Error('the source is not ready');
    const segments = (node: string) => ({ segments: { [TOPOLOGY_KEY]: node } });
    const name = `pvc-${metadata.uid}`;
    try {
      const { volume } = await this.cluster.router.client.controller.CreateVolume({
        name,
        capacity_range: { required_bytes: spec.resources.requests.storage },
        volume_capabilities: [blockCapability()],
        parameters: storageClass.parameters,
        ...(snapshot && { volume_content_source: { snapshot: { snapshot_id: snapshot.status.handle } } }),
        accessibility_requirements: {
          requisite: this.api.list('nodes').map((node) => segments(node.metadata.name)),
          preferred: [segments(metadata.annotations[SELECTED])],
        },
      });
      const node = volume.accessible_topology[0].segments[TOPOLOGY_KEY];
      const expression = { key: TOPOLOGY_KEY, operator: 'In', values: [node] };
      const made = this.api.create('persistentvolumes', {
        metadata: { name },
        spec: {
          capacity: { storage: spec.resources.requests.storage },
          accessModes: spec.accessModes,
          volumeMode: spec.volumeMode,
          claimRef: { namespace: metadata.namespace, name: metadata.name, uid: metadata.uid },
          persistentVolumeReclaimPolicy: 'Delete',
          storageClassName: spec.storageClassName,
          csi: { driver: DRIVER, volumeHandle: volume.volume_id },
          nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } },
        },
      });
      this.#bind(claim, made);
    } catch (thrown) {
      if ((thrown as { code?: number }).code !== StatusCode.RESOURCE_EXHAUSTED) throw thrown;
      this.api.patch('persistentvolumeclaims', claim, { metadata: { annotations: { [SELECTED]: null } } });
    }
  }

  #volume(volume: KubernetesObject): void {
    const { claimRef, persistentVolumeReclaimPolicy: policy, csi } = volume.spec;
    const phase = claimRef.uid === undefined ? 'Available' : 'Released';
    const claim = this.api.find('persistentvolumeclaims', claimRef.namespace, claimRef.name);
    if (claimRef.uid !== undefined && claim?.metadata.uid === claimRef.uid) return;
    if (volume.status.phase !== phase) {
      const isWanted = () => this.#current('persistentvolumes', volume)?.spec.claimRef.uid === claimRef.uid;
      this.#work(`${phase} ${volume.metadata.uid}`, isWanted, async () =>
        this.api.patch('persistentvolumes', volume, { status: { phase } }),
      );
      return;
    }
    if (phase !== 'Released' || policy !== 'Delete') return;
    const isWanted = () => this.#current('persistentvolumes', volume)?.spec.persistentVolumeReclaimPolicy === 'Delete';
    this.#work(`delete ${volume.metadata.uid}`, isWanted, async () => {
      await this.cluster.router.client.controller.DeleteVolume({ volume_id: csi.volumeHandle });
      this.api.delete('persistentvolumes', volume);
    });
  }

  #snapshot(snapshot: KubernetesObject): void {
    const { uid, name, namespace, deletionTimestamp } = snapshot.metadata;
    const current = () => this.#current('volumesnapshots', snapshot);
    const { controller } = this.cluster.router.client;
    if (deletionTimestamp !== undefined) {
      this.#work(
        `remove ${uid}`,
        () => current() !== undefined,
        async () => {
          const handle = current()?.status.handle;
          if (handle !== undefined) await controller.DeleteSnapshot({ snapshot_id: handle });
          this.api.delete('volumesnapshotcontents', { metadata: { name: `content-${uid}` } });
          this.api.patch('volumesnapshots', { metadata: { name, namespace } }, { metadata: { finalizers: [] } });
        },
      );
      return;
    }
    if (snapshot.status.readyToUse === true) return;
    const isWanted = () => current() !== undefined && current()?.metadata.deletionTimestamp === undefined;
    this.#work(`snapshot ${uid}`, isWanted, async () => {
      const claimName = snapshot.spec.source.persistentVolumeClaimName;
      const claim = this.api.find('persistentvolumeclaims', namespace, claimName);
      const volume = this.api.find('persistentvolumes', '', claim?.spec.volumeName ?? '');
      const request = { name: `snapshot-${uid}`, source_volume_id: volume.spec.csi.volumeHandle };
      const answer = await controller.CreateSnapshot(request);
      const { snapshot_id: handle, ready_to_use: readyToUse } = answer.snapshot;
      const content = `content-${uid}`;
      this.api.create('volumesnapshotcontents', {
        metadata: { name: content },
        spec: { driver: DRIVER, volumeSnapshotRef: { namespace, name } },
        status: { snapshotHandle: handle },
      });
      const status = { handle, readyToUse, boundVolumeSnapshotContentName: content };
      this.api.patch('volumesnapshots', snapshot, { status });
    });
  }

  #set(set: KubernetesObject): void {
    const { name: setName, namespace } = set.metadata;
    const name = `${setName}-0`;
    const pod = this.api.find('pods', namespace, name);
    const wants = () => this.api.find('statefulsets', namespace, setName).spec.replicas > 0;
    const claimName = set.spec.claim;
    if (pod === undefined && wants()) {
      const volumes = [{ name: 'data', persistentVolumeClaim: { claimName } }];
      const status = { phase: 'Pending' };
      this.#work(
        `make ${name}`,
        () => wants() && this.api.find('pods', namespace, name) === undefined,
        async () => {
          this.api.create('pods', { metadata: { name, namespace }, spec: { volumes }, status });
        },
      );
    } else if (pod?.status.phase === 'Pending' && wants()) {
      this.#work(
        `run ${pod.metadata.uid}`,
        () => wants() && this.#current('pods', pod) !== undefined,
        () => this.#run(pod, claimName),
      );
    } else if (pod !== undefined && !wants()) {
      this.#work(
        `end ${pod.metadata.uid}`,
        () => this.#current('pods', pod) !== undefined,
        () => this.#end(pod),
      );
    }
  }

  async #run(pod: KubernetesObject, claimName: string): Promise<void> {
    const claim = this.api.find('persistentvolumeclaims', pod.metadata.namespace, claimName);
    if (claim?.status.phase !== 'Bound') throw new Error('the claim is not bound');
    const { node, volume } = this.held(this.api.find('persistentvolumes', '', claim.spec.volumeName));
    this.found = digestOf(await this.cluster.orchestrator(node).bringUp(volume));
    this.#stagings.set(pod.metadata.uid, volume);
    this.api.patch('pods', pod, { status: { phase: 'Running' } });
  }

  /** The pod goes when its volume is unpublished. What the kubelet has mounted for all pods goes later. */
  async #end(pod: KubernetesObject): Promise<void> {
    const volume = this.#stagings.get(pod.metadata.uid);
    if (volume === undefined) return this.api.delete('pods', pod);
    const node = this.api.list('persistentvolumes').find(({ spec }) => spec.csi.volumeHandle === volume.id);
    const orchestrator = this.cluster.orchestrator(this.held(node).node);
    if (pod.status.phase === 'Running') this.left = digestOf(volume.targetPath);
    this.api.patch('pods', pod, { status: { phase: 'Pending' } });
    await orchestrator.unpublish(volume);
    this.api.delete('pods', pod);
    this.#stagings.delete(pod.metadata.uid);
    this.#work(
      `unstage ${volume.id}`,
      () => true,
      async () => {
        await delay(300);
        await orchestrator.unstage(volume);
      },
    );
  }
}
