/**
 * Reads the certificate, key and CA files of one side of mutual TLS, checks them together, and reads them again when they
 * change.
 *
 * The files are polled, because certificates are replaced in many ways (renames, swapped symbolic links as Kubernetes does for
 * Secrets, a remounted directory) and no kernel watch covers all of these ways. If new files do not fit together, the old files
 * stay in force. A poll may see the new certificate beside the old key, so an error is logged only when two polls in a row have
 * found it. Serves the node's listener and the router's connections; knows neither.
 *
 * The certificate of a node carries only the URI of that node. Otherwise the key of one node could impersonate every node.
 */
import { createHash, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext, type SecureContext, type SecureContextOptions } from 'node:tls';
import type { Logger } from 'pino';
import { messageOf, printable } from '../errors.js';
import { Periodic } from '../periodic.js';
import type { TlsSettings } from '../settings/tls.js';
import { DAY_MS, daysLeft, endInWords, firstEnd, WARNED_DAYS } from './certificate-end.js';
import { StartError } from './socket-path.js';

const POLL_MS = 2000;

/** One consistent set of files. */
export interface TlsMaterial {
  /** For tls.Server.setSecureContext. */
  readonly options: SecureContextOptions;
  readonly context: SecureContext;
}

export interface TlsFilesOptions {
  readonly pollMs?: number;
  /** The URI of the node that the certificate must name; absent if the certificate need not name a node. */
  readonly nodeUri?: string | undefined;
}

interface Files {
  readonly certificate: Buffer;
  readonly key: Buffer;
  readonly ca: Buffer;
}

export class TlsFiles {
  readonly #settings: TlsSettings;
  readonly #nodeUri: string | undefined;
  readonly #log: Logger;
  readonly #listeners = new Set<(material: TlsMaterial) => void>();
  readonly #polls: Periodic;
  #current: TlsMaterial;
  /** The digest of the files in force. */
  #digest: string;
  /** When the log last said that a certificate ends soon, ms. */
  #warnedAt = Number.NEGATIVE_INFINITY;
  /** The problem that the last poll found, and whether it was logged; null if the files could be used. */
  #broken: { readonly what: string; readonly isLogged: boolean } | null = null;

  private constructor(
    settings: TlsSettings,
    log: Logger,
    files: Files,
    { pollMs = POLL_MS, nodeUri }: TlsFilesOptions,
  ) {
    this.#settings = settings;
    this.#nodeUri = nodeUri;
    this.#log = log;
    this.#current = materialOf(files, nodeUri);
    this.#digest = digestOf(files);
    this.#warnOfEnd(files);
    this.#polls = new Periodic(pollMs, () => this.#poll());
    this.#polls.start();
  }

  /** Throws a StartError if the files cannot be read or do not fit together. */
  static async open(settings: TlsSettings, log: Logger, options: TlsFilesOptions = {}): Promise<TlsFiles> {
    try {
      return new TlsFiles(settings, log, await read(settings), options);
    } catch (thrown) {
      throw new StartError(`cannot use the TLS files ${describe(settings)}: ${messageOf(thrown)}`);
    }
  }

  /** Why a start could not use the files, such as a key of another certificate, or that of another node; null if it could. */
  static async problemWith(settings: TlsSettings, nodeUri: string): Promise<string | null> {
    try {
      materialOf(await read(settings), nodeUri);
      return null;
    } catch (thrown) {
      return messageOf(thrown);
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
    void this.#polls.stop();
    this.#listeners.clear();
  }

  async #poll(): Promise<void> {
    let digest = '';
    try {
      const files = await read(this.#settings);
      digest = digestOf(files);
      this.#warnOfEnd(files);
      if (digest === this.#digest) {
        this.#broken = null;
        return;
      }
      this.#current = materialOf(files, this.#nodeUri);
    } catch (thrown) {
      this.#report(`${digest} ${messageOf(thrown)}`, thrown);
      return;
    }
    this.#digest = digest;
    this.#broken = null;
    this.#log.info({ certificate: this.#settings.certificateFile }, 'the TLS files have changed');
    for (const listener of this.#listeners) listener(this.#current);
  }

  /** Once a day from WARNED_DAYS on. */
  #warnOfEnd({ certificate, ca }: Files): void {
    const now = Date.now();
    if (now - this.#warnedAt < DAY_MS) return;
    const { certificateFile, caFile } = this.#settings;
    for (const [file, pem] of [
      [certificateFile, certificate],
      [caFile, ca],
    ] as const) {
      const ends = firstEnd(pem);
      if (daysLeft(ends, now) >= WARNED_DAYS) continue;
      this.#warnedAt = now;
      this.#log.warn(
        { file, ends: ends.toISOString() },
        `the certificate ${endInWords(ends, now)}; after that no new connection is accepted: issue another one and put it in its place`,
      );
    }
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

/** Why the certificate does not belong to the node; null if it does. */
export function misnamedNode(
  { subjectAltName }: Pick<X509Certificate, 'subjectAltName'>,
  nodeUri: string,
): string | null {
  const found = urisIn(subjectAltName ?? '').filter((uri) => /^blockdelta:/i.test(uri));
  if (found.length === 1 && found[0] === nodeUri) return null;
  const named = found.length === 0 ? 'no node' : printable(found.join(' and '), 500);
  return (
    `the certificate names ${named} instead of ${nodeUri} alone: issue one with this URI as a subject ` +
    'alternative name for this node (docs/router.md, "Certificates"), or correct the id or the address of the node'
  );
}

/**
 * The URIs in the text that Node.js prints for a subject alternative name. In this text, ", " separates the names, and every
 * part with a comma, a quote or a control character is a JSON string. Returns no URIs for a text of another form.
 */
export function urisIn(subjectAltName: string): string[] {
  const name = /((?:[^,"]|"(?:[^"\\]|\\.)*")+)(?:, |$)/y;
  const uris: string[] = [];
  while (name.lastIndex < subjectAltName.length) {
    const [, text] = name.exec(subjectAltName) ?? [];
    if (text === undefined) return [];
    const value = /^URI:(.*)$/s.exec(text)?.[1];
    if (value === undefined) continue;
    const quoted = parseQuoted(value);
    if (quoted === null) return [];
    uris.push(quoted);
  }
  return uris;
}

/** Returns null if the value begins with a quote but is not a JSON string. */
function parseQuoted(value: string): string | null {
  if (!value.startsWith('"')) return value;
  try {
    return String(JSON.parse(value));
  } catch {
    return null;
  }
}

async function read({ certificateFile, keyFile, caFile }: TlsSettings): Promise<Files> {
  const [certificate, key, ca] = await Promise.all([readFile(certificateFile), readFile(keyFile), readFile(caFile)]);
  return { certificate, key, ca };
}

function materialOf({ certificate, key, ca }: Files, nodeUri: string | undefined): TlsMaterial {
  // This throws for a CA file without certificates. A context would ignore such a file and then trust nobody.
  new X509Certificate(ca);
  const options: SecureContextOptions = {
    cert: certificate,
    key,
    ca,
    minVersion: 'TLSv1.3',
  };
  const context = createSecureContext(options);
  const problem = nodeUri && misnamedNode(new X509Certificate(certificate), nodeUri);
  if (problem) throw new Error(problem);
  return { options, context };
}

function digestOf({ certificate, key, ca }: Files): string {
  const hash = createHash('sha256');
  for (const file of [certificate, key, ca]) hash.update(`${file.length}\0`).update(file);
  return hash.digest('hex');
}

function describe({ certificateFile, keyFile, caFile }: TlsSettings): string {
  return `${certificateFile}, ${keyFile} and ${caFile}`;
}
