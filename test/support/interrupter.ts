/**
 * Simulates the death of a process between two steps of a change: calls from a backend to the kernel and to
 * its ledger never return after the chosen step. Another backend on the same pool is the next process.
 *
 * A step is whatever changes something outside: one message to a pool, one device made, one record
 * written. A call of several steps (messages, a group snapshot) is stopped between them, too.
 */
import type { NewThinSnapshot } from '../../src/native/dm-addon.js';
import type { NativeRunner, UnaryMethod } from '../../src/native/pool.js';

/** Read-only calls, which are not steps. */
const ASKING: readonly string[] = [
  'dmVersion',
  'dmHasTarget',
  'dmFind',
  'dmList',
  'dmWait',
  'thinPoolStatus',
  'thinStatus',
  'thinSuperblock',
  'thinDevices',
  'device',
  'devices',
  'openTransaction',
  'isInitialized',
  'bookmarks',
  'bookmark',
  'pool',
];

type Run = (method: UnaryMethod, request: unknown) => Promise<object>;

export class Interrupter {
  #deadline = Number.POSITIVE_INFINITY;
  #steps = 0;
  #isDead = false;
  #die: () => void = () => undefined;

  /** Resolves when the process has died: after that many further steps. */
  dieAfter(steps: number): Promise<void> {
    this.#deadline = steps;
    this.#steps = 0;
    return new Promise((resolve) => {
      this.#die = resolve;
    });
  }

  /** Cancels the death. Returns the number of steps since dieAfter. */
  disarm(): number {
    this.#deadline = Number.POSITIVE_INFINITY;
    return this.#steps;
  }

  native(runner: NativeRunner): NativeRunner {
    const run: Run = runner.run.bind(runner) as Run;
    const interrupted: Run = async (method, request) => {
      await this.#whileAlive();
      if (ASKING.includes(method)) return run(method, request);
      const parts = partsOf(method, request);
      const left = this.#deadline - this.#steps;
      if (left < parts) {
        await doInPart(run, method, request, left);
        await this.#stepsDone(left);
      }
      const answer = await run(method, request);
      await this.#stepsDone(parts);
      return answer;
    };
    return { run: interrupted as NativeRunner['run'] };
  }

  /** Of an object whose methods all return promises. */
  calls<T extends object>(object: T): T {
    return new Proxy(object, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name);
        if (typeof member !== 'function') return member;
        return async (...args: unknown[]) => {
          if (name === 'close') return member.apply(target, args);
          await this.#whileAlive();
          const answer = await member.apply(target, args);
          if (!ASKING.includes(String(name))) await this.#stepsDone(1);
          return answer;
        };
      },
    });
  }

  async #stepsDone(count: number): Promise<void> {
    this.#steps += count;
    if (this.#steps === this.#deadline) {
      this.#isDead = true;
      this.#die();
    }
    await this.#whileAlive();
  }

  async #whileAlive(): Promise<void> {
    if (this.#isDead) await NEVER;
  }
}

const NEVER = new Promise<never>(() => undefined);

interface Cut {
  pool: string;
  members: NewThinSnapshot[];
}

/** A group snapshot suspends all origins, takes one snapshot after the other, and resumes them. */
function partsOf(method: UnaryMethod, request: unknown): number {
  if (method === 'thinMessages') return (request as { messages: string[] }).messages.length;
  return method === 'takeThinSnapshots' ? (request as Cut).members.length + 2 : 1;
}

async function doInPart(
  run: Run,
  method: UnaryMethod,
  request: unknown,
  parts: number,
): Promise<void> {
  if (method === 'thinMessages') {
    const { pool, messages } = request as { pool: string; messages: string[] };
    await run(method, { pool, messages: messages.slice(0, parts) });
    return;
  }
  const { pool, members } = request as Cut;
  for (const { deviceName: name } of members) {
    const manner = { noFlush: false, lockFileSystem: true };
    if (name !== null) await run('dmSuspend', { name, ...manner });
  }
  const made = members.slice(0, parts - 1);
  const messages = made.map(({ originId, snapshotId }) => `create_snap ${snapshotId} ${originId}`);
  if (messages.length > 0) await run('thinMessages', { pool, messages });
}
