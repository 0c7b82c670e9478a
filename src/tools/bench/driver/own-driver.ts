/** This plugin as the driver that is measured, on an XFS pool in an image of the workspace. */
import { mkdirSync } from 'node:fs';
import { findProgram, isMissing } from '../peers.js';
import { PluginProcess } from '../plugin-process.js';
import { run } from '../run.js';
import type { Settings } from '../suite.js';
import type { Workspace } from '../workspace.js';

/** Sparse: only what the volumes hold takes room. */
const POOL_SIZE = '32G';

/** Resolves to its endpoint. */
export async function ownDriver(settings: Settings, workspace: Workspace): Promise<string> {
  if (process.getuid?.() !== 0)
    throw new Error('root is needed for a pool of our own, or --endpoint');
  const mkfs = findProgram('mkfs.xfs');
  if (isMissing(mkfs)) throw new Error(mkfs.missing);
  const image = workspace.path('pool.img');
  const pool = workspace.path('pool');
  mkdirSync(pool);
  const check = { check: true };
  await run('truncate', ['-s', POOL_SIZE, image], check);
  await run(mkfs.program, ['-q', '-f', '-m', 'reflink=1', image], check);
  await run('mount', ['-o', 'loop', image, pool], check);
  const plugin = await PluginProcess.start(settings, workspace, {
    env: { BLOCKDELTA_POOLS: `bench=${pool}` },
  });
  return plugin.endpoint;
}
