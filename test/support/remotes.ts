/** Remotes of rclone for tests, with a configuration of their own: this process's environment names it, and no account. */
import { execFile } from 'node:child_process';
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Program } from '../../src/base/process/program.js';
import { eventually } from './eventually.js';
import { S3_ACCOUNT, S3_BUCKET, S3_SUFFIX, S3Server } from './s3-server.js';

const run = promisify(execFile);

export type StoreKind = 'directory' | 'webdav' | 's3';
export type RemoteKind = StoreKind | `crypt over ${StoreKind}`;

/** Where the objects of a remote lie. */
interface Stored {
  directory: string;
  /** What is below the crypt remote, or the remote itself. */
  kind: StoreKind;
  /** Whether the objects have other names there. */
  isCrypt: boolean;
}

/** More than one of them makes an upload of several parts: the least that S3 allows. */
export const S3_PART_BYTES = 5 << 20;

export class Remotes {
  readonly #servers: { close(): unknown }[] = [];
  readonly #stored = new Map<string, Stored>();
  #count = 0;

  constructor(private readonly directory: string) {
    mkdirSync(directory);
    const configuration = join(directory, 'rclone.conf');
    writeFileSync(configuration, '', { mode: 0o600 });
    for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) delete process.env[name];
    process.env['RCLONE_CONFIG'] = configuration;
  }

  /** Adds a remote to the configuration. Returns the location of a repository there. */
  async make(remote: RemoteKind): Promise<string> {
    const kind = remote.replace('crypt over ', '') as StoreKind;
    const directory = this.directoryOfObjects();
    const below = await this.#store(kind, directory);
    const isCrypt = kind !== remote;
    const location = `rclone:${isCrypt ? await this.addCrypt(`${below}secret`) : below}backups`;
    this.#stored.set(location, {
      directory: join(directory, kind === 's3' ? S3_BUCKET : '', isCrypt ? 'secret' : 'backups'),
      kind,
      isCrypt,
    });
    return location;
  }

  /** Returns what paths there begin with. */
  async #store(kind: StoreKind, directory: string): Promise<string> {
    switch (kind) {
      case 'directory':
        return this.add({ type: 'alias', remote: directory });
      case 'webdav':
        return this.add({ type: 'webdav', url: await this.serve(directory), vendor: 'other' });
      case 's3':
        return this.addS3((await this.serveS3(directory)).url);
    }
  }

  /** The name with which rclone names the new remote. */
  add(fields: Readonly<Record<string, string>>): string {
    this.#count += 1;
    const lines = Object.entries(fields).map(([key, value]) => `${key} = ${value}\n`);
    appendFileSync(process.env['RCLONE_CONFIG'] ?? '', `[r${this.#count}]\n${lines.join('')}\n`);
    return `r${this.#count}:`;
  }

  async addCrypt(remote: string): Promise<string> {
    const { stdout } = await run('rclone', ['obscure', 'a password of a test']);
    return this.add({ type: 'crypt', remote, password: stdout.trim() });
  }

  /** Returns the name with the bucket. */
  addS3(endpoint: string, account: Readonly<Record<string, string>> = S3_ACCOUNT): string {
    const size = String(S3_PART_BYTES);
    const parts = { chunk_size: `${size}b`, upload_cutoff: `${size}b` };
    return `${this.add({ type: 's3', provider: 'Other', endpoint, ...account, ...parts })}${S3_BUCKET}/`;
  }

  async objects(location: string): Promise<string[]> {
    const { stdout } = await run('rclone', ['lsf', '-R', '--files-only', location.replace('rclone:', '')]);
    return stdout.split('\n').filter((name) => name !== '');
  }

  /** The file in which the server keeps an object. */
  async fileOf(location: string, name: string): Promise<string> {
    const { directory, kind, isCrypt } = this.#stored.get(location) as Stored;
    const end = kind === 's3' ? S3_SUFFIX : '';
    if (!isCrypt) return join(directory, `${name}${end}`);
    const [, remote = ''] = /^rclone:([^:]+:)/.exec(location) ?? [];
    const { stdout } = await run('rclone', ['cryptdecode', '--reverse', remote, `backups/${name}`]);
    return join(directory, `${stdout.trim().split(/\s+/).at(-1)}${end}`);
  }

  async close(): Promise<void> {
    for (const server of this.#servers) await server.close();
  }

  directoryOfObjects(): string {
    const path = join(this.directory, `objects${this.#servers.length}-${this.#count}`);
    mkdirSync(path);
    return path;
  }

  /** A server of WebDAV. Returns its URL. */
  async serve(directory: string): Promise<string> {
    // Without a cache, it sees what a test changes in the directory.
    const args = ['serve', 'webdav', '--addr', '127.0.0.1:0', '--dir-cache-time', '0s', directory];
    const server = await Program.start('rclone', args, { rights: {}, env: process.env as Record<string, string> });
    this.#servers.push({
      close: () => {
        server.kill('SIGKILL');
        return server.exited;
      },
    });
    server.stdout.resume();
    const url = (): string | undefined => /http:\/\/127\.0\.0\.1:\d+\//.exec(server.stderr)?.[0];
    await eventually('the server of WebDAV listens', () => url() !== undefined);
    return url() ?? '';
  }

  async serveS3(directory: string): Promise<S3Server> {
    const server = await S3Server.start(directory);
    this.#servers.push(server);
    return server;
  }
}
