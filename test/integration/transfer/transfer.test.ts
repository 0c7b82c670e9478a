/** Ranges of one block device copied to another over TLS, by nbdkit and nbdcopy as both ends of a transfer run them. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { constants, getPriority } from 'node:os';
import { after, test as plainTest } from 'node:test';
import { CsiError, StatusCode } from '../../../src/base/errors.js';
import { fetchData, fetchZeros } from '../../../src/driver/transfer/fetch.js';
import type { Range } from '../../../src/driver/transfer/piece-list.js';
import { serveTransfer, type TransferServer } from '../../../src/driver/transfer/serve.js';
import { newTicket, type Ticket } from '../../../src/driver/transfer/ticket.js';
import { eventually } from '../../support/eventually.js';
import { attachLoop, sparseFile } from '../../support/loops.js';
import { seededRandom } from '../../support/random.js';
import { refused } from '../../support/refusal.js';
import { skipUnlessRoot, Workspace } from '../../support/workspace.js';

const MIB = 1 << 20;
const BLOCK = 4096;
const SIZE = 32 * MIB;
const HOST = '127.0.0.1';

function test(title: string, run: () => Promise<void>): void {
  void plainTest(title, { skip: skipUnlessRoot }, run);
}

const workspace = new Workspace('transfer');
after(() => workspace.dispose());

let made = 0;
function device(content: Buffer): string {
  made += 1;
  const path = sparseFile(workspace.path(`device-${made}`), content.length);
  writeFileSync(path, content);
  return attachLoop(path);
}

const contentOf = (path: string): Buffer => {
  execFileSync('blockdev', ['--flushbufs', path]);
  return readFileSync(path);
};

interface Listed extends Range {
  zero?: boolean;
}

function list(ranges: readonly Listed[]): string {
  made += 1;
  const path = workspace.path(`list-${made}`);
  writeFileSync(path, ranges.map(({ offset, size, zero }) => `${offset} ${size}${zero ? ' zero' : ''}\n`).join(''));
  return path;
}

interface Scene {
  ticket: Ticket;
  server: TransferServer;
  target: string;
}

/** Serves the ranges of a device until `use` ends. */
async function serving(
  source: Buffer,
  base: Buffer,
  ranges: readonly Listed[],
  use: (scene: Scene) => Promise<void>,
  options: { ticket?: Ticket; bytesPerSecond?: bigint; host?: string } = {},
): Promise<void> {
  const { ticket = newTicket(), bytesPerSecond = null, host = HOST } = options;
  const place = { host, port: 0, directory: workspace.directory, bytesPerSecond, dataBytes: BigInt(SIZE) };
  const [devicePath, target] = [device(source), device(base)];
  const signal = new AbortController().signal;
  const server = await serveTransfer({ ...place, devicePath, listPath: list(ranges), ticket, signal });
  try {
    await use({ ticket, server, target });
  } finally {
    await server.close();
  }
  assert.deepEqual(
    readdirSync(workspace.directory).filter((name) => name.endsWith('.key')),
    [],
  );
}

function fetching({ ticket, server, target }: Scene, signal = new AbortController().signal) {
  const place = { host: HOST, port: server.port, directory: workspace.directory, signal };
  return { ...place, ticket, devicePath: target, dataBytes: BigInt(SIZE), requestSize: BLOCK, stallMs: 60_000 };
}

async function zerosOf(scene: Scene): Promise<Range[]> {
  const found: Range[] = [];
  await fetchZeros({ ...fetching(scene), sizeBytes: BigInt(SIZE) }, (ranges) => {
    for (const { offset, size } of ranges) found.push({ offset, size });
  });
  return found;
}

const unavailable = (thrown: unknown): boolean => thrown instanceof CsiError && thrown.code === StatusCode.UNAVAILABLE;

test('the target gets all data of the list, zeros too, hears of zeros and keeps everything else', async () => {
  const random = seededRandom('transfer of random ranges');
  const [base, source] = [random.bytes(SIZE), random.bytes(SIZE)];
  const expected = Buffer.from(base);
  const ranges: Listed[] = [];
  const zeros: Range[] = [];
  for (let block = random.below(20); block < SIZE / BLOCK; block += 2 + random.below(40)) {
    const length = Math.min(1 + random.below(30), SIZE / BLOCK - block);
    const [begin, end] = [block * BLOCK, (block + length) * BLOCK];
    const zero = random.below(4) === 0;
    const range = { offset: BigInt(begin), size: BigInt(end - begin) };
    if (zero) zeros.push(range);
    else if (random.below(3) === 0) source.fill(0, begin, end);
    if (!zero) source.copy(expected, begin, begin, end);
    ranges.push({ ...range, zero });
    block += length;
  }
  await serving(source, base, ranges, async (scene) => {
    assert.deepEqual(await zerosOf(scene), zeros);
    await fetchData(fetching(scene));
    assert.ok(contentOf(scene.target).equals(expected));
  });
});

test('an empty list changes nothing, and a source that serves IPv6 too is read over IPv4', async () => {
  const base = Buffer.alloc(SIZE, 5);
  const use = async (scene: Scene): Promise<void> => {
    await fetchData(fetching(scene));
    assert.ok(contentOf(scene.target).equals(base));
    await refused(fetchData({ ...fetching(scene), host: '::1' }), 'FAILED_PRECONDITION', /no IPv4 address/);
  };
  await serving(Buffer.alloc(SIZE, 1), base, [], use, { host: '::' });
});

test('a limited source keeps its rate from the first byte on', async () => {
  const all = [{ offset: 0n, size: BigInt(SIZE) }];
  const use = async (scene: Scene): Promise<void> => {
    const started = performance.now();
    await fetchData({ ...fetching(scene), requestSize: MIB });
    const seconds = (performance.now() - started) / 1000;
    assert.ok(seconds > 0.8, `the bytes of a second were sent in ${seconds} s`);
  };
  await serving(Buffer.alloc(SIZE, 1), Buffer.alloc(SIZE), all, use, { bytesPerSecond: BigInt(SIZE) });
});

test('H40: without the right key, the right name, or TLS, nobody gets a byte', async () => {
  const base = Buffer.alloc(SIZE, 5);
  await serving(Buffer.alloc(SIZE, 1), base, [{ offset: 0n, size: BigInt(SIZE) }], async (scene) => {
    const { key, exportName } = scene.ticket;
    for (const ticket of [
      { key: newTicket().key, exportName },
      { key, exportName: newTicket().exportName },
    ]) {
      await assert.rejects(fetchData(fetching({ ...scene, ticket })), unavailable);
      await assert.rejects(zerosOf({ ...scene, ticket }), unavailable);
    }
    const plain = `nbd://${HOST}:${scene.server.port}/${exportName}`;
    assert.throws(() => execFileSync('nbdinfo', [plain], { stdio: 'pipe' }), /not supported/);
    assert.ok(contentOf(scene.target).equals(base));
    // A scanner that sends garbage and leaves does not disturb the one with the ticket.
    execFileSync('bash', ['-c', `head -c 100000 /dev/urandom > /dev/tcp/${HOST}/${scene.server.port} || true`], {
      stdio: 'ignore',
    });
    await fetchData(fetching(scene));
    assert.ok(contentOf(scene.target).equals(Buffer.alloc(SIZE, 1)));
  });
});

/** The processes of that name with a word of their command line. */
function running(name: string, word: string): { pid: number; words: string[] }[] {
  const found: { pid: number; words: string[] }[] = [];
  for (const pid of readdirSync('/proc').filter((each) => /^\d+$/.test(each))) {
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      if (words[0]?.endsWith(`/${name}`) && words.some((each) => each.includes(word))) found.push({ pid: +pid, words });
    } catch {
      // It has ended.
    }
  }
  return found;
}

const FIRST_USER = 0x7000_0000;

test('both ends run as users of their own without rights, behind all others, and no argument holds the key', async () => {
  const slow = { bytesPerSecond: 1n << 20n };
  const all = [{ offset: 0n, size: BigInt(SIZE) }];
  await serving(
    Buffer.alloc(SIZE, 1),
    Buffer.alloc(SIZE),
    all,
    async (scene) => {
      const { key, exportName } = scene.ticket;
      const abort = new AbortController();
      const fetched = assert.rejects(fetchData(fetching(scene, abort.signal)), /enough/);
      await eventually('nbdcopy runs', () => running('nbdcopy', exportName).length === 1);
      const processes = [...running('nbdkit', exportName), ...running('nbdcopy', exportName)];
      assert.equal(processes.length, 2);
      const users = processes.map(({ pid, words }) => {
        const status = readFileSync(`/proc/${pid}/status`, 'utf8');
        assert.match(status, /^CapEff:\t0+$/m);
        assert.match(status, /^CapBnd:\t0+$/m);
        assert.match(status, /^Seccomp:\t2$/m);
        assert.match(status, /^NoNewPrivs:\t1$/m);
        assert.equal(getPriority(pid), constants.priority.PRIORITY_BELOW_NORMAL);
        assert.ok(!words.join(' ').includes(key));
        assert.ok(!readFileSync(`/proc/${pid}/environ`, 'utf8').includes(key));
        return Number(/^Uid:\t(\d+)/m.exec(status)?.[1]);
      });
      for (const user of users) assert.ok(user >= FIRST_USER);
      assert.notEqual(users[0], users[1]);
      abort.abort(new Error('enough'));
      await fetched;
      assert.deepEqual(running('nbdcopy', exportName), []);
    },
    slow,
  );
});

test('a source that ends, and one that sends nothing, end the copy with an error that says where', async () => {
  const slow = { bytesPerSecond: 1n << 20n };
  const all = [{ offset: 0n, size: BigInt(SIZE) }];
  const use = async (scene: Scene): Promise<void> => {
    const at = `port ${scene.server.port} of ${HOST}`;
    const stalled = fetchData({ ...fetching(scene), stallMs: 100, requestSize: MIB });
    const message = await refused(stalled, 'UNAVAILABLE', /has sent nothing that counts for 0.1 s/);
    assert.ok(message.startsWith(at), message);
    // It may fail before the server's end is known here.
    const ended = refused(fetchData(fetching(scene)), 'UNAVAILABLE', /^nbdcopy, started to copy the data from port/);
    await eventually('nbdcopy runs', () => running('nbdcopy', scene.ticket.exportName).length === 1);
    await scene.server.close();
    await ended;
    await refused(zerosOf(scene), 'UNAVAILABLE', /Connection refused/);
  };
  await serving(Buffer.alloc(SIZE, 1), Buffer.alloc(SIZE), all, use, slow);
});

test('a source that accepts connections and says nothing is given up', async () => {
  const silent = createServer();
  await once(silent.listen(0, HOST), 'listening');
  const { port } = silent.address() as AddressInfo;
  const all = [{ offset: 0n, size: BigInt(SIZE) }];
  try {
    await serving(Buffer.alloc(SIZE, 1), Buffer.alloc(SIZE), all, async (scene) => {
      const asked = { ...fetching(scene), port, stallMs: 100, sizeBytes: BigInt(SIZE) };
      await refused(
        fetchZeros(asked, () => assert.fail()),
        'UNAVAILABLE',
        /has sent nothing that counts for 0.1 s/,
      );
      await refused(fetchData(asked), 'UNAVAILABLE', /has sent nothing that counts for 0.1 s/);
    });
  } finally {
    silent.close();
  }
});

test('a port that is in use, and a device that is gone, are errors of the source', async () => {
  const all = [{ offset: 0n, size: BigInt(SIZE) }];
  await serving(Buffer.alloc(SIZE, 1), Buffer.alloc(SIZE), all, async ({ server, target }) => {
    const place = { host: HOST, port: server.port, directory: workspace.directory, bytesPerSecond: null };
    const request = { ...place, dataBytes: 1n, listPath: list(all), ticket: newTicket() };
    const { signal } = new AbortController();
    const twice = serveTransfer({ ...request, devicePath: target, signal });
    await refused(twice, 'UNAVAILABLE', /^nobody can read a snapshot at port .*Address already in use/);
    const gone = serveTransfer({ ...request, port: 0, devicePath: '/dev/loop-that-is-gone', signal });
    await assert.rejects(gone, { code: 'ENOENT' });
  });
});
