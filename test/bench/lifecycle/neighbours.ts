/** Makes a node busy: many loop devices and mounts of others. The workspace takes them away. */
import { mkdirSync } from 'node:fs';
import { run } from '../../../src/tools/bench/run.js';
import type { Settings } from '../../../src/tools/bench/suite.js';
import type { Workspace } from '../../../src/tools/bench/workspace.js';

export const NEIGHBOURS = { full: { loops: 300, mounts: 1000 }, tiny: { loops: 3, mounts: 10 } } as const;

const SCRIPT = `
set -e
truncate -s 1M "$1/file"
attach() { losetup --find --read-only "$1"; }
# The node of a new device may come a moment after its number.
for i in $(seq "$2"); do attach "$1/file" || { sleep 1; attach "$1/file"; }; done
for i in $(seq "$3"); do mkdir "$1/mounts/$i"; mount --bind "$1/mounts/$i" "$1/mounts/$i"; done
`;

export async function addNeighbours({ size }: Pick<Settings, 'size'>, workspace: Workspace): Promise<void> {
  const { loops, mounts } = NEIGHBOURS[size];
  mkdirSync(workspace.path('neighbours', 'mounts'), { recursive: true });
  const args = ['-c', SCRIPT, 'sh', workspace.path('neighbours'), String(loops), String(mounts)];
  await run('sh', args, { check: true });
}
