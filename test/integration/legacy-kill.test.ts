/**
 * kill -9 of the plugin between any two calls of a volume's life over CSI 0.3 and 0.1: the next call works, and so
 * does a repetition of the one before, and nothing is left in the end.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { after } from 'node:test';
import { LegacyClient } from '../support/legacy-client.js';
import { LegacyLife } from '../support/legacy-life.js';
import { Plugin } from '../support/plugin.js';
import { test } from '../support/running-plugin.js';
import { loopsBelow, makePoolFileSystem, mountsBelow, Workspace } from '../support/workspace.js';

const ends: (() => Promise<void> | void)[] = [];

after(async () => {
  for (const end of ends.reverse()) await end();
});

const CASES = (['0.3', '0.1'] as const).flatMap((version) =>
  (['mount', 'block'] as const).flatMap((access) => [
    { version, access, repeats: false },
    // The orchestrator does not know whether its call was answered.
    { version, access, repeats: true },
  ]),
);

for (const { version, access, repeats } of CASES) {
  test(`CSI ${version}: a ${access} volume lives through a kill of the plugin after each call, ${repeats ? 'which is repeated' : 'and the next one'}`, async () => {
    const workspace = new Workspace(`legacy-kill-${version}-${access}`);
    ends.push(() => workspace.dispose());
    const pool = makePoolFileSystem(workspace, 'xfs');
    const staged = new Workspace('legacy-kill-staged');
    ends.push(() => staged.dispose());
    const staging = staged.path('staging');
    let plugin: Plugin | null = null;
    let client: LegacyClient | null = null;
    const end = async (): Promise<void> => {
      client?.close();
      await plugin?.kill();
    };
    ends.push(end);
    const start = async (): Promise<void> => {
      plugin = await Plugin.start(workspace, {
        pools: `main=${pool}`,
        env: {
          BLOCKDELTA_LEGACY_CSI: version,
          BLOCKDELTA_LEGACY_STAGING_DIR: staging,
          BLOCKDELTA_CONTROLLER_PUBLISH: 'on',
        },
      });
      client = new LegacyClient(plugin.endpoint, version);
    };
    await start();
    const life = new LegacyLife(
      workspace,
      () => {
        assert.ok(client !== null);
        return client;
      },
      access,
    );
    let kills = 0;
    for (const { name, isRpc, run } of life.steps) {
      const answer = await run();
      if (!isRpc) continue;
      await end();
      await start();
      kills += 1;
      if (repeats) assert.deepEqual(await run(), answer, name);
    }
    assert.ok(kills >= 6);
    assert.deepEqual(mountsBelow(workspace.path('old')), []);
    assert.deepEqual(mountsBelow(staging), []);
    assert.deepEqual(existsSync(staging) ? readdirSync(staging) : [], []);
    assert.deepEqual(loopsBelow(pool), []);
  });
}
