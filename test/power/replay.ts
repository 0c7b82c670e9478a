/**
 * Goes through the recording of a history from power cut to power cut, and prints what it found:
 *
 *   unshare --mount --propagation private node replay.js DIRECTORY NAME MOUNT-OPTIONS CUTS
 *
 * DIRECTORY has NAME.img, the disk before the first write that was logged, NAME.log and NAME.json, the entries. Of
 * the moments at which the disk has flushed or a call is acknowledged, CUTS are taken, evenly spread, or all.
 *
 * A process of its own with mounts that nobody else sees: a mount namespace that another program makes meanwhile
 * would keep a copy of the disk in use.
 */
import { execFileSync } from 'node:child_process';
import { constants, copyFileSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Random } from '../support/random.js';
import { checkCut, type Figures } from './power-cut.js';
import { type Entry, Promises } from './promises.js';
import { applyEntries, type LogEntry, readWriteLog } from './write-log.js';

const [directory = '', name = '', mountOptions = '', cuts = ''] = process.argv.slice(2);
const figures: Figures = { cuts: 0, snapshots: 0, lists: 0, fromDeleted: 0, expired: 0 };

// Copies of the disk share its blocks, and flushes of them cost nothing in memory.
const [memory, host] = [join(directory, 'memory'), join(directory, 'host')];
for (const place of [memory, host]) mkdirSync(place, { recursive: true });
run('mount', '-t', 'tmpfs', '-o', 'size=2G', 'memory', memory);
const hostImage = join(memory, 'host.img');
run('truncate', '--size', '1G', hostImage);
run('mkfs.xfs', '-q', hostImage);
run('mount', '-o', 'loop', hostImage, host);
const image = join(host, 'disk.img');
run('cp', '--sparse=always', join(directory, `${name}.img`), image);
await checkCuts(Number(cuts));
for (const place of [host, memory]) run('umount', place);
console.log(JSON.stringify(figures));
process.exit(0);

async function checkCuts(atMost: number): Promise<void> {
  const logPath = join(directory, `${name}.log`);
  const log = readWriteLog(logPath);
  const entries = JSON.parse(readFileSync(join(directory, `${name}.json`), 'utf8')) as Entry[];
  const chosen = new Set(spread(moments(log), atMost));
  let before = Promises.none();
  let acknowledged = 0;
  let unflushed: LogEntry[] = [];
  let checked = 0;
  for (const [index, entry] of log.entries()) {
    const done = entries[acknowledged];
    if (entry.mark === null) unflushed.push(entry);
    else if (done !== undefined) {
      before = before.with(done);
      acknowledged += 1;
    }
    const running = entries[acknowledged] ?? null;
    const after = running === null ? before : before.with(running);
    const check = async (lucky: readonly LogEntry[]): Promise<void> => {
      const copy = `${image}.cut`;
      copyFileSync(image, copy, constants.COPYFILE_FICLONE_FORCE);
      applyEntries(logPath, copy, lucky);
      try {
        await checkCut(directory, { image: copy, mountOptions, before, running, after }, figures);
      } catch (thrown) {
        const at = `entry ${index} of the log, during ${JSON.stringify(running)}`;
        throw new Error(`a power cut at ${at}, with ${lucky.length} unflushed writes`, { cause: thrown });
      }
    };
    const isChosen = chosen.has(index);
    if (isChosen) checked += 1;
    // What was written before this flush had begun may have reached the disk, or not.
    if (isChosen && unflushed.length > 1 && checked % 3 === 0) {
      const random = new Random(index);
      await check(unflushed.filter(() => random.below(2) === 0));
    }
    if (entry.isDurable) {
      applyEntries(logPath, image, unflushed);
      unflushed = [];
    }
    if (isChosen) await check([]);
  }
}

/** After these entries a disk holds something else than before, or an acknowledgement is new. */
function moments(log: readonly LogEntry[]): number[] {
  const found: number[] = [];
  let isChanged = false;
  for (const [index, { mark, bytes, isDurable }] of log.entries()) {
    isChanged ||= bytes > 0;
    if (mark === null && !(isDurable && isChanged)) continue;
    found.push(index);
    isChanged = false;
  }
  return found.slice(found.findIndex((index) => log[index]?.mark === '0'));
}

function spread(all: readonly number[], atMost: number): number[] {
  const stride = Math.max(1, all.length / atMost);
  return all.filter((_, at) => Math.floor(at / stride) !== Math.floor((at - 1) / stride));
}

function run(program: string, ...args: string[]): void {
  execFileSync(program, args);
}
