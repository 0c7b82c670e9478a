/** Certificates for tests of mutual TLS: authorities, and what they sign, made by openssl(1). */
import { execFileSync } from 'node:child_process';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { nodeUri } from '../../src/base/csi/routed-calls.js';

/** The files of one side. */
export interface CertificateFiles {
  certificate: string;
  key: string;
  ca: string;
}

function openssl(...args: string[]): void {
  execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

const EC_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

export class Authority {
  readonly #directory: string;
  readonly #name: string;
  #issued = 0;

  constructor(directory: string, name = 'ca') {
    this.#directory = directory;
    this.#name = name;
    openssl(
      'req',
      '-x509',
      ...EC_KEY,
      '-days',
      '2',
      '-subj',
      `/CN=${name}`,
      '-keyout',
      this.#path('key'),
      '-out',
      this.file,
    );
  }

  /** The certificate of the authority. */
  get file(): string {
    return this.#path('pem');
  }

  /** The certificate of a node. */
  issueNode(label: string, nodeId: string, driverName = 'blockdelta.csi'): CertificateFiles {
    const name = 'blockdelta-node';
    return this.issue(label, name, name, [nodeUri(driverName, nodeId)]);
  }

  /**
   * A certificate with this DNS name.
   *
   * @param label of the files, which are made anew and moved over older ones
   */
  issue(label: string, dnsName: string, commonName = dnsName, uris: readonly string[] = []): CertificateFiles {
    const all = [...(dnsName === '' ? [] : [`DNS:${dnsName}`]), ...uris.map((uri) => `URI:${uri}`)];
    const names = all.length === 0 ? [] : ['-addext', `subjectAltName=${all.join(',')}`];
    return this.#issue(label, commonName, names);
  }

  /** A certificate with the extensions of the section `san` in a configuration of openssl. */
  issueFrom(label: string, configuration: string): CertificateFiles {
    const text = readFileSync(configuration, 'utf8');
    writeFileSync(configuration, `[req]\ndistinguished_name=dn\n[dn]\n${text}`);
    return this.#issue(label, label, ['-config', configuration, '-extensions', 'san']);
  }

  #issue(label: string, commonName: string, names: readonly string[]): CertificateFiles {
    this.#issued += 1;
    const made = join(this.#directory, `${this.#name}-${this.#issued}`);
    const files = {
      certificate: join(this.#directory, `${label}.pem`),
      key: join(this.#directory, `${label}.key`),
      ca: join(this.#directory, `${label}-ca.pem`),
    };
    openssl(
      'req',
      '-x509',
      ...EC_KEY,
      '-days',
      '2',
      '-subj',
      `/CN=${commonName}`,
      ...names,
      '-CA',
      this.file,
      '-CAkey',
      this.#path('key'),
      '-addext',
      'basicConstraints=CA:FALSE',
      '-keyout',
      `${made}.key`,
      '-out',
      `${made}.pem`,
    );
    writeFileSync(`${made}-ca.pem`, readFileSync(this.file));
    renameSync(`${made}.pem`, files.certificate);
    renameSync(`${made}.key`, files.key);
    renameSync(`${made}-ca.pem`, files.ca);
    return files;
  }

  #path(extension: string): string {
    return join(this.#directory, `${this.#name}.${extension}`);
  }
}

/** The settings of a node or a router that uses these files. */
export function tlsSettings(files: CertificateFiles): Record<string, string> {
  return { BLOCKDELTA_TLS_CERTIFICATE: files.certificate, BLOCKDELTA_TLS_KEY: files.key, BLOCKDELTA_TLS_CA: files.ca };
}
