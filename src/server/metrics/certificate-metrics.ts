/** When the certificates of a process end, read from their files at each collection. */
import { Gauge, type Registry } from 'prom-client';
import { certificateEnds } from '../../base/listening/certificate-end.js';
import type { TlsSettings } from '../../base/settings/tls.js';
import type { Source } from './exposition.js';

export class CertificateMetrics {
  readonly #left: Gauge<'use'>;

  constructor(registry: Registry) {
    this.#left = new Gauge({
      name: 'blockdelta_certificate_left_seconds',
      help: 'time until the first certificate in the file of this process (own) or of the authorities of its peers expires; negative afterwards, NaN if a file cannot be read',
      labelNames: ['use'],
      registers: [registry],
    });
  }

  source(tls: TlsSettings): Source {
    return async () => {
      const ends = await certificateEnds(tls).catch(() => null);
      for (const use of ['own', 'authorities'] as const) {
        const end = ends?.find((each) => each.use === use)?.ends.getTime() ?? Number.NaN;
        this.#left.set({ use }, (end - Date.now()) / 1000);
      }
    };
  }
}
