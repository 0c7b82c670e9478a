/** Remotes of rclone for tests, with a configuration of their own: this process's environment names it. */
import { execFile } from 'node:child_process';
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Program } from '../../src/base/process/program.js';
import { eventually } from './eventually.js';

const run = promisify(execFile);

export type RemoteKind = 'directory' | 'webdav' | 'crypt' | 'crypt over webdav';

export class Remotes {
  readonly #servers: Program[] = [];
  #count = 0;

  constructor(private readonly directory: string) {
    mkdirSync(directory);
    const configuration = join(directory, 'rclone.conf');
    writeFileSync(configuration, '', { mode: 0o600 });
    process.env['RCLONE_CONFIG'] = configuration;
  }

  /** Adds a remote to the configuration. Returns the location of a repository there. */
  async make(kind: RemoteKind): Promise<string> {
    const isWeb = kind.endsWith('webdav');
    const below = isWeb
      ? this.add({ type: 'webdav', url: await this.serve(this.directoryOfObjects()), vendor: 'other' })
      : this.directoryOfObjects();
    if (!kind.startsWith('crypt'))
      return isWeb ? `rclone:${below}backups` : `rclone:${this.add({ type: 'alias', remote: below })}backups`;
    const { stdout } = await run('rclone', ['obscure', 'a password of a test']);
    return `rclone:${this.add({ type: 'crypt', remote: `${below}${isWeb ? 'secret' : '/secret'}`, password: stdout.trim() })}backups`;
  }

  /** The name with which rclone names the new remote. */
  add(fields: Readonly<Record<string, string>>): string {
    this.#count += 1;
    const lines = Object.entries(fields).map(([key, value]) => `${key} = ${value}\n`);
    appendFileSync(process.env['RCLONE_CONFIG'] ?? '', `[r${this.#count}]\n${lines.join('')}\n`);
    return `r${this.#count}:`;
  }

  async objects(location: string): Promise<string[]> {
    const { stdout } = await run('rclone', ['lsf', '-R', '--files-only', location.replace('rclone:', '')]);
    return stdout.split('\n').filter((name) => name !== '');
  }

  async close(): Promise<void> {
    for (const server of this.#servers) {
      server.kill('SIGKILL');
      await server.exited;
    }
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
    this.#servers.push(server);
    server.stdout.resume();
    const url = (): string | undefined => /http:\/\/127\.0\.0\.1:\d+\//.exec(server.stderr)?.[0];
    await eventually('the server of WebDAV listens', () => url() !== undefined);
    return url() ?? '';
  }
}
