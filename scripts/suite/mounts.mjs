/**
 * A mount namespace for the processes of one job: no job sees or holds the mounts of another, not even in a
 * copy of its namespace. Where that is not allowed, all share one.
 */
import { spawnSync } from 'node:child_process';
import { closeSync, openSync, readlinkSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const UNSHARE = ['unshare', '--mount', '--propagation', 'private'];
const isAllowed = spawnSync(UNSHARE[0], [...UNSHARE.slice(1), 'true'], { stdio: 'ignore' }).status === 0;

/** The command, which runs in a mount namespace of its own. */
export function isolated(command) {
  return isAllowed ? [...UNSHARE, ...command] : command;
}

export class MountNamespace {
  #file;

  /** Of a process that has been started by such a command. */
  constructor(child) {
    this.ready = this.#open(child);
  }

  /** Resolves once the process is in its own, which is held until close(), or has ended. */
  async #open(child) {
    const isRunning = () => child.exitCode === null && child.signalCode === null;
    for (const path = `/proc/${child.pid}/ns/mnt`; isAllowed && isRunning(); await delay(2)) {
      try {
        if (readlinkSync(path) === readlinkSync('/proc/self/ns/mnt')) continue;
        this.#file = openSync(path);
        return;
      } catch {
        // It has just ended.
      }
    }
  }

  /** What a command begins with that runs inside. */
  get enter() {
    return this.#file === undefined ? [] : ['nsenter', `--mount=/proc/${process.pid}/fd/${this.#file}`];
  }

  close() {
    if (this.#file !== undefined) closeSync(this.#file);
  }
}
