/**
 * The renderings of the chart (scripts/render-manifests) as a test asks about them: the pods, containers and objects of
 * each.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { checkoutText } from './checkout-text.js';
import { CHART, type Manifest, parseManifests, skipWithoutHelm } from './manifests.js';
import { temporaryDirectory } from './temporary.js';

const VALUES = '-values.yaml';
/** Their names: one for each file of values. */
export const RENDERINGS = readdirSync(packagePath(`${CHART}/ci`))
  .map((file) => file.slice(0, -VALUES.length))
  .sort();
/** The one rendering that the repository has, which needs no helm. */
export const KEPT = 'single-node';
/** Everything that docs/ says of Kubernetes, page behind page. */
export const KUBERNETES_DOCUMENT = ['kubernetes.md', 'kubernetes-problems.md', 'engineering/kubernetes-objects.md']
  .map((page) => checkoutText(`docs/${page}`))
  .join('\n');

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

/** @returns the directory of a rendering: blockdelta.yaml and kustomization.yaml */
export function render(name: string): string {
  const directory = temporaryDirectory();
  const args = ['--out', directory, name];
  const { status, stderr } = spawnSync(packagePath('scripts/render-manifests'), args);
  assert.equal(status, 0, String(stderr));
  return join(directory, name);
}

/** One rendering with the questions that tests ask. */
export class Cluster {
  readonly manifests: readonly Manifest[];
  readonly pods: Pod[];

  constructor(readonly name: string) {
    const directory = name === KEPT ? packagePath(`deploy/kubernetes/${name}`) : render(name);
    this.manifests = parseManifests(readFileSync(join(directory, 'blockdelta.yaml'), 'utf8'));
    this.pods = this.manifests
      .filter(({ kind }) => kind === 'DaemonSet' || kind === 'Deployment')
      .map(({ kind, metadata, spec: { template } }) => ({
        owner: `${kind} ${metadata.name}`,
        labels: template.metadata.labels,
        account: template.spec.serviceAccountName,
        containers: [...(template.spec.initContainers ?? []), ...template.spec.containers].map((each) => ({
          args: [],
          ...each,
        })),
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
    return this.pods.filter((pod) => Object.entries(labels).every(([key, value]) => pod.labels[key] === value));
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

/** A test for each rendering. */
export function forEveryRendering(title: string, check: (cluster: Cluster) => void | Promise<void>): void {
  test(title, async (t) => {
    for (const name of RENDERINGS) {
      await t.test(name, { skip: name !== KEPT && skipWithoutHelm }, () => check(cluster(name)));
    }
  });
}

const rendered = new Map<string, Cluster>();
export function cluster(name: string): Cluster {
  const known = rendered.get(name) ?? new Cluster(name);
  rendered.set(name, known);
  return known;
}
