/**
 * Parses the settings of connections between routers and nodes over TCP: an address, and the files and names of mutual TLS.
 * Such a connection needs all of these settings. Reads no environment and no file itself.
 */
import { isAbsolute } from 'node:path';
import { ConfigError, type HostPort, parseHostPort } from './values.js';

/** Both sides present a certificate; neither talks to a peer that it cannot verify. */
export interface TlsSettings {
  /** PEM files: this side's certificate with its chain, its private key, and the authorities that sign the peer's. */
  readonly certificateFile: string;
  readonly keyFile: string;
  readonly caFile: string;
  /** The DNS name that the peer's certificate must carry as a subject alternative name. */
  readonly peerName: string;
}

/** The listener of a node for its router. */
export interface ListenSettings {
  readonly address: HostPort;
  readonly tls: TlsSettings;
}

type Given = (
  name: 'BLOCKDELTA_TLS_CERTIFICATE' | 'BLOCKDELTA_TLS_KEY' | 'BLOCKDELTA_TLS_CA' | 'BLOCKDELTA_TLS_PEER_NAME',
) => string | undefined;

const FILES = ['BLOCKDELTA_TLS_CERTIFICATE', 'BLOCKDELTA_TLS_KEY', 'BLOCKDELTA_TLS_CA'] as const;

/** host:port, as parseHostPort takes it. */
export function formatHostPort({ host, port }: HostPort): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** @param reason why TLS is needed, such as "BLOCKDELTA_LISTEN_ADDRESS is set" */
export function parseTls(given: Given, peerNameFallback: string, reason: string): TlsSettings {
  const missing = FILES.filter((name) => given(name) === undefined);
  if (missing.length > 0) {
    throw new ConfigError(
      `${missing.join(' and ')} ${missing.length > 1 ? 'are' : 'is'} not set, but ${reason}: ` +
        'TCP is used with mutual TLS only, which needs a certificate, its key and the CA of the peers',
    );
  }
  const file = (name: (typeof FILES)[number]): string => {
    const path = given(name) ?? '';
    if (isAbsolute(path) && !path.includes('\0')) return path;
    throw new ConfigError(`${name} is '${path}': it must be the absolute path of a PEM file`);
  };
  return Object.freeze({
    certificateFile: file('BLOCKDELTA_TLS_CERTIFICATE'),
    keyFile: file('BLOCKDELTA_TLS_KEY'),
    caFile: file('BLOCKDELTA_TLS_CA'),
    peerName: parsePeerName(given('BLOCKDELTA_TLS_PEER_NAME') ?? peerNameFallback),
  });
}

/** Null if there is no listener. Refuses a TLS file without an address, because the operator then expects a listener. */
export function parseListen(
  given: (name: 'BLOCKDELTA_LISTEN_ADDRESS' | Parameters<Given>[0]) => string | undefined,
  peerNameFallback: string,
): ListenSettings | null {
  const value = given('BLOCKDELTA_LISTEN_ADDRESS');
  if (value === undefined) {
    const stray = FILES.find((name) => given(name) !== undefined);
    if (stray === undefined) return null;
    throw new ConfigError(
      `${stray} is set and BLOCKDELTA_LISTEN_ADDRESS is not: set the address to listen on, or neither`,
    );
  }
  const address = Object.freeze(parseHostPort('BLOCKDELTA_LISTEN_ADDRESS', value));
  if (address.port === 0) {
    throw new ConfigError(`BLOCKDELTA_LISTEN_ADDRESS is '${value}': routers must know the port, so it cannot be 0`);
  }
  const tls = parseTls(given, peerNameFallback, 'BLOCKDELTA_LISTEN_ADDRESS is');
  return Object.freeze({ address, tls });
}

function parsePeerName(value: string): string {
  const label = '[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
  if (value.length <= 253 && new RegExp(`^${label}(\\.${label})*$`).test(value)) return value;
  throw new ConfigError(
    `BLOCKDELTA_TLS_PEER_NAME is '${value}': it must be the DNS name in the peer's certificate, without a wildcard`,
  );
}
