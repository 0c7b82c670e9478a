/**
 * Runs in the guest: lives a history of the plugin on each disk, lets the kernel log all writes to it, and writes
 * down what was acknowledged when.
 *
 *   record.js LENGTH DIRECTORY NAME=DISK,LOG...
 *
 * LENGTH is `short`, or a number of random calls. DISK has a file system, and LOG is another disk, for the log. The
 * entries are DIRECTORY/NAME.json. State and pool lie on the same disk, as they do unless told otherwise.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sendDeviceMapperMessage } from '../support/ioctls.js';
import { seededRandom } from '../support/random.js';
import { startOn } from './plugin-on-disk.js';
import { PoolLife } from './pool-life.js';
import type { Entry } from './promises.js';

const [length = '', directory = '', ...disks] = process.argv.slice(2);
execFileSync('modprobe', ['-a', 'loop', 'xfs', 'btrfs', 'dm-log-writes']);
const control = openSync('/dev/mapper/control', 'r+');
for (const each of disks) {
  const [name = '', disk = '', log = ''] = each.split(/[=,]/);
  const mountPoint = `/run/${name}`;
  const sectors = execFileSync('blockdev', ['--getsz', disk], { encoding: 'utf8' }).trim();
  execFileSync('dmsetup', ['create', name, '--table', `0 ${sectors} log-writes ${disk} ${log}`]);
  mkdirSync(mountPoint);
  execFileSync('mount', [`/dev/mapper/${name}`, mountPoint]);
  const entries: Entry[] = [];
  const acknowledged = (entry: Entry): void => {
    sendDeviceMapperMessage(control, name, `mark ${entries.length}`);
    entries.push(entry);
  };
  const pool = join(mountPoint, 'pool');
  mkdirSync(pool);
  mkdirSync(join(mountPoint, 'state'));
  execFileSync('sync', ['--file-system', mountPoint]);
  acknowledged({ kind: 'other', what: 'the directories are durable' });
  const paths = `${mountPoint}.paths`;
  mkdirSync(paths);
  const { plugin, orchestrator } = await startOn(mountPoint, paths);
  const random = seededRandom(`power cuts of ${name}`);
  const life = new PoolLife(orchestrator, plugin.client, pool, random, acknowledged);
  if (length === 'short') await life.short();
  else await life.long(Number(length));
  writeFileSync(join(directory, `${name}.json`), JSON.stringify(entries));
  console.log(`${name}: ${entries.length} entries`);
}
// The disks go as they are: what the plugin would do to stop is no part of the history.
process.exit(0);
