/**
 * Kubernetes manifests as a cluster gets them: rendered by the chart or by kustomize, parsed, and held against the
 * published schemas (kubernetes-models and its companions for cert-manager and the Prometheus operator).
 *
 * The schemas know types, enumerations and required fields, and ignore fields they do not know, as the API
 * does. A misspelled field is found by watching which fields the validator reads.
 *
 * No package publishes schemas of snapshots, their classes and SnapshotMetadataService. What is used of
 * their few fields is listed here from their CustomResourceDefinitions (external-snapshotter 8.6,
 * external-snapshot-metadata 1.1).
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { parseAllDocuments } from 'yaml';
import { packagePath } from '../../src/base/package-root.js';

export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; labels?: Record<string, string> };
  // The fields differ by kind; tests read what they know.
  // biome-ignore lint/suspicious/noExplicitAny: validated against the schemas before it is read
  [field: string]: any;
}

/** Where scripts/setup puts the programs; on other processors they may be installed. */
export const PROGRAM_PATH = `${packagePath('.native-build/helm')}:${process.env['PATH']}`;
const isInstalled = (program: string) =>
  PROGRAM_PATH.split(':').some((directory) => existsSync(`${directory}/${program}`));

/** For node:test's `skip`: why manifests cannot be rendered here, or false. */
export const skipWithoutHelm: string | false = ['helm', 'kubectl'].every(isInstalled)
  ? false
  : 'needs helm and kubectl: scripts/setup --packages has them on amd64, install them elsewhere';

/** Runs helm or kubectl in the root of the package. */
export function runOnManifests(
  program: 'helm' | 'kubectl',
  args: readonly string[],
  input?: string,
): { status: number | null; stdout: string; stderr: string } {
  const options = { cwd: packagePath('.'), env: { ...process.env, PATH: PROGRAM_PATH } };
  return spawnSync(program, args, { ...options, encoding: 'utf8', ...(input && { input }) });
}

/** @param directory with a kustomization, absolute or relative to the root of the package */
export function kustomize(directory: string): Manifest[] {
  const { status, stdout, stderr } = runOnManifests('kubectl', ['kustomize', directory]);
  // Warnings announce what the next kustomize refuses.
  assert.deepEqual([status, stderr], [0, ''], `kubectl kustomize ${directory}`);
  return parseManifests(stdout);
}

export const CHART = 'deploy/helm/blockdelta';

/** What the chart makes of values, its test among it. */
export function helmTemplate(values: object, ...args: readonly string[]): Manifest[] {
  const all = ['template', 'release', CHART, '--namespace=blockdelta', '--values=-', ...args];
  const { status, stdout, stderr } = runOnManifests('helm', all, JSON.stringify(values));
  assert.deepEqual([status, stderr], [0, ''], JSON.stringify(values));
  return parseManifests(stdout);
}

export function parseManifests(text: string): Manifest[] {
  return parseAllDocuments(text).map((document) => {
    if (document.errors.length > 0) throw document.errors[0];
    return document.toJS() as Manifest;
  });
}

interface Validator {
  (data: unknown): boolean;
  errors?: { instancePath: string; keyword: string; params: object }[] | null;
}

const CORE = 'kubernetes-models/_schemas/IoK8sApi';
/** Where the schemas of an apiVersion are: the path below node_modules up to the kind. */
const SCHEMAS: Readonly<Record<string, string>> = {
  v1: `${CORE}CoreV1`,
  'apps/v1': `${CORE}AppsV1`,
  'batch/v1': `${CORE}BatchV1`,
  'networking.k8s.io/v1': `${CORE}NetworkingV1`,
  'policy/v1': `${CORE}PolicyV1`,
  'rbac.authorization.k8s.io/v1': `${CORE}RbacV1`,
  'storage.k8s.io/v1': `${CORE}StorageV1`,
  'cert-manager.io/v1': '@kubernetes-models/cert-manager/_schemas/ComGithubCertManagerCertManagerPkgApisCertmanagerV1',
  'monitoring.coreos.com/v1':
    '@kubernetes-models/prometheus-operator/_schemas/ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoringV1',
};

const isText = (value: unknown) => typeof value === 'string' && value !== '';
const isTextMap = (value: unknown) => typeof value === 'object' && value !== null && Object.values(value).every(isText);
const hasFields = (value: object) => Object.keys(value).length > 0;
const isPolicy = (value: unknown) => value === 'Delete' || value === 'Retain';

interface SmallKind {
  required: readonly string[];
  fields: Readonly<Record<string, (value: unknown) => boolean>>;
}

const SNAPSHOT_CLASS: SmallKind = {
  required: ['driver', 'deletionPolicy'],
  fields: { driver: isText, deletionPolicy: isPolicy, parameters: isTextMap },
};
const SMALL_KINDS: Readonly<Record<string, SmallKind>> = {
  'snapshot.storage.k8s.io/v1 VolumeSnapshotClass': SNAPSHOT_CLASS,
  'groupsnapshot.storage.k8s.io/v1 VolumeGroupSnapshotClass': SNAPSHOT_CLASS,
  'snapshot.storage.k8s.io/v1 VolumeSnapshot': {
    required: ['spec'],
    fields: {
      spec: (value) => {
        const { volumeSnapshotClassName, source, ...rest } = value as Record<string, unknown>;
        return isText(volumeSnapshotClassName) && isTextMap(source) && !hasFields(rest);
      },
    },
  },
  'cbt.storage.k8s.io/v1beta1 SnapshotMetadataService': {
    required: ['spec'],
    fields: {
      spec: (value) => {
        const { address, audience, caCert, ...rest } = value as Record<string, unknown>;
        return (
          [address, audience, caCert].every(isText) && /^[A-Za-z0-9+/]+={0,2}$/.test(String(caCert)) && !hasFields(rest)
        );
      },
    },
  },
};

/** What is wrong with a manifest, one sentence each; empty: it is valid. */
async function problemsOf(manifest: Manifest): Promise<string[]> {
  const { apiVersion, kind } = manifest;
  const title = `${kind} ${manifest.metadata?.name}`;
  const small = SMALL_KINDS[`${apiVersion} ${kind}`];
  if (small !== undefined) return problemsOfSmall(manifest, small, title);
  const file = packagePath(`node_modules/${SCHEMAS[apiVersion]}${kind}.js`);
  if (SCHEMAS[apiVersion] === undefined || !existsSync(file)) {
    return [`${title}: no schema of ${apiVersion} ${kind}`];
  }
  const { validate } = (await import(pathToFileURL(file).href)) as { validate: Validator };
  const unread = new Set<string>();
  const valid = validate(watched(manifest, '', unread));
  const errors = valid ? [] : (validate.errors ?? []);
  return [
    ...errors.map(
      ({ instancePath, keyword, params }) =>
        `${title}: ${instancePath || '/'} breaks ${keyword} ${JSON.stringify(params)}`,
    ),
    ...[...unread].map((path) => `${title}: ${path} is not in the schema`),
  ];
}

export async function assertValid(manifests: readonly Manifest[]): Promise<void> {
  assert.deepEqual((await Promise.all(manifests.map(problemsOf))).flat(), []);
}

function problemsOfSmall(manifest: Manifest, kind: SmallKind, title: string): string[] {
  const { apiVersion: _version, kind: _kind, metadata: _metadata, ...fields } = manifest;
  const missing = kind.required.filter((name) => fields[name] === undefined);
  const wrong = Object.entries(fields).filter(([name, value]) => !kind.fields[name]?.(value));
  return [
    ...missing.map((name) => `${title}: /${name} is missing`),
    ...wrong.map(([name]) => `${title}: /${name} is not in the schema, or its value is wrong`),
  ];
}

/** A view of a value that removes from `unread` the path of each field that somebody reads. */
function watched(value: unknown, path: string, unread: Set<string>): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const children = new Map<string, unknown>();
  for (const [key, child] of Object.entries(value)) {
    if (!Array.isArray(value)) unread.add(`${path}/${key}`);
    children.set(key, watched(child, `${path}/${key}`, unread));
  }
  return new Proxy(value, {
    get(target, key) {
      if (typeof key === 'string' && children.has(key)) {
        unread.delete(`${path}/${key}`);
        return children.get(key);
      }
      return Reflect.get(target, key);
    },
  });
}
