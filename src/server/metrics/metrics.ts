/**
 * The metrics of one process: its registry, the metrics of every server, and the listener. Callers add the metrics that only
 * one kind of server has.
 */
import { Registry } from 'prom-client';
import { servedServices } from '../../base/csi/proto.js';
import type { TlsSettings } from '../../base/settings/tls.js';
import type { HostPort } from '../../base/settings/values.js';
import { packageVersion } from '../../base/version.js';
import type { ObservedRpc } from '../calls/call-observer.js';
import { CallMetrics } from './call-metrics.js';
import { CertificateMetrics } from './certificate-metrics.js';
import { Exposition, type Source } from './exposition.js';
import { MetricsListener } from './listener.js';
import { addProcessMetrics } from './process-metrics.js';
import { type Health, Readiness } from './readiness.js';

export interface MetricsOptions {
  /** The command that runs, for the build's labels. */
  command: string;
  /** How long the text of a collection also serves later requests, in milliseconds. */
  freshMs?: number;
}

export class Metrics {
  readonly registry = new Registry();
  readonly calls: CallMetrics;
  readonly #exposition: Exposition;
  readonly #certificates: CertificateMetrics;
  #listener: MetricsListener | null = null;

  constructor({ command, freshMs }: MetricsOptions) {
    addProcessMetrics(this.registry, { version: packageVersion(), command });
    this.calls = new CallMetrics(this.registry, streamedRpcs());
    this.#certificates = new CertificateMetrics(this.registry);
    this.#exposition = new Exposition(this.registry, freshMs);
  }

  /** Adds a source, which updates metrics of the registry before each collection. */
  add(source: Source): void {
    this.#exposition.add(source);
  }

  /** From this call on, each collection reads when these certificates end. */
  observeCertificates(tls: TlsSettings): void {
    this.add(this.#certificates.source(tls));
  }

  /** Serves until close(). Returns the address as host:port. Throws a CsiError if listening on the address fails. */
  async listen(address: HostPort, health: Health): Promise<string> {
    const readiness = new Readiness(health);
    this.#listener = await MetricsListener.listen(address, {
      contentType: this.#exposition.contentType,
      metrics: () => this.#exposition.text(),
      notReady: () => readiness.notReady(),
    });
    return this.#listener.address;
  }

  async close(): Promise<void> {
    await this.#listener?.close();
    this.#listener = null;
  }
}

function streamedRpcs(): ObservedRpc[] {
  return Object.entries(servedServices()).flatMap(([service, methods]) =>
    Object.entries(methods)
      .filter(([, { responseStream }]) => responseStream)
      .map(([name]) => ({ service, name })),
  );
}
