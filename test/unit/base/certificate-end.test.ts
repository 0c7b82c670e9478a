/** Who is told that a certificate ends: the log of a process, its metrics, and a report of doctor. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pino } from 'pino';
import { nodeUri } from '../../../src/base/csi/routed-calls.js';
import { certificateEnds, daysLeft, endInWords } from '../../../src/base/listening/certificate-end.js';
import { TlsFiles } from '../../../src/base/listening/tls-files.js';
import { DOCTOR_CHECKS, type DoctorContext } from '../../../src/driver/inspection/doctor-checks.js';
import { Metrics } from '../../../src/server/metrics/metrics.js';
import { temporaryDirectory } from '../../support/temporary.js';

const directory = temporaryDirectory();

/** A key and a certificate of so many days. */
function certificate(name: string, days: number): { certificateFile: string; keyFile: string } {
  const [certificateFile, keyFile] = [join(directory, `${name}.pem`), join(directory, `${name}.key`)];
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', keyFile];
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', ...key, '-days', String(days), '-subj', `/CN=${name}`, '-out', certificateFile],
      ...['-addext', `subjectAltName=URI:${nodeUri('blockdelta.csi', 'node-a')}`],
    ],
    {
      stdio: 'ignore',
    },
  );
  return { certificateFile, keyFile };
}

const long = certificate('long', 400);
const short = certificate('short', 12);
const bundle = join(directory, 'bundle.pem');
writeFileSync(bundle, readFileSync(long.certificateFile, 'utf8') + readFileSync(short.certificateFile, 'utf8'));
const settings = { ...long, caFile: bundle, peerName: 'peer' };

test('the first end of all certificates in a file counts', async () => {
  const now = Date.now();
  const ends = await certificateEnds(settings);
  assert.deepEqual(
    ends.map(({ use, ends: end }) => [use, daysLeft(end, now)]),
    [
      ['own', 399],
      ['authorities', 11],
    ],
  );
  assert.match(endInWords(new Date(now - 1000), now), /^has ended on /);
});

test('a process says once a day from 30 days on that a certificate ends', async (t) => {
  const lines: { level: number; file?: string }[] = [];
  const logger = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
  const files = await TlsFiles.open(settings, logger, { pollMs: 1 });
  t.after(() => files.close());
  assert.deepEqual(
    lines.map(({ level, file }) => [level, file]),
    [[40, bundle]],
  );
});

test('a collection of metrics has the time that is left, and no number if a file cannot be read', async () => {
  const left = async (caFile: string): Promise<(number | string)[]> => {
    const metrics = new Metrics({ command: 'test' });
    metrics.observeCertificates({ ...settings, caFile });
    const address = await metrics.listen({ host: '127.0.0.1', port: 0 }, { isReady: true } as never);
    const text = await (await fetch(`http://${address}/metrics`)).text();
    await metrics.close();
    const values = [...text.matchAll(/^blockdelta_certificate_left_seconds\{use="\w+"\} (\S+)$/gm)];
    return values.map(([, value]) => (value === 'Nan' || value === 'NaN' ? 'NaN' : Math.floor(Number(value) / 86_400)));
  };
  assert.deepEqual(await left(bundle), [399, 11]);
  assert.deepEqual(await left(join(directory, 'absent')), ['NaN', 'NaN']);
});

test('doctor finds certificates that end, and those that cannot be read', async () => {
  const check = DOCTOR_CHECKS.find(({ name }) => name === 'certificates');
  const found = async (more: Record<string, string>): Promise<string[]> => {
    const env = {
      BLOCKDELTA_NODE_ID: 'node-a',
      BLOCKDELTA_LISTEN_ADDRESS: '127.0.0.1:1',
      BLOCKDELTA_TLS_CERTIFICATE: long.certificateFile,
      BLOCKDELTA_TLS_KEY: long.keyFile,
      BLOCKDELTA_TLS_CA: long.certificateFile,
      ...more,
    };
    const { findings = [] } = (await check?.run({ env } as unknown as DoctorContext)) ?? {};
    return findings.map((finding) => finding.found);
  };
  assert.deepEqual(await found({}), []);
  const [ending = '', ...others] = await found({ BLOCKDELTA_TLS_CA: bundle });
  assert.match(ending, /bundle\.pem ends in 11 days, on 20/);
  assert.deepEqual(others, []);
  assert.match((await found({ BLOCKDELTA_TLS_CA: '/absent' }))[0] ?? '', /cannot be used: ENOENT/);
  assert.match((await found({ BLOCKDELTA_NODE_ID: 'node-b' }))[0] ?? '', /cannot be used: .*node-a/);
  assert.match((await found({ BLOCKDELTA_TLS_KEY: short.keyFile }))[0] ?? '', /cannot be used: .*key/);
});
