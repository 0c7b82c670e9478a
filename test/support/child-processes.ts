/** Child processes: their end, and those that they have started themselves. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';

/** Resolves when it has ended, by this signal if it still runs. */
export async function end(child: ChildProcess, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill(signal);
  await once(child, 'exit');
}

/** kill -9 of its child processes of that name. */
export function killChildren(parent: ChildProcess | undefined, name: string): void {
  const tasks = `/proc/${parent?.pid}/task`;
  const children = readdirSync(tasks).map((task) => procText(`${tasks}/${task}/children`));
  for (const child of children.join(' ').split(/ +/)) {
    if (procText(`/proc/${child}/comm`).trim() === name.slice(0, 15)) process.kill(Number(child), 'SIGKILL');
  }
}

/** A file of /proc or /sys; empty if its object is gone. */
export function procText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
