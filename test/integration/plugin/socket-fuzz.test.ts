/**
 * Malformed and hostile requests over the real socket: each gets a CSI status, nothing
 * outside the plugin's directories changes, and the plugin keeps working.
 */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { assertUnharmed } from '../../support/fuzz-run.js';
import { isNightly } from '../../support/nightly.js';
import { seededRandom } from '../../support/random.js';
import { runPlugin, test } from '../../support/running-plugin.js';

const REQUESTS = isNightly ? 40_000 : 150;

const running = runPlugin('fuzz', {
  pools: { main: 'xfs' },
  poolSizeMiB: 1024,
  env: { BLOCKDELTA_CONTROLLER_PUBLISH: 'on', BLOCKDELTA_CSI_LEVEL: '1.13' },
});

test(`G1, E4: ${REQUESTS} hostile requests each get a CSI status, and harm nothing`, () =>
  assertUnharmed(running, seededRandom('socket fuzz'), { requests: REQUESTS, mostMore: 20_000 }));

/** Opens the socket, writes, and disconnects at once or when the plugin closes the connection. */
function writeAndVanish(path: string, bytes: Buffer, waitMs: number): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.on('error', () => undefined);
    socket.on('close', () => resolve());
    socket.on('connect', () => {
      socket.write(bytes);
      setTimeout(() => socket.destroy(), waitMs);
    });
    socket.resume();
  });
}

test('G1: bytes that are not HTTP/2, or stop half way, do not affect other clients', async () => {
  const random = seededRandom('socket junk');
  const { client, plugin, workspace } = running;
  const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  const settings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
  const pid = plugin.process.pid;
  for (let round = 0; round < 20; round += 1) {
    const junk = Array.from({ length: 16 }, () => {
      const noise = random.bytes(random.below(2000));
      const start = random.pick([[], [preface], [preface, settings], [preface.subarray(0, 9)]]);
      return writeAndVanish(workspace.path('plugin.sock'), Buffer.concat([...start, noise]), random.below(30));
    });
    const answer = await client.identity.Probe({});
    assert.equal(answer['ready'].value, true);
    await Promise.all(junk);
  }
  assert.equal(plugin.process.exitCode, null);
  assert.equal(plugin.process.pid, pid);
});
