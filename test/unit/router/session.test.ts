import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { createSecureContext } from 'node:tls';
import type { TlsFiles } from '../../../src/base/listening/tls-files.js';
import { Session } from '../../../src/router/session.js';
import { eventually } from '../../support/eventually.js';

test('a node that is down is tried again and again without a call, whatever the clock says when a pause ends', async (t) => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  t.mock.method(performance, 'now', () => 0);
  const failures: (string | null)[] = [];
  const session = new Session({
    address: { host: '127.0.0.1', port },
    tls: { current: { context: createSecureContext() } } as unknown as TlsFiles,
    peerName: 'node',
    nodeUri: 'blockdelta://node',
    onChange: (failure) => failures.push(failure),
  });
  t.after(() => session.close());
  await assert.rejects(session.get(), /ECONNREFUSED/);
  await eventually('three attempts', () => failures.length >= 3);
  for (const failure of failures) assert.match(failure ?? '', /ECONNREFUSED/);
});
