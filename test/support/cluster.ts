/**
 * deploy/kubernetes as a test asks about it: the pods, containers and objects of each overlay.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { type Manifest, parseManifests } from './manifests.js';

export const KUBERNETES = 'deploy/kubernetes';
export const OVERLAYS = readdirSync(packagePath(`${KUBERNETES}/overlays`)).sort();
export const KUBERNETES_DOCUMENT = readFileSync(packagePath('docs/kubernetes.md'), 'utf8');

export interface Container {
  name: string;
  image: string;
  command?: string[];
  args: string[];
  env?: { name: string; value?: string; valueFrom?: { fieldRef: { fieldPath: string } } }[];
  ports?: { name: string; containerPort: number }[];
  restartPolicy?: string;
  startupProbe?: Probe;
  livenessProbe?: Probe;
  readinessProbe?: Probe;
  securityContext: Record<string, unknown>;
  resources: { requests?: object; limits?: object };
  volumeMounts: {
    name: string;
    mountPath: string;
    mountPropagation?: string;
    readOnly?: boolean;
  }[];
}

interface Probe {
  httpGet: { path: string; port: string };
  periodSeconds: number;
  failureThreshold?: number;
  timeoutSeconds: number;
}

interface Volume {
  name: string;
  hostPath?: { path: string; type: string };
  secret?: { secretName: string };
  [kind: string]: unknown;
}

export interface Pod {
  owner: string;
  labels: Record<string, string>;
  account: string;
  containers: Container[];
  volumes: Volume[];
  spec: Record<string, unknown>;
}

/** What the kubelet puts in place of a reference to a field of the pod. */
const FIELDS: Readonly<Record<string, string>> = {
  'metadata.name': 'blockdelta-pod',
  'metadata.namespace': 'blockdelta',
  'spec.nodeName': 'node-a',
};

/** One overlay with the questions that tests ask. */
export class Cluster {
  readonly manifests: readonly Manifest[];
  readonly pods: Pod[];

  constructor(readonly overlay: string) {
    const file = packagePath(`${KUBERNETES}/overlays/${overlay}/blockdelta.yaml`);
    this.manifests = parseManifests(readFileSync(file, 'utf8'));
    this.pods = this.manifests
      .filter(({ kind }) => kind === 'DaemonSet' || kind === 'Deployment')
      .map(({ kind, metadata, spec: { template } }) => ({
        owner: `${kind} ${metadata.name}`,
        labels: template.metadata.labels,
        account: template.spec.serviceAccountName,
        containers: [...(template.spec.initContainers ?? []), ...template.spec.containers].map(
          (each) => ({ args: [], ...each }),
        ),
        volumes: template.spec.volumes,
        spec: template.spec,
      }));
  }

  of(kind: string): Manifest[] {
    return this.manifests.filter((manifest) => manifest.kind === kind);
  }

  has(kind: string, name: string): boolean {
    return this.of(kind).some(({ metadata }) => metadata.name === name);
  }

  pod(owner: string): Pod {
    const found = this.pods.find((pod) => pod.owner === owner);
    assert.ok(found, owner);
    return found;
  }

  get node(): Pod {
    return this.pod('DaemonSet blockdelta-node');
  }

  get controller(): Pod {
    return this.pod('Deployment blockdelta-controller');
  }

  selectedBy(labels: Record<string, string>): Pod[] {
    return this.pods.filter((pod) =>
      Object.entries(labels).every(([key, value]) => pod.labels[key] === value),
    );
  }

  /** The environment of a container as the node makes it. */
  environment({ env = [] }: Container): Record<string, string> {
    const own = env.map(({ name, value, valueFrom }) => [
      name,
      value ?? FIELDS[valueFrom?.fieldRef.fieldPath ?? ''] ?? assert.fail(name),
    ]);
    const all = Object.fromEntries(own) as Record<string, string>;
    const expand = (text: string) => text.replace(/\$\((\w+)\)/g, (_, name) => all[name] ?? '');
    return Object.fromEntries(Object.entries(all).map(([name, text]) => [name, expand(text)]));
  }
}

export function container(pod: Pod, name: string): Container {
  const found = pod.containers.find((candidate) => candidate.name === name);
  assert.ok(found, `${pod.owner} has no container ${name}`);
  return found;
}

export function flag({ args }: Container, name: string): string | undefined {
  return args.find((arg) => arg.startsWith(`--${name}=`))?.slice(name.length + 3);
}

/** A test for each overlay. */
export function forEveryOverlay(
  title: string,
  check: (cluster: Cluster) => void | Promise<void>,
): void {
  test(title, async (t) => {
    for (const overlay of OVERLAYS) {
      await t.test(overlay, () => check(cluster(overlay)));
    }
  });
}

const rendered = new Map<string, Cluster>();
export function cluster(overlay: string): Cluster {
  const known = rendered.get(overlay) ?? new Cluster(overlay);
  rendered.set(overlay, known);
  return known;
}
