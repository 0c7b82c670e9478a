/**
 * A remote of rclone as a store of objects. rclone has the protocols, the credentials and, with its crypt remotes, the
 * encryption. One process of it answers on a port of this machine as long as the store is open. Knows nothing of backups.
 */
import { randomBytes } from 'node:crypto';
import { lstat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { CsiError, insteadOf, messageOf, printable } from '../../base/errors.js';
import { pollUntil } from '../../base/poll.js';
import { Program, type ProgramExit } from '../../base/process/program.js';
import type { Argument } from '../../base/process/program-arguments.js';
import { type ObjectStore, StoreError } from './object-store.js';

const PREFIX = 'rclone:';
/** rclone's rules for names, without the forms that begin with a colon or hold a comma: those hold options, and so secrets. */
const NAME = /^[A-Za-z0-9_.+@][A-Za-z0-9_.+@ -]*$/;

const LIST_MAX_BYTES = 256 << 20;
const ERROR_MAX_BYTES = 1 << 20;
const ERROR_MAX_CHARACTERS = 500;
const OUTPUT_MAX_CHARACTERS = 1 << 16;
/** A connection that broke is no reason to call an object damaged. */
const READ_ATTEMPTS = 2;
const READY_POLL_MS = 20;
const READY_TIMEOUT_MS = 60_000;

/** Whether a place of backups is a remote. */
export const isRemote = (location: string): boolean => location.startsWith(PREFIX);

/** Returns what is wrong with the name of a remote; null if nothing is. */
export function remoteProblem(location: string): string | null {
  const [, remote = '', path] = /^rclone:([^:]*):(.*)$/s.exec(location) ?? [];
  if (path === undefined) return 'it must be rclone:REMOTE:PATH, with a remote of the configuration of rclone';
  if (!NAME.test(remote)) {
    return (
      'the remote must be named in the configuration of rclone, and no connection string: its secrets would be seen in lists ' +
      'of processes and in logs'
    );
  }
  const isPlain = !path.split('/').includes('..') && !/\p{Cc}/u.test(path);
  return isPlain ? null : 'its path must not have .. or control characters';
}

/**
 * An object may have no hash though others there have one, such as one that came to S3 in parts without a checksum. rclone then takes
 * the same size for the same content; whether it has compared more it says at this level only.
 */
const SAYING_SO = ['--log-level', 'DEBUG'];
const WAS_COMPARED = /: OK$/m;
const BY_HASHES = ['check', ...SAYING_SO];
/** Hashes of what crypt makes of a file. The remote that has it may know none, and cryptcheck does not tell this from a difference. */
const BY_HASHES_BELOW = ['cryptcheck', ...SAYING_SO];
const BY_CONTENT = ['check', '--download'];

/** An rclone that runs until the store is closed. */
interface Server {
  readonly program: Program;
  readonly url: string;
  readonly authorization: string;
}

/** What rclone's operations/fsinfo says. */
interface FsInfo {
  readonly Hashes: readonly string[] | null;
  readonly Features: Readonly<Record<string, boolean>>;
}

export class RcloneStore implements ObjectStore {
  /** The name of the remote and a path, as rclone has them, without a slash at the end. */
  readonly #root: string;
  #comparisons: readonly (readonly string[])[] | null = null;

  private constructor(
    readonly location: string,
    private readonly server: Server,
    private readonly signal: AbortSignal,
  ) {
    this.#root = rootOf(location);
  }

  /** Throws FAILED_PRECONDITION if others can read the configuration of rclone. */
  static async open(location: string, signal: AbortSignal): Promise<RcloneStore> {
    await assertPrivateConfiguration(signal);
    return new RcloneStore(location, await serve(location, signal), signal);
  }

  async list(directory: string): Promise<ReadonlyMap<string, bigint>> {
    const opt = { recurse: true, filesOnly: true, noModTime: true, noMimeType: true };
    const found = await this.#ask(
      'operations/list',
      { fs: this.#root, remote: directory, opt },
      `list ${this.#name(directory)}`,
    );
    const objects = (found?.['list'] ?? []) as readonly { Path: string; Size: number }[];
    const start = directory === '' ? 0 : directory.length + 1;
    return new Map(objects.map(({ Path: path, Size: size }) => [path.slice(start), BigInt(size)]));
  }

  async readText(name: string, maxBytes: number): Promise<string> {
    const bytes = await this.read(name, 0, maxBytes + 1);
    if (bytes.length <= maxBytes) return bytes.toString('utf8');
    throw CsiError.failedPrecondition(`${this.#name(name)} has more than ${maxBytes} bytes, which is too long for it`);
  }

  /**
   * Returns up to `length` bytes, fewer at the end of the object. Throws NOT_FOUND if there is no such object, and
   * FAILED_PRECONDITION if rclone cannot read it though the store answers, such as one that crypt cannot decrypt.
   */
  async read(name: string, offset: number, length: number): Promise<Buffer<ArrayBuffer>> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#readOnce(name, offset, length);
      } catch (thrown) {
        if (!(thrown instanceof StoreError)) throw thrown;
        const about = { fs: this.#root, remote: name, opt: { filesOnly: true } };
        const found = await this.#ask('operations/stat', about, `find ${this.#name(name)}`);
        if ((found?.['item'] ?? null) === null) throw CsiError.notFound(`there is no object ${this.#name(name)}`);
        if (attempt < READ_ATTEMPTS) continue;
        throw CsiError.failedPrecondition(
          `the object ${this.#name(name)} is there, but rclone cannot read ${length} bytes of it from ${offset} on ` +
            `(${messageOf(thrown.cause)}): it is damaged, was encrypted with another password, or is refused; run the command ` +
            'again, and use another copy of the object if it fails again',
          { cause: thrown },
        );
      }
    }
  }

  async #readOnce(name: string, offset: number, length: number): Promise<Buffer<ArrayBuffer>> {
    const path = [`[${this.#root}]`, ...name.split('/')].map(encodeURIComponent).join('/');
    const headers = { range: `bytes=${offset}-${offset + length - 1}` };
    return this.#fetch(path, { headers }, `read ${this.#name(name)}`, async (response) => {
      if (response.status === 416) return Buffer.alloc(0);
      // A status of 404 may have any reason.
      if (!response.ok) throw new Error(await errorIn(response));
      return bytesOf(response, length);
    });
  }

  async put(name: string, path: string): Promise<void> {
    const from = { srcFs: dirname(path), srcRemote: basename(path) };
    const to = { dstFs: this.#root, dstRemote: name };
    await this.#ask('operations/copyfile', { ...from, ...to }, `copy ${path} to ${this.#name(name)}`);
  }

  async compare(name: string, path: string): Promise<void> {
    this.#comparisons ??= await this.#waysToCompare();
    const to = this.#path(dirname(name));
    const which = ['--one-way', '--include', `/${basename(path)}`, { path: dirname(path) }, to];
    const purpose = `compare ${path} with its copy ${this.#name(name)}`;
    for (const [index, how] of this.#comparisons.entries()) {
      const isLast = index === this.#comparisons.length - 1;
      try {
        const { stderr } = await run([...how, ...which], purpose, this.signal);
        if (isLast || WAS_COMPARED.test(stderr)) return;
      } catch (thrown) {
        if (!(thrown instanceof StoreError) || isLast) throw thrown;
      }
    }
  }

  async remove(name: string): Promise<void> {
    await this.#ask('operations/deletefile', { fs: this.#root, remote: name }, `remove ${this.#name(name)}`);
  }

  async close(): Promise<void> {
    this.server.program.kill('SIGTERM');
    await this.server.program.exited;
  }

  /** The next way is for what the one before does not find to be the same. */
  async #waysToCompare(): Promise<readonly (readonly string[])[]> {
    const found = await this.#ask('operations/fsinfo', { fs: this.#root }, `ask what ${this.location} can do`);
    const { Hashes: hashes, Features: features } = found as unknown as FsInfo;
    if ((hashes ?? []).length > 0) return [BY_HASHES, BY_CONTENT];
    return features['UnWrap'] === true ? [BY_HASHES_BELOW, BY_CONTENT] : [BY_CONTENT];
  }

  /** Calls rclone's rc. Returns null if there is no such object or directory. */
  async #ask(method: string, parameters: object, purpose: string): Promise<Record<string, unknown> | null> {
    const headers = { 'content-type': 'application/json' };
    const request = { method: 'POST', headers, body: JSON.stringify(parameters) };
    return this.#fetch(method, request, purpose, async (response) => {
      if (response.status === 404) return null;
      if (!response.ok) throw new Error(await errorIn(response));
      return JSON.parse((await bytesOf(response, LIST_MAX_BYTES)).toString('utf8')) as Record<string, unknown>;
    });
  }

  async #fetch<T>(
    path: string,
    { headers, ...request }: RequestInit,
    purpose: string,
    use: (response: Response) => Promise<T>,
  ): Promise<T> {
    const { signal } = this;
    const { url, authorization } = this.server;
    try {
      const response = await fetch(`${url}/${path}`, { ...request, headers: { ...headers, authorization }, signal });
      return await use(response);
    } catch (thrown) {
      signal.throwIfAborted();
      if (thrown instanceof CsiError) throw thrown;
      throw new StoreError(
        `rclone could not ${purpose}: ${messageOf(thrown)}; run the command again when the remote answers`,
        thrown,
      );
    }
  }

  #path(name: string): string {
    if (name === '' || name === '.') return this.#root;
    return `${this.#root}${/[:/]$/.test(this.#root) ? '' : '/'}${name}`;
  }

  #name(name: string): string {
    return `${PREFIX}${this.#path(name)}`;
  }
}

const rootOf = (location: string): string => location.slice(PREFIX.length).replace(/(?<=[^:/])\/+$/, '');

/** Whoever can connect needs the password, which is in the environment of rclone alone. */
async function serve(location: string, signal: AbortSignal): Promise<Server> {
  const [user, password] = ['blockdelta', randomBytes(32).toString('hex')];
  const env = { ...environment(), RCLONE_RC_USER: user, RCLONE_RC_PASS: password };
  const args = ['rcd', '--rc-serve', '--rc-addr', '127.0.0.1:0'];
  const program = await Program.start('rclone', args, { rights: {}, env, signal });
  program.stdout.resume();
  const address = await pollUntil(
    () => program.exit !== null || (/http:\/\/(127\.0\.0\.1:\d+)\//.exec(program.stderr)?.[1] ?? null),
    { intervalMs: READY_POLL_MS, timeoutMs: READY_TIMEOUT_MS, signal },
  );
  if (typeof address === 'string') {
    const authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
    return { program, url: `http://${address}`, authorization };
  }
  program.kill('SIGKILL');
  throw failure(program, `reach ${location}`, await program.exited);
}

/** What rclone says of a failure: an object with a text, or a text. */
async function errorIn(response: Response): Promise<string> {
  const text = (await bytesOf(response, ERROR_MAX_BYTES)).toString('utf8');
  try {
    return printable(String((JSON.parse(text) as { error: unknown }).error), ERROR_MAX_CHARACTERS);
  } catch {
    return printable(`${response.status} ${text}`, ERROR_MAX_CHARACTERS);
  }
}

/** Reads no more than `length` bytes, whatever the server sends. */
async function bytesOf(response: Response, length: number): Promise<Buffer<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let filled = 0;
  for await (const part of response.body ?? []) {
    parts.push(part);
    filled += part.length;
    if (filled > length) throw new Error(`more than ${length} bytes came`);
  }
  return Buffer.concat(parts);
}

/** Whatever rclone is told by its environment, such as credentials, and shorter waits for a remote that is away. */
const environment = (): Record<string, string> => ({
  RCLONE_CONTIMEOUT: '15s',
  RCLONE_LOW_LEVEL_RETRIES: '3',
  RCLONE_ASK_PASSWORD: 'false',
  ...(process.env as Record<string, string>),
});

interface Said {
  stdout: string;
  /** The end of it. */
  stderr: string;
}

async function run(args: readonly Argument[], purpose: string, signal: AbortSignal): Promise<Said> {
  const program = await Program.start('rclone', args, { rights: {}, env: environment(), signal });
  let stdout = '';
  for await (const part of program.stdout.setEncoding('utf8')) stdout = (stdout + part).slice(0, OUTPUT_MAX_CHARACTERS);
  const exit = await program.exited;
  signal.throwIfAborted();
  if (exit.exitCode === 0) return { stdout, stderr: program.stderr };
  throw failure(program, purpose, exit);
}

function failure(program: Program, purpose: string, exit: ProgramExit): Error {
  const found = program.failure(purpose, exit);
  return found instanceof CsiError ? found : new StoreError(found.message, found);
}

/** The configuration holds the secrets of the remotes. */
async function assertPrivateConfiguration(signal: AbortSignal): Promise<void> {
  const { stdout } = await run(['config', 'file'], 'find its configuration', signal);
  const path = stdout.trim().split('\n').at(-1) ?? '';
  const found = await lstat(path).catch(insteadOf(['ENOENT'], null));
  if (found === null || (found.mode & 0o077) === 0) return;
  throw CsiError.failedPrecondition(
    `others can read or write the configuration of rclone, ${path}, which holds the secrets of the remotes: chmod 600 ${path}`,
  );
}
