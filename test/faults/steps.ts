/**
 * The steps of a process that change something, and what is done to them: test/faults/preload asks here
 * before each of them. Knows no plugin and no CSI.
 *
 * A step is named by its call, its paths below the roots with ids replaced, and how often that came before:
 * `fsync <state>/catalogue.sqlite-wal #2`. Threads interleave differently each time, so that the number of a
 * step says nothing, but an operation has the same names each time.
 */
import { execFileSync } from 'node:child_process';
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { packagePath } from '../../src/base/package-root.js';

/** What the steps of a process are named after: a path and the word that stands for it. */
export type Roots = Readonly<Record<string, string>>;

/** What happens to the step of that name. */
export type Fault =
  | { step: string; does: 'die' }
  /** The program that the step starts dies before it does anything. */
  | { step: string; does: 'die alone' }
  | { step: string; does: 'fail'; errno: number }
  /** The step, or the program that it starts, waits for that, and whatever the process does below that root, on paths or as steps. */
  | { step: string; does: 'wait'; until: () => Promise<void>; stalls?: string | undefined };

/** Where the members of struct Shared lie in the file that the process maps, and what the file holds at first. */
const SHARED = { ahead: 0, asksLooks: 8, bytes: 16 };

/** What does not answer until that has ended. */
interface Stall {
  directory: string;
  over: Promise<void>;
}

const HANG = 253;
const DIE_ALONE = 254;
const DIE = 255;

const IDS: readonly (readonly [RegExp, string])[] = [
  [/\b(vol|snap|group)-[0-9a-f]{12}-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<$1>'],
  [/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<uuid>'],
  [/\bloop\d+/g, '<loop>'],
  [/^.*\/(?=blockdelta-guardian$)/, ''],
  [/\bdm-\d+/g, '<dm>'],
  [/\d{8}T\d{6}\.?\d{3}Z/g, '<time>'],
  [/(?<=\/[a-z]+-)[0-9a-f]{16}(?=\/| |$)/g, '<id>'],
  [/(?<=\/)[0-9a-f]{6}(?=\.pid$|$)/g, '<socket>'],
  [/\b7:\d+/g, '<loop>'],
  [/-[A-Za-z0-9]{6}(?= |$)/g, '-<random>'],
  [/(?<=\.|\/\.restore-)[0-9a-f]{16}(?=\.(?:tmp|partial))/g, '<random>'],
  [/(?<=\.promise-)[0-9a-f]{32}/g, '<promise>'],
  [/(?<=@\d+-)[0-9a-f]{20}/g, '<own>'],
  [/(?<=\.going-)[0-9a-f]{28}/g, '<going>'],
  [/#\d+ \(deleted\)/g, '<nameless>'],
];

/**
 * Writes of SQLite that follow each other in a thread are one step: how many pages a commit changes depends
 * on where its rows lie, and a part of a commit is no commit. Its end is the step before the next one.
 */
const DATABASE_WRITE = /^write\t[^\t]*\.sqlite(?:\.tmp)?(?:-wal|-journal)?$/;

/** What a commit ends with, and what a checkpoint of the log begins with, after it has flushed the count of commits. */
const LOG_SYNC = /^fsync\t[^\t]*\.sqlite-wal$/;
const COUNT_SYNC = /^fdatasync\t[^\t]*\.sqlite-commits$/;
const EIO = 5;

/** Builds the library that is preloaded, unless it is there. Needs make and a compiler. */
export function buildPreload(): void {
  execFileSync('make', ['-s', '-f', 'scripts/native.mk', 'faults'], { cwd: packagePath('.') });
}

export class Steps {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** How often each call with its paths came since the last `begin`. */
  #counts = new Map<string, number>();
  #names: string[] = [];
  #fault: Fault | undefined;
  #isReached = false;
  #postpones = true;
  /** Nothing is answered any more: the process dies. */
  #isDying = false;
  #stall: Stall | undefined;
  readonly #shared: number;
  #aheadSeconds = 0;
  /** Of the program that hangs, or hung last. */
  #fifo: number | undefined;

  private constructor(
    private readonly socketPath: string,
    private roots: Roots,
  ) {
    this.#shared = openSync(`${socketPath}.shared`, 'w');
    writeSync(this.#shared, Buffer.alloc(SHARED.bytes));
    this.#server = createServer((socket) => this.#serve(socket));
  }

  /** @param socketPath at most 107 bytes */
  static async listen(socketPath: string, roots: Roots): Promise<Steps> {
    const steps = new Steps(socketPath, roots);
    await new Promise<void>((resolve) => steps.#server.listen(socketPath, resolve));
    return steps;
  }

  /** For the process whose steps are asked for. */
  get environment(): Record<string, string> {
    return {
      LD_PRELOAD: packagePath('.native-build/faults.so'),
      UV_USE_IO_URING: '0',
      BLOCKDELTA_FAULTS_SOCKET: this.socketPath,
      BLOCKDELTA_FAULTS_ROOTS: Object.values(this.roots).join(':'),
    };
  }

  /** A command that starts the process: the first program that loads the library is the one whose steps it asks about. */
  get command(): string[] {
    const variables = Object.entries(this.environment).map(([name, value]) => `${name}=${value}`);
    return ['env', ...variables];
  }

  /** The names of all steps since the last `begin`, in the order they came. */
  get names(): readonly string[] {
    return this.#names;
  }

  /** Whether the step of the fault has come. */
  get isReached(): boolean {
    return this.#isReached;
  }

  /**
   * Counts from here. A process that dies takes no other step from its last one on, in any thread.
   *
   * Checkpoints of an SQLite log, which begin after a second without a call or a number of commits, are no steps of
   * an operation and are postponed: they fail, which leaves their work to the next one.
   */
  begin(fault?: Fault): void {
    this.#postpones = true;
    this.#counts = new Map();
    this.#names = [];
    this.#fault = fault;
    this.#isReached = false;
    this.#isDying = false;
  }

  /** Other roots; all of them lie below those that the process was given. */
  rename(roots: Roots): void {
    this.roots = { ...this.roots, ...roots };
  }

  /** Checkpoints are steps like others, until the next `begin`. */
  allowCheckpoints(): void {
    this.#postpones = false;
  }

  /** The process's clock, which is ahead from then on. */
  putForward(seconds: number): void {
    this.#aheadSeconds += seconds;
    this.#share(SHARED.ahead, BigInt(this.#aheadSeconds));
  }

  #share(offset: number, value: bigint): void {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(value);
    writeSync(this.#shared, bytes, 0, bytes.length, offset);
  }

  async close(): Promise<void> {
    this.#removeFifo();
    closeSync(this.#shared);
    rmSync(`${this.socketPath}.shared`);
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.socketPath, { force: true });
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    // The process was killed.
    socket.on('error', () => undefined);
    let last = '';
    const answer = (byte: number): boolean => socket.write(Uint8Array.of(byte));
    const consider = (question: string): void => {
      if (this.#isDying) return;
      if (question.startsWith('look\t')) {
        answer(0);
        return;
      }
      const before = last;
      last = question;
      const goesOn = question === before && DATABASE_WRITE.test(question);
      const isCheckpoint = COUNT_SYNC.test(question) || (LOG_SYNC.test(question) && !before.startsWith('write\t'));
      if (goesOn) answer(0);
      else if (isCheckpoint && this.#postpones) answer(EIO);
      else this.#answer(question, answer);
    };
    // A thread asks again only when it was answered.
    socket.on('data', (chunk: Buffer) => {
      const question = chunk.toString().trimEnd();
      const stall = this.#stallOf(question);
      if (stall === undefined) consider(question);
      else void stall.over.then(() => consider(question));
    });
  }

  /** What a program that hangs reads from. Open for as long as anybody might: the line stays in it. */
  #makeFifo(): number {
    const path = `${this.socketPath}.program`;
    this.#removeFifo();
    execFileSync('mkfifo', [path]);
    this.#fifo = openSync(path, 'r+');
    return this.#fifo;
  }

  #removeFifo(): void {
    if (this.#fifo === undefined) return;
    closeSync(this.#fifo);
    rmSync(`${this.socketPath}.program`);
    this.#fifo = undefined;
  }

  async #hold({ until, stalls }: Fault & { does: 'wait' }): Promise<void> {
    const directory = this.roots[stalls ?? ''];
    if (directory === undefined) return until();
    this.#share(SHARED.asksLooks, 1n);
    const over = until().finally(() => {
      this.#share(SHARED.asksLooks, 0n);
      this.#stall = undefined;
    });
    this.#stall = { directory, over };
    return over;
  }

  /** What stalls and holds what the question is about. */
  #stallOf(question: string): Stall | undefined {
    const stall = this.#stall;
    const isBelow = (path: string): boolean => `${path}/`.startsWith(`${stall?.directory}/`);
    return stall !== undefined && question.split('\t').some(isBelow) ? stall : undefined;
  }

  #answer(question: string, answer: (byte: number) => void): void {
    const name = this.#nameOf(question);
    this.#names.push(name);
    if (this.#fault?.step !== name) {
      answer(0);
      return;
    }
    const fault = this.#fault;
    this.#fault = undefined;
    this.#isReached = true;
    if (fault.does === 'wait' && name.startsWith('exec ')) {
      const fifo = this.#makeFifo();
      answer(HANG);
      void fault.until().finally(() => writeSync(fifo, '\n'));
    } else if (fault.does === 'wait') void this.#hold(fault).finally(() => answer(0));
    else if (fault.does === 'fail') answer(fault.errno);
    else if (fault.does === 'die alone') answer(DIE_ALONE);
    else {
      this.#isDying = true;
      answer(DIE);
    }
  }

  #nameOf(question: string): string {
    const [call, ...paths] = question.split('\t');
    const text = [call, ...paths.map((path) => this.#shapeOf(path))].join(' ');
    const count = (this.#counts.get(text) ?? 0) + 1;
    this.#counts.set(text, count);
    return `${text} #${count}`;
  }

  #shapeOf(path: string): string {
    let shape = path;
    for (const [word, root] of Object.entries(this.roots)) {
      if (path === root || path.startsWith(`${root}/`)) {
        shape = `<${word}>${path.slice(root.length)}`;
        break;
      }
    }
    for (const [pattern, placeholder] of IDS) shape = shape.replace(pattern, placeholder);
    return shape;
  }
}

/** What a step and its repetitions have in common: their name without the number. */
export function rowOf(step: string): string {
  return step.replace(/ #\d+$/, '');
}

/** The name of the call of a step. */
export function callOf(step: string): string {
  return step.split(' ', 1)[0] as string;
}

/** A step's call and the tree that it is in, such as that of the pool: the kinds of a plain run. */
export function callIn(step: string): string {
  return /^\S+(?: <\w+>)?/.exec(step)?.[0] ?? step;
}

/** A step's call and the directory that it changes something in: what kind of step it is. */
export function kindOf(step: string): string {
  const [call, path = ''] = step.split(' ');
  return `${call} ${path.replace(/\/[^/]*$/, '')}`;
}
