/** The plugin of a disk with state and pool on it, in the guest that records and on the host that replays. */
import { join } from 'node:path';
import { Orchestrator } from '../support/orchestrator.js';
import { PluginHere } from '../support/plugin-here.js';

/** Far above what a call takes in a guest on a busy machine. */
const DEADLINE_MS = 1_200_000;

/** @param directory for the socket and the paths of volumes, outside of the disk */
export async function startOn(mountPoint: string, directory: string) {
  const env = {
    BLOCKDELTA_STATE_DIR: join(mountPoint, 'state'),
    BLOCKDELTA_SCAN_THREADS: '1',
    BLOCKDELTA_DEVICE_THREADS: '1',
  };
  const pools = `main=${join(mountPoint, 'pool')}`;
  const place = { path: (...names: string[]) => join(directory, ...names) };
  const plugin = await PluginHere.start(place, { pools, env }, DEADLINE_MS);
  return { plugin, orchestrator: new Orchestrator(place, () => plugin.client) };
}
