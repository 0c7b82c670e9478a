/**
 * The certificate, key and CA files of one side of mutual TLS: read, checked together, and read again when
 * they change.
 *
 * The files are polled, because certificates are replaced in many ways (renames, swapped symbolic links as
 * Kubernetes does for Secrets, a remounted directory) and no watch of the kernel covers them all. New files
 * that do not fit together leave the old ones in force. A poll may see the new certificate beside the old
 * key, so an error is logged only when two polls in a row have found it. Used by the node's listener and
 * by the router's connections; knows neither.
 */
import { createHash, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext, type SecureContext, type SecureContextOptions } from 'node:tls';
import type { Logger } from 'pino';
import { messageOf } from '../errors.js';
import type { TlsSettings } from '../settings/tls.js';
import { StartError } from './socket-path.js';

const POLL_MS = 2000;

/** One consistent set of files. */
export interface TlsMaterial {
  /** For tls.Server.setSecureContext. */
  readonly options: SecureContextOptions;
  readonly context: SecureContext;
}

interface Files {
  readonly certificate: Buffer;
  readonly key: Buffer;
  readonly ca: Buffer;
}

export class TlsFiles {
  readonly #settings: TlsSettings;
  readonly #log: Logger;
  readonly #listeners = new Set<(material: TlsMaterial) => void>();
  readonly #timer: NodeJS.Timeout;
  #current: TlsMaterial;
  /** What the files in force look like. */
  #digest: string;
  /** What was found at the last poll if it could not be used: a reason, once it has been logged too. */
  #broken: { readonly what: string; readonly isLogged: boolean } | null = null;
  #isPolling = false;

  private constructor(settings: TlsSettings, log: Logger, files: Files, pollMs: number) {
    this.#settings = settings;
    this.#log = log;
    this.#current = materialOf(files);
    this.#digest = digestOf(files);
    this.#timer = setInterval(() => void this.#poll(), pollMs);
    this.#timer.unref();
  }

  /** Throws a StartError if the files cannot be read or do not fit together. */
  static async open(settings: TlsSettings, log: Logger, pollMs = POLL_MS): Promise<TlsFiles> {
    try {
      return new TlsFiles(settings, log, await read(settings), pollMs);
    } catch (thrown) {
      throw new StartError(`cannot use the TLS files ${describe(settings)}: ${messageOf(thrown)}`);
    }
  }

  get current(): TlsMaterial {
    return this.#current;
  }

  /** Calls the listener for each new set of files that can be used. */
  onChange(listener: (material: TlsMaterial) => void): void {
    this.#listeners.add(listener);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#listeners.clear();
  }

  async #poll(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    try {
      await this.#check();
    } finally {
      this.#isPolling = false;
    }
  }

  async #check(): Promise<void> {
    let digest = '';
    try {
      const files = await read(this.#settings);
      digest = digestOf(files);
      if (digest === this.#digest) {
        this.#broken = null;
        return;
      }
      this.#current = materialOf(files);
    } catch (thrown) {
      this.#report(`${digest} ${messageOf(thrown)}`, thrown);
      return;
    }
    this.#digest = digest;
    this.#broken = null;
    this.#log.info({ certificate: this.#settings.certificateFile }, 'the TLS files have changed');
    for (const listener of this.#listeners) listener(this.#current);
  }

  #report(what: string, thrown: unknown): void {
    const isRepeated = this.#broken?.what === what;
    if (isRepeated && this.#broken?.isLogged === false) {
      this.#log.error(
        { reason: messageOf(thrown) },
        `the new TLS files ${describe(this.#settings)} cannot be used; the old ones stay in force. Replace them`,
      );
    }
    this.#broken = { what, isLogged: isRepeated };
  }
}

/** Whether a certificate carries the DNS name as a subject alternative name. Its common name does not count. */
export function carriesName(certificate: X509Certificate, name: string): boolean {
  return certificate.checkHost(name, { subject: 'never', wildcards: false }) !== undefined;
}

async function read({ certificateFile, keyFile, caFile }: TlsSettings): Promise<Files> {
  const [certificate, key, ca] = await Promise.all([
    readFile(certificateFile),
    readFile(keyFile),
    readFile(caFile),
  ]);
  return { certificate, key, ca };
}

function materialOf({ certificate, key, ca }: Files): TlsMaterial {
  // A context ignores a CA file without certificates, and then trusts nobody: such a file is a mistake.
  new X509Certificate(ca);
  const options: SecureContextOptions = {
    cert: certificate,
    key,
    ca,
    minVersion: 'TLSv1.3',
  };
  return { options, context: createSecureContext(options) };
}

function digestOf({ certificate, key, ca }: Files): string {
  const hash = createHash('sha256');
  for (const file of [certificate, key, ca]) hash.update(`${file.length}\0`).update(file);
  return hash.digest('hex');
}

function describe({ certificateFile, keyFile, caFile }: TlsSettings): string {
  return `${certificateFile}, ${keyFile} and ${caFile}`;
}
