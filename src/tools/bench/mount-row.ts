/** Rows lifecycle-mount*: publish a formatted XFS volume and take it back, beside a shell script with the same tools. */
import type { MeasuredDriver } from './measured-driver.js';
import { XFS } from './measured-volumes.js';
import type { Row } from './row.js';
import { run } from './run.js';
import { median } from './statistics.js';
import { type Settings, shuffledRounds } from './suite.js';

const CYCLES = { full: 10, tiny: 1 } as const;
/** mkfs.xfs makes no file system below 300 MiB. */
const VOLUME_BYTES = 320 * 2 ** 20;
const SCRIPT = `
set -e
device=$(losetup --find --show --direct-io=on "$1" 2>/dev/null || losetup --find --show "$1")
mkdir -p "$2" "$3"
mount -t xfs "$device" "$2"
mount --bind "$2" "$3"
umount "$3"
rmdir "$3"
umount "$2"
losetup --detach "$device"
`;

/**
 * @param directory holds the script's image file: the pool, or the workspace for another vendor's driver
 * @param beside what else is on the node; nothing of note by default
 */
export async function mountRow(
  settings: Settings,
  { workspace, volumes }: Pick<MeasuredDriver, 'workspace' | 'volumes'>,
  directory: string,
  beside: { name: 'lifecycle-mount' | 'lifecycle-mount-neighbours'; words: string } = {
    name: 'lifecycle-mount',
    words: '',
  },
): Promise<Row> {
  const volume = await volumes.create(XFS, VOLUME_BYTES);
  const file = `${directory}/shell.img`;
  await run('truncate', ['-s', String(VOLUME_BYTES), file], { check: true });
  await run('mkfs.xfs', ['-q', '-f', file], { check: true });
  const shell = async (): Promise<void> => {
    const places = [workspace.path('shell-staging'), workspace.path('shell-target')];
    await run('sh', ['-c', SCRIPT, 'sh', file, ...places], { check: true });
  };
  const calls = async (): Promise<void> => {
    await volumes.stage(volume);
    await volumes.publish(volume);
    await volumes.unpublish(volume);
    await volumes.unstage(volume);
  };
  // The first stage formats the volume.
  for (const each of [calls, shell, calls, shell]) await each();
  const found = await shuffledRounds(settings, [calls, shell], async (contender) => {
    const times: number[] = [];
    for (let cycle = 0; cycle < CYCLES[settings.size]; cycle += 1) {
      const started = performance.now();
      await contender();
      times.push(performance.now() - started);
    }
    return median(times);
  });
  await volumes.deleteVolume(volume);
  return {
    name: beside.name,
    measures: `stage, publish, unpublish and unstage of a formatted xfs volume${beside.words}, beside losetup, mount and umount by a shell script`,
    ours: { label: 'four calls', unit: 'ms', rounds: found.get(calls) ?? [] },
    peer: { label: 'shell script', unit: 'ms', rounds: found.get(shell) ?? [] },
    facts: { 'cycles a round': CYCLES[settings.size], 'volume MiB': VOLUME_BYTES / 2 ** 20 },
  };
}
