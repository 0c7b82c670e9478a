/** deploy/kubernetes renders, and every object is valid by the published schemas. */
import assert from 'node:assert/strict';
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { packagePath } from '../../../src/base/package-root.js';
import { type Manifest, problemsOf, render, skipWithoutKubectl } from '../../support/manifests.js';

const ROOT = 'deploy/kubernetes';
const OVERLAYS = readdirSync(packagePath(`${ROOT}/overlays`));
const skip = skipWithoutKubectl;

async function assertValid(manifests: readonly Manifest[]): Promise<void> {
  const problems = await Promise.all(manifests.map(problemsOf));
  assert.deepEqual(problems.flat(), []);
}

test('there is an overlay for every way to deploy', () => {
  assert.deepEqual(OVERLAYS.sort(), [
    'complete',
    'directory',
    'embedded',
    'group-snapshots',
    'single-node',
    'snapshot-metadata',
    'thin',
  ]);
});

for (const overlay of OVERLAYS) {
  test(`overlay ${overlay} renders, and every object of it is valid`, { skip }, async () => {
    const manifests = render(`${ROOT}/overlays/${overlay}`);
    assert.ok(manifests.length > 20);
    await assertValid(manifests);
    const names = manifests.map(
      ({ apiVersion, kind, metadata }) =>
        `${apiVersion} ${kind} ${metadata.namespace}/${metadata.name}`,
    );
    assert.equal(new Set(names).size, names.length);
  });
}

test('components combine freely: each way, each pool, with all extras and with none', {
  skip,
}, async (t) => {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'blockdelta-overlays-')));
  t.after(() => rmSync(directory, { recursive: true }));
  const root = relative(directory, packagePath(ROOT));
  const extras = ['snapshot-metadata', 'group-snapshots', 'pod-io-limits', 'monitoring'];
  for (const way of ['router', 'single-node']) {
    for (const pool of ['pool-directory', 'pool-embedded', 'pool-thin']) {
      for (const chosen of [[], extras, [...extras].reverse()]) {
        const components = [way, pool, ...chosen].map((name) => `${root}/components/${name}`);
        const text = { resources: [`${root}/base`], components };
        writeFileSync(join(directory, 'kustomization.yaml'), JSON.stringify(text));
        await assertValid(render(directory));
      }
    }
  }
});

test('every component is used by an overlay', () => {
  const used = OVERLAYS.flatMap((overlay) => componentsOf(`overlays/${overlay}`));
  assert.deepEqual(
    [...new Set(used)].sort(),
    readdirSync(packagePath(`${ROOT}/components`)).sort(),
  );
});

test('the base and the components have no file that nothing refers to', () => {
  for (const directory of ['base', ...componentDirectories()]) {
    const { resources = [], patches = [] } = kustomization(directory);
    const named = [...resources, ...patches.map(({ path }) => path)];
    const files = readdirSync(packagePath(`${ROOT}/${directory}`));
    assert.deepEqual(named.sort(), files.filter((file) => file !== 'kustomization.yaml').sort());
  }
});

const CONTAINER = 'spec.template.spec.containers.0';
/** What is wrong, in which kind of object, the field that gets another value, and what is said. */
const WRONG: readonly [string, string, string, unknown, RegExp][] = [
  [
    'a misspelled field of a container',
    'DaemonSet',
    `${CONTAINER}.volumeMount`,
    [],
    /0\/volumeMount is not in/,
  ],
  [
    'a field at the wrong depth',
    'DaemonSet',
    'spec.mountPropagation',
    'x',
    /spec\/mountPropagation is not in/,
  ],
  ['a number where text belongs', 'Deployment', `${CONTAINER}.args`, [1], /0\/args\/0 breaks type/],
  ['a missing selector', 'Deployment', 'spec.selector', undefined, /selector/],
  ['an unknown field', 'CSIDriver', 'spec.attachIsRequired', false, /attachIsRequired is not in/],
  [
    'a parameter that is no text',
    'VolumeAttributesClass',
    'parameters.readAheadKiB',
    1,
    /KiB breaks type/,
  ],
  ['an unknown field', 'Certificate', 'spec.dnsName', 'x', /spec\/dnsName is not in/],
  ['an unknown field', 'PodMonitor', 'spec.podMetricsEndpoints.0.ports', 'x', /0\/ports is not in/],
  [
    'a policy that does not exist',
    'VolumeGroupSnapshotClass',
    'deletionPolicy',
    'Keep',
    /deletionPolicy is not in/,
  ],
  ['a missing authority', 'SnapshotMetadataService', 'spec.caCert', undefined, /spec is not in/],
  ['a kind that does not exist', 'CSIDriver', 'kind', 'CSIDrivers', /no schema/],
];
let complete: Manifest[] | undefined;
for (const [what, kind, path, value, problem] of WRONG) {
  test(`${what} of a ${kind} is found`, { skip }, async () => {
    complete ??= render(`${ROOT}/overlays/complete`);
    const found = complete.find((manifest) => manifest.kind === kind);
    const manifest = structuredClone(found ?? assert.fail(kind));
    const names = path.split('.');
    const last = names.pop() ?? '';
    // biome-ignore lint/suspicious/noExplicitAny: manifests have any shape
    const holder = names.reduce((object: any, name) => object[name], manifest);
    holder[last] = value;
    const problems = await problemsOf(manifest);
    const isFound = problems.some((text) => problem.test(text));
    assert.ok(isFound, problems.join('\n') || 'nothing was found');
  });
}

interface Kustomization {
  resources?: string[];
  components?: string[];
  patches?: { path: string }[];
}

function kustomization(directory: string): Kustomization {
  const file = packagePath(`${ROOT}/${directory}/kustomization.yaml`);
  return parse(readFileSync(file, 'utf8')) as Kustomization;
}

function componentsOf(directory: string): string[] {
  return (kustomization(directory).components ?? []).map((path) => path.split('/').at(-1) ?? '');
}

function componentDirectories(): string[] {
  return readdirSync(packagePath(`${ROOT}/components`)).map((name) => `components/${name}`);
}
