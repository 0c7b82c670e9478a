/**
 * Starts every process, except those of the conformance suite (tools/conformance/block-content.ts) and of the benchmark
 * (tools/bench/run.ts, tools/bench/plugin-process.ts), which start their programs directly.
 *
 * A command has no shell, a fixed environment, stdin from /dev/null and, under run(), bounded output. It runs behind
 * blockdelta-confine (sandbox.ts), which takes away the rights that the command does not need and makes the kernel kill the
 * command when the thread that started it ends. So a killed plugin leaves no mkfs behind that would race with the mkfs of its
 * successor. (The signal survives the exec of mount, which is set-user-ID, because the ids of root do not change.) A command
 * that a kill would damage runs to its end instead, and meanwhile holds a flock on its device (driver/host/device-holders.ts).
 *
 * If a command does not end in time, run() kills it, or stops waiting for a command that must not be killed. It abandons a
 * command that hangs in the kernel and cannot be killed, so that no promise stays pending forever. Knows nothing of CSI
 * requests. Of file systems, knows only the names of their programs and the Debian package of each program.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { access, type FileHandle } from 'node:fs/promises';
import { constants as osConstants, setPriority } from 'node:os';
import { join } from 'node:path';
import { CsiError, errorCode } from '../errors.js';
import { type Argument, commandLine, type GivenFile, withPaths } from './program-arguments.js';
import { describeLimits, type Limits, NOT_CONFINED_EXIT_CODE, type Rights, sandbox } from './sandbox.js';

/** Fixed, because a service manager's PATH often lacks the sbin directories. */
const SEARCH_PATH = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'] as const;

/** Debian's package for each program that the plugin runs. */
const PACKAGES: Readonly<Record<string, string>> = {
  env: 'coreutils',
  unshare: 'util-linux',
  flock: 'util-linux',
  mount: 'mount',
  blkid: 'util-linux',
  'mkfs.ext4': 'e2fsprogs',
  'fsck.ext4': 'e2fsprogs',
  resize2fs: 'e2fsprogs',
  'mkfs.xfs': 'xfsprogs',
  'mkfs.btrfs': 'btrfs-progs',
  btrfstune: 'btrfs-progs',
};

/** Debian's package for each program that the tools run. */
const PACKAGES_OF_TOOLS: Readonly<Record<string, string>> = {
  nbdkit: 'nbdkit',
  nbdcopy: 'libnbd-bin',
  nbdinfo: 'libnbd-bin',
  'qemu-nbd': 'qemu-utils',
  'qemu-img': 'qemu-utils',
  rclone: 'rclone',
};

/** Programs that only btrfs volumes need. */
const OPTIONAL: readonly string[] = ['mkfs.btrfs', 'btrfstune'];

/** The prefix of a command that outlives the plugin, so that its broken pipes do not end it. */
const OUTLIVING = ['env', '--ignore-signal=PIPE'] as const;

/** The exit code of flock(1) if another process has the lock. No program that we run exits with this code. */
export const LOCKED_EXIT_CODE = 75;
const LOCK_TIMEOUT_S = 10;

const DEFAULT_TIMEOUT_MS = 60_000;
const KILL_GRACE_MS = 5_000;
/** How long another process may keep the pipes open after the command has ended. */
const DRAIN_GRACE_MS = 1_000;
const STDOUT_MAX_BYTES = 1 << 20;
const STDERR_TAIL_BYTES = 4096;

const ENVIRONMENT = { LC_ALL: 'C', PATH: SEARCH_PATH.join(':') };
/** All threads share one arena, because each arena would take 64 MiB of a program's limited address space. */
const LIMITED_ENVIRONMENT = { ...ENVIRONMENT, MALLOC_ARENA_MAX: '1' };

export interface RunOptions extends Rights {
  timeoutMs?: number;
  /** Exit codes that do not count as failures. */
  accept?: readonly number[];
  /** Strings that must not appear in an error, such as mount flags. */
  secrets?: readonly string[];
  /**
   * The device of a command that must not stop half way. The command continues if the plugin is killed, and no timeout kills
   * it either. While it runs, it holds an exclusive flock on the device, so that no second command runs beside it. run()
   * rejects with ABORTED if the command is still running at the timeout, or if another process has the lock.
   */
  outlivesLocking?: string;
  /** How long a command waits for the lock of its device. The default, 10 s, is longer than udev probes a device. */
  lockTimeoutS?: number;
  /** How long a killed command may take to vanish before it counts as stuck. The default is 5 s. */
  killGraceMs?: number;
}

export interface RunResult {
  exitCode: number;
  stdout: string;
  /** The last 4 KiB. */
  stderr: string;
}

type ExecFailure = 'EXIT' | 'SIGNAL' | 'ETIMEDOUT' | 'EOVERFLOW' | 'ESTUCK';

/** A command that failed: the name of the program, how it ended, and its last stderr. Never holds its arguments. */
export class ExecError extends Error {
  override readonly name = 'ExecError';
  constructor(
    readonly code: ExecFailure,
    readonly command: string,
    readonly exitCode: number | null,
    readonly signal: string | null,
    readonly stderr: string,
    message: string,
  ) {
    super(message);
  }
}

/** FAILED_PRECONDITION with the meaning of the failure if a program failed. Any other failure stays as it is. */
export function toolFailure(meaning: string, thrown: unknown): unknown {
  if (!(thrown instanceof ExecError)) return thrown;
  return CsiError.failedPrecondition(`${meaning} (${thrown.message})`, { cause: thrown });
}

/** A program that was started. The caller has to read its pipes. */
export interface Started {
  readonly child: ChildProcess;
  /** The limits of the program; null if it has none. */
  readonly limits: Limits | null;
  /** Puts the paths of the files that the program was given into a text of the program. */
  withPaths(text: string): string;
}

export interface StartOptions extends Rights, Pick<RunOptions, 'outlivesLocking' | 'lockTimeoutS'> {
  /** Variables beside the fixed ones. */
  env?: Readonly<Record<string, string>>;
}

/** The first descriptor of the files that a program is given: after its own three, and the socket that it may be given. */
const FIRST_GIVEN = 4;

/**
 * Starts a program. Rejects with FAILED_PRECONDITION if the program is not installed, and with INTERNAL if a path is relative.
 * With `outlivesLocking`, the program ends with LOCKED_EXIT_CODE if another process has the lock.
 */
export async function start(command: string, args: readonly Argument[], options: StartOptions = {}): Promise<Started> {
  const { outlivesLocking: locked } = options;
  const { words, files } = commandLine(command, args, FIRST_GIVEN);
  const { line, limits } = await sandbox({ ...options, files, first: FIRST_GIVEN }, locked !== undefined);
  const guard = locked === undefined ? [] : [await findProgram(OUTLIVING[0]), ...OUTLIVING.slice(1)];
  if (locked !== undefined) guard.push(...(await locking(locked, options)));
  const [launcher, ...rest] = [...guard, ...line, await findProgram(command), ...words];
  const child = await withOpen(files, (descriptors) =>
    spawn(launcher as string, rest, {
      cwd: '/',
      env: { ...(limits === null ? ENVIRONMENT : LIMITED_ENVIRONMENT), ...options.env },
      stdio: ['ignore', 'pipe', 'pipe', 'ignore', ...descriptors],
      detached: locked !== undefined,
    }),
  );
  if (options.network !== undefined) putBehindOthers(child);
  return { child, limits, withPaths: (text) => withPaths(text, files, FIRST_GIVEN) };
}

/** A program that carries bytes between nodes takes what processor time the node's own work leaves: a tenth beside a busy one. */
function putBehindOthers({ pid }: ChildProcess): void {
  try {
    // Its threads, which it starts later, inherit this.
    if (pid !== undefined) setPriority(pid, osConstants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // It has ended.
  }
}

async function withOpen<T>(files: readonly GivenFile[], use: (descriptors: number[]) => T): Promise<T> {
  const opened: FileHandle[] = [];
  try {
    for (const file of files) opened.push(await file.open());
    return use(opened.map(({ fd }) => fd));
  } finally {
    // This does not wait, because Node.js discards the output of a program that ends before the caller reads it.
    for (const file of opened) void file.close();
  }
}

/** Runs a program to its end. Rejects with ExecError, as `start` does, and as `outlivesLocking` says. */
export async function run(command: string, args: readonly Argument[], options: RunOptions = {}): Promise<RunResult> {
  const { child, limits } = await start(command, args, options);
  return new Execution(command, child, options, limits).result();
}

/** The lock belongs to the open file, which the command inherits, so the lock ends with the command, however that ends. */
async function locking(device: string, options: StartOptions): Promise<string[]> {
  const wait = ['-w', String(options.lockTimeoutS ?? LOCK_TIMEOUT_S), '-E', String(LOCKED_EXIT_CODE)];
  const { words } = commandLine('flock', ['--no-fork', '-x', ...wait, { path: device }], 0);
  return [await findProgram('flock'), ...words];
}

/** Rejects, as `run` would, if a program that every node needs is missing. Cheap: it starts nothing. */
export async function assertPrograms(
  programs: readonly string[] = Object.keys(PACKAGES).filter((name) => !OPTIONAL.includes(name)),
): Promise<void> {
  await Promise.all(programs.map((program) => findProgram(program)));
}

/**
 * The programs of the plugin that are not installed, each with Debian's package for it.
 *
 * @param more programs that its settings demand
 */
export async function missingPrograms(
  more: readonly string[] = [],
): Promise<{ program: string; package: string; optional: boolean }[]> {
  const tools = Object.entries(PACKAGES_OF_TOOLS).filter(([name]) => more.includes(name));
  const missing = await Promise.all(
    [...Object.entries(PACKAGES), ...tools].map(async ([program, debian]) => {
      const isThere = await findProgram(program).then(
        () => true,
        () => false,
      );
      return isThere ? [] : [{ program, package: debian, optional: OPTIONAL.includes(program) }];
    }),
  );
  return missing.flat();
}

/** The path of a program. FAILED_PRECONDITION, with Debian's package for the program, if it is not installed. */
export async function findProgram(name: string): Promise<string> {
  for (const directory of SEARCH_PATH) {
    const path = join(directory, name);
    try {
      await access(path, constants.X_OK);
      return path;
    } catch {
      // The next directory is tried.
    }
  }
  const debian = PACKAGES[name] ?? PACKAGES_OF_TOOLS[name];
  const remedy = debian === undefined ? '' : `; install the Debian package ${debian}`;
  throw CsiError.failedPrecondition(`the program ${name} is not installed on this node${remedy}`);
}

function stillWorking(program: string, device: string): CsiError {
  return CsiError.aborted(
    `${program} is still working on ${device}, and must not be stopped half way; try again when it has ended`,
  );
}

/** One running child and the promise of its end. */
class Execution {
  readonly #stdout: Buffer[] = [];
  #stdoutBytes = 0;
  #stderr = Buffer.alloc(0);
  /** Why we killed the child; null if we did not. */
  #killedFor: 'timeout' | 'output' | null = null;
  readonly #timers: NodeJS.Timeout[] = [];

  constructor(
    private readonly command: string,
    private readonly child: ChildProcess,
    private readonly options: RunOptions,
    private readonly limits: Limits | null,
  ) {}

  result(): Promise<RunResult> {
    const { child, options } = this;
    return new Promise<RunResult>((resolve, reject) => {
      let isFinished = false;
      const finish = (exitCode: number | null, signal: string | null, thrown?: unknown): void => {
        if (isFinished) return;
        isFinished = true;
        for (const timer of this.#timers) clearTimeout(timer);
        this.#detach();
        const failure = thrown ?? this.#failure(exitCode, signal);
        if (failure !== null) reject(failure);
        else resolve({ exitCode: exitCode ?? 0, stdout: this.#output(), stderr: this.#tail() });
      };
      child.stdout?.on('data', (chunk: Buffer) => this.#keepStdout(chunk, finish));
      child.stderr?.on('data', (chunk: Buffer) => this.#keepStderr(chunk));
      child.on('error', (thrown) => finish(null, null, this.#spawnFailure(thrown)));
      child.on('close', (code, signal) => finish(code, signal));
      child.on('exit', (code, signal) => this.#after(DRAIN_GRACE_MS, () => finish(code, signal)));
      const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
      this.#after(timeoutMs, () => this.#kill('timeout', finish));
    });
  }

  #after(delayMs: number, action: () => void): void {
    this.#timers.push(setTimeout(action, delayMs));
  }

  #kill(reason: 'timeout' | 'output', finish: (exitCode: null, signal: null, thrown: unknown) => void): void {
    const { outlivesLocking: device } = this.options;
    if (device !== undefined) {
      finish(null, null, stillWorking(this.command, device));
      return;
    }
    if (this.#killedFor !== null) return;
    this.#killedFor = reason;
    this.child.kill('SIGKILL');
    this.#after(this.options.killGraceMs ?? KILL_GRACE_MS, () => finish(null, null, this.#stuck()));
  }

  #keepStdout(chunk: Buffer, finish: (exitCode: null, signal: null, thrown: unknown) => void) {
    this.#stdoutBytes += chunk.length;
    if (this.#stdoutBytes > STDOUT_MAX_BYTES) this.#kill('output', finish);
    else this.#stdout.push(chunk);
  }

  #keepStderr(chunk: Buffer): void {
    this.#stderr = Buffer.concat([this.#stderr, chunk]).subarray(-STDERR_TAIL_BYTES);
  }

  /** Lets the plugin exit while the child, or a process that has its pipes, still runs. */
  #detach(): void {
    this.child.stdout?.destroy();
    this.child.stderr?.destroy();
    this.child.unref();
  }

  #output(): string {
    return Buffer.concat(this.#stdout).toString('utf8');
  }

  #tail(): string {
    const secrets = this.options.secrets ?? [];
    return secrets
      .filter((secret) => secret !== '')
      .reduce((text, secret) => text.replaceAll(secret, '***'), this.#stderr.toString('utf8'))
      .trim();
  }

  #failure(exitCode: number | null, signal: string | null): Error | null {
    if (this.#killedFor === 'timeout') {
      const timeoutMs = this.options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
      return this.#error('ETIMEDOUT', exitCode, signal, `was killed after ${timeoutMs} ms`);
    }
    if (this.#killedFor === 'output') {
      return this.#error('EOVERFLOW', exitCode, signal, `wrote more than ${STDOUT_MAX_BYTES} bytes`);
    }
    if (exitCode === null) return this.#error('SIGNAL', null, signal, `was ended by ${signal}`);
    if ((this.options.accept ?? [0]).includes(exitCode)) return null;
    const { outlivesLocking: device } = this.options;
    if (exitCode === LOCKED_EXIT_CODE && device !== undefined) {
      return stillWorking('another program', device);
    }
    if (exitCode === NOT_CONFINED_EXIT_CODE) return this.#notConfined();
    return this.#error('EXIT', exitCode, null, `failed with exit code ${exitCode}`);
  }

  #notConfined(): CsiError {
    return CsiError.failedPrecondition(
      `${this.command} was not started, because the rights it does not need could not be taken from it ` +
        `(${this.#tail()}); give the plugin the capabilities it needs`,
    );
  }

  #stuck(): ExecError {
    const text = `could not be killed: process ${this.child.pid} is stuck in the kernel`;
    return this.#error('ESTUCK', null, null, text);
  }

  #spawnFailure(thrown: Error): Error {
    return this.#error('EXIT', null, null, `could not be started: ${errorCode(thrown)}`);
  }

  #error(code: ExecFailure, exitCode: number | null, signal: string | null, text: string) {
    const stderr = this.#tail();
    const said = stderr === '' ? '' : `: ${stderr}`;
    const given = this.limits === null ? '' : `; ${describeLimits(this.limits)}`;
    const message = `${this.command} ${text}${said}${given}`;
    return new ExecError(code, this.command, exitCode, signal, stderr, message);
  }
}
