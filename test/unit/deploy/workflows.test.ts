/** .github/workflows: what forges run is YAML, and calls commands of the checkout that exist. */
import assert from 'node:assert/strict';
import { accessSync, constants, readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parse } from 'yaml';
import { packagePath } from '../../../src/base/package-root.js';

const DIRECTORY = packagePath('.github/workflows');

interface Workflow {
  permissions: Record<string, string>;
  jobs: Record<string, { steps: { run?: string; uses?: string }[] }>;
}

const workflows = new Map(
  readdirSync(DIRECTORY).map((name) => [name, parse(readFileSync(`${DIRECTORY}/${name}`, 'utf8')) as Workflow]),
);

const steps = (name: string): { run?: string; uses?: string }[] =>
  Object.values(workflows.get(name)?.jobs ?? {}).flatMap((job) => job.steps);

for (const [name, { permissions }] of workflows) {
  test(`every command that ${name} runs exists, and it may change nothing`, () => {
    const commands = steps(name).flatMap(({ run = '' }) => run.split('\n').filter(Boolean));
    const own = commands.map((line) => line.split(' ')[0] ?? '').filter((word) => word !== 'git');
    assert.ok(own.length > 0);
    for (const command of own) accessSync(packagePath(command), constants.X_OK);
    assert.deepEqual(permissions, { contents: 'read' });
  });
}

const calls = (name: string): string[] => steps(name).flatMap(({ run }) => run ?? []);

test('a change runs .ci/run, a night and a week their tests, and a tag makes a release', () => {
  assert.ok(calls('ci.yml').includes('.ci/run'));
  assert.ok(calls('nightly.yml').includes('scripts/test --nightly'));
  assert.ok(calls('weekly.yml').includes('scripts/test --weekly'));
  assert.ok(calls('release.yml').includes('scripts/release --out release-files'));
  const uses = steps('release.yml').flatMap(({ uses: action }) => action ?? []);
  assert.deepEqual(uses, ['actions/checkout@v4', 'actions/upload-artifact@v4'], 'uploads no more');
});
