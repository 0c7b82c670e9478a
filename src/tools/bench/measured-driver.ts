/** The driver that a suite measures: the one at the endpoint, or this plugin on an XFS pool. */
import { CsiDriver } from '../client/csi-driver.js';
import { Volumes } from './measured-volumes.js';
import { PluginProcess } from './plugin-process.js';
import { makePool, requireRoot } from './pool.js';
import type { Settings } from './suite.js';
import { Workspace } from './workspace.js';

export interface MeasuredDriver {
  /** Names the driver in the facts of a row. */
  label: string;
  workspace: Workspace;
  driver: CsiDriver;
  volumes: Volumes;
}

/** @param label the label of the workspace */
export async function measuredDriver(settings: Settings, label: string): Promise<MeasuredDriver> {
  const workspace = Workspace.make(settings, label);
  const { socketPath, cleanup, reach } = settings;
  if (socketPath === null) {
    requireRoot();
    const pool = await makePool(workspace, 'xfs');
    const env = { BLOCKDELTA_POOLS: `bench=${pool}` };
    const { driver } = await PluginProcess.start(settings, workspace, { env });
    const volumes = new Volumes(settings, driver, workspace);
    return { label: 'this plugin on XFS', workspace, driver, volumes };
  }
  // An interrupt ends the measurements, but not the calls that remove the volumes and snapshots.
  const driver = new CsiDriver(socketPath, new AbortController().signal, reach);
  cleanup.defer(() => driver.close());
  const volumes = new Volumes(settings, driver, workspace);
  return { label: `unix://${socketPath}`, workspace, driver, volumes };
}
