/** Certificates for a router and a node of a benchmark, by openssl(1), and the settings of both sides. */
import { join } from 'node:path';
import { run } from '../../src/tools/bench/run.js';

const EC_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
const DAYS = '2';

/** The TLS settings of each, whose certificate has these subject alternative names. All are signed by one new authority. */
export async function issueCertificates<Name extends string>(
  directory: string,
  names: Readonly<Record<Name, string>>,
): Promise<Record<Name, Record<string, string>>> {
  const authority = { key: join(directory, 'ca.key'), file: join(directory, 'ca.pem') };
  const request = ['req', '-x509', ...EC_KEY, '-days', DAYS];
  const options = { check: true };
  await run('openssl', [...request, '-subj', '/CN=ca', '-keyout', authority.key, '-out', authority.file], options);
  const issued = await Promise.all(
    Object.entries<string>(names).map(async ([name, alternatives]) => {
      const files = { key: join(directory, `${name}.key`), file: join(directory, `${name}.pem`) };
      const signed = ['-CA', authority.file, '-CAkey', authority.key];
      const extensions = ['-addext', `subjectAltName=${alternatives}`, '-addext', 'basicConstraints=CA:FALSE'];
      const output = ['-keyout', files.key, '-out', files.file];
      await run('openssl', [...request, '-subj', `/CN=${name}`, ...signed, ...extensions, ...output], options);
      const settings = {
        BLOCKDELTA_TLS_CERTIFICATE: files.file,
        BLOCKDELTA_TLS_KEY: files.key,
        BLOCKDELTA_TLS_CA: authority.file,
      };
      return [name, settings] as const;
    }),
  );
  return Object.fromEntries(issued) as unknown as Record<Name, Record<string, string>>;
}
