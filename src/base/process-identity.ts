/** Whether a process still runs: by its id and its start, because ids are used again, soonest in containers. */
import { readFileSync } from 'node:fs';

export interface ProcessIdentity {
  pid: number;
  /** In clock ticks since the system booted, as /proc/PID/stat has it (proc_pid_stat(5), field 22). */
  started: string;
}

/** Fields behind the name, which is in parentheses and may contain any character. */
const STARTED = 22 - 3;

export function ownIdentity(): ProcessIdentity {
  return { pid: process.pid, started: startOf(process.pid) ?? '' };
}

export function isRunning({ pid, started }: ProcessIdentity): boolean {
  return startOf(pid) === started;
}

/** Null: there is no such process. */
function startOf(pid: number): string | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return text.slice(text.lastIndexOf(')') + 2).split(' ')[STARTED] ?? null;
  } catch {
    return null;
  }
}
