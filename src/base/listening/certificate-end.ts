/**
 * When the certificates of one side of mutual TLS end. After that no peer accepts a new connection, on every node at once if
 * all were issued on one day. Knows no listener.
 */
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { TlsSettings } from '../settings/tls.js';

/** From here on a log, a report or an alert says so. */
export const WARNED_DAYS = 30;

export const DAY_MS = 86_400_000;
const PEM = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;

export interface CertificateEnd {
  /** This side's own certificate with its chain, or the authorities of the peer. */
  use: 'own' | 'authorities';
  file: string;
  /** The first end of a certificate in the file. */
  ends: Date;
}

/** Rejects if a file cannot be read or holds no certificate. */
export async function certificateEnds(
  settings: Pick<TlsSettings, 'certificateFile' | 'caFile'>,
): Promise<CertificateEnd[]> {
  const own = { use: 'own', file: settings.certificateFile } as const;
  const authorities = { use: 'authorities', file: settings.caFile } as const;
  return Promise.all([own, authorities].map(async (each) => ({ ...each, ends: firstEnd(await readFile(each.file)) })));
}

/** The first end of a certificate in the PEM text. Throws if there is none. */
export function firstEnd(pem: Buffer): Date {
  const found = pem.toString('latin1').match(PEM) ?? [pem];
  return new Date(Math.min(...found.map((each) => Date.parse(new X509Certificate(each).validTo))));
}

/** In whole days, rounded down; negative after the end. */
export function daysLeft(ends: Date, now: number): number {
  return Math.floor((ends.getTime() - now) / DAY_MS);
}

/** For the end of a sentence about a file: "ends in 12 days, on 2026-12-24T…". */
export function endInWords(ends: Date, now: number): string {
  const days = daysLeft(ends, now);
  const on = ends.toISOString();
  return days < 0 ? `has ended on ${on}` : `ends in ${days} days, on ${on}`;
}
