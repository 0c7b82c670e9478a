/** The memory of nbdkit and nbdcopy while they pull. */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const KIB = 2 ** 10;

/** The sum of the most that nbdkit and nbdcopy have used at once, each, MiB. */
export function watchPrograms(directory: string): { stop(): Promise<number> } {
  const most = new Map<string, number>();
  let isOver = false;
  const watching = (async () => {
    while (!isOver) {
      for (const pid of readdirSync('/proc')) look(pid, directory, most);
      await delay(50);
    }
  })();
  return {
    async stop() {
      isOver = true;
      await watching;
      return [...most.values()].reduce((sum, each) => sum + each, 0);
    },
  };
}

function look(pid: string, directory: string, most: Map<string, number>): void {
  try {
    const name = readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
    if (name !== 'nbdkit' && name !== 'nbdcopy') return;
    if (!readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(directory.split('/').at(-1) ?? directory)) return;
    const [, kib] = /^VmHWM:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    most.set(name, Math.max(most.get(name) ?? 0, Number(kib ?? 0) / KIB));
  } catch {
    // It has ended, or the entry is no process.
  }
}
