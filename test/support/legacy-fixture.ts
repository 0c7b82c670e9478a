/** A plugin that serves CSI 0.3 and 0.1 beside v1, with clients of both, for all tests of a file. */
import { after } from 'node:test';
import { LegacyClient, type OldVersion } from './legacy-client.js';
import { type RunningPlugin, type RunningPluginOptions, runPlugin } from './running-plugin.js';
import { Workspace } from './workspace.js';

/** `staging`: BLOCKDELTA_LEGACY_STAGING_DIR. */
export function runLegacyPlugin(label: string, options: Pick<RunningPluginOptions, 'poolSizeMiB' | 'env'> = {}) {
  // CSI allows nothing beside the socket, which is in the plugin's workspace.
  const staged = new Workspace(`${label}-staged`);
  const staging = staged.path('staging');
  const clients = new Map<OldVersion, LegacyClient>();
  // Hooks run in this order. What a failed test leaves in the staging directory keeps the plugin's pool busy.
  after(async () => {
    for (const client of clients.values()) client.close();
    await running.endPlugin();
    staged.dispose();
  });
  const running: RunningPlugin = runPlugin(label, {
    ...options,
    pools: { main: 'xfs' },
    env: {
      BLOCKDELTA_LEGACY_CSI: '0.3,0.1',
      BLOCKDELTA_LEGACY_STAGING_DIR: staging,
      BLOCKDELTA_CONTROLLER_PUBLISH: 'on',
      ...options.env,
    },
    prepare: ({ plugin: { endpoint } }) => {
      for (const version of ['0.3', '0.1'] as const) {
        clients.set(version, new LegacyClient(endpoint, version));
      }
    },
  });
  const clientOf = (version: OldVersion): LegacyClient => {
    const client = clients.get(version);
    if (client === undefined) throw new Error('no plugin is running');
    return client;
  };
  return { running, staging, clientOf };
}
