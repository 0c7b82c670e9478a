/** BLOCKDELTA_LEGACY_CSI: which interfaces before v1 are served, and that a plugin without it loads none. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { StatusCode } from '../../src/base/errors.js';
import { packagePath } from '../../src/base/package-root.js';
import { Plugin } from '../support/plugin.js';
import { RawConnection } from '../support/raw-call.js';
import { test } from '../support/running-plugin.js';
import { Workspace } from '../support/workspace.js';

interface Descriptor {
  package: string;
  services: Record<string, { rpcs: Record<string, unknown> }>;
}

/** The paths of every RPC of a version, from its descriptor. */
function pathsOf(version: string): string[] {
  const file = packagePath(`test/fixtures/csi-descriptor-${version}.json`);
  const { package: name, services } = JSON.parse(readFileSync(file, 'utf8')) as Descriptor;
  return Object.entries(services).flatMap(([service, { rpcs }]) =>
    Object.keys(rpcs).map((rpc) => `/${name}.${service}/${rpc}`),
  );
}

/** Which of the RPCs are served at all: an empty request is wrong for most of them. */
async function servedOf(paths: readonly string[], plugin: Plugin): Promise<string[]> {
  const connection = new RawConnection(plugin.endpoint);
  try {
    const codes = await Promise.all(
      paths.map((path) =>
        connection.unary(path, Buffer.alloc(0)).then(
          () => StatusCode.OK,
          (error: { code: number }) => error.code,
        ),
      ),
    );
    return paths.filter((_path, index) => codes[index] !== StatusCode.UNIMPLEMENTED);
  } finally {
    connection.close();
  }
}

/** Starts a plugin, asks it for every RPC of both versions, stops it, and lists the files of JavaScript it ran. */
async function run(
  t: TestContext,
  setting: string | null,
): Promise<{ served: string[]; loaded: string[] }> {
  const workspace = new Workspace('legacy-setting');
  t.after(() => workspace.dispose());
  const coverage = workspace.path('coverage');
  mkdirSync(coverage);
  const plugin = await Plugin.start(workspace, {
    env: {
      NODE_V8_COVERAGE: coverage,
      BLOCKDELTA_CONTROLLER_PUBLISH: 'on',
      ...(setting === null ? {} : { BLOCKDELTA_LEGACY_CSI: setting }),
    },
  });
  t.after(() => plugin.kill());
  const served = await servedOf([...pathsOf('0.3'), ...pathsOf('0.1')], plugin);
  assert.equal(await plugin.stop(), 0);
  const loaded = readdirSync(coverage).flatMap((name) => {
    const { result } = JSON.parse(readFileSync(join(coverage, name), 'utf8')) as {
      result: { url: string }[];
    };
    return result.map(({ url }) => url);
  });
  assert.ok(loaded.some((url) => url.endsWith('/src/plugin/server.js')));
  return { served, loaded: loaded.filter((url) => url.includes('/src/legacy/')) };
}

test('without the setting the old services are UNIMPLEMENTED, and what loads their protos is not loaded', async (t) => {
  assert.deepEqual(await run(t, null), { served: [], loaded: [] });
});

for (const [setting, versions] of [
  ['0.3', ['0.3']],
  ['0.1', ['0.1']],
  ['0.1,0.3', ['0.3', '0.1']],
] as const) {
  test(`with ${setting} every RPC of ${versions.join(' and ')} is served, and no other of the two`, async (t) => {
    const { served, loaded } = await run(t, setting);
    assert.deepEqual(served, versions.flatMap(pathsOf));
    assert.ok(loaded.length > 0);
  });
}
