/**
 * The small client in Go of docs/examples: its head's commands build it with Debian's packages, and it does what
 * test/integration/commands/example-clients.test.ts holds the other clients to, and stops where it must.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { CsiError, StatusCode } from '../../src/base/errors.js';
import { packagePath } from '../../src/base/package-root.js';
import { exampleSnapshots } from '../support/example-snapshots.js';
import { seededRandom } from '../support/random.js';
import { type FakeStream, frame, type Row, startMetadata } from '../support/server-fixture.js';
import { temporaryDirectory } from '../support/temporary.js';
import { skipUnlessRoot } from '../support/workspace.js';

const MIB = 1 << 20;
const SOURCE = packagePath('docs/examples/backup-client/go/main.go');
const PROGRAMS = ['go', 'protoc', 'protoc-gen-go', 'protoc-gen-go-grpc'];
const FILES = [
  '/usr/share/gocode/src/google.golang.org/grpc',
  '/usr/share/gocode/src/google.golang.org/protobuf',
  '/usr/include/google/protobuf/descriptor.proto',
];

/** The commands of the head, which are indented: the use, the packages, and how it is built. */
const [, installation = '', building = ''] = (readFileSync(SOURCE, 'utf8').split('\npackage ')[0] ?? '')
  .split(/^\/\/ .*\n/m)
  .map((part) => part.replaceAll(/^\/\/[\t ]*/gm, '').trim())
  .filter((part) => part !== '')
  .flatMap((part) => part.split('\n\n'));
const packages = installation.replaceAll('\\\n', ' ').split(/\s+/).slice(2);

const isMissing =
  PROGRAMS.some((name) => spawnSync('which', [name]).status !== 0) || FILES.some((path) => !existsSync(path));

test('the document names the packages that the head of the client in Go names', () => {
  assert.ok(packages.includes('golang-go'), installation);
  const document = readFileSync(packagePath('docs/backup-authors.md'), 'utf8');
  const [, row] = /^\| Go \|.*\| `([^`]+)` \|$/m.exec(document) ?? [];
  assert.equal(row, packages.join(' '));
});

describe('the example in Go', {
  skip: skipUnlessRoot || (isMissing && `needs ${packages.join(' ')}`),
}, () => {
  const directory = temporaryDirectory();
  const path = (name: string): string => join(directory, name);
  // Compiling gRPC takes half a minute of processor: Go keeps what it has made of the same sources.
  const env = { ...process.env, GOCACHE: packagePath('.native-build/go-cache'), GOFLAGS: '' };

  const { running, ids, fileOf } = exampleSnapshots('go-client');

  before(() => {
    copyFileSync(packagePath('proto/csi.proto'), path('csi.proto'));
    copyFileSync(SOURCE, path('main.go'));
    execFileSync('sh', ['-eu', '-c', building], { cwd: directory, env });
  });

  /** What the client prints, without its line end. */
  async function run(...args: string[]): Promise<string> {
    const { stdout } = await promisify(execFile)(path('client'), args);
    return stdout.trim();
  }

  /** What it says when it fails, with nothing on its output. */
  async function failure(...args: string[]): Promise<string> {
    try {
      await run(...args);
    } catch (thrown) {
      const { code, stdout, stderr } = thrown as { code: number; stdout: string; stderr: string };
      assert.deepEqual({ code, stdout }, { code: 1, stdout: '' });
      return stderr.trim();
    }
    throw new Error('the client does not fail');
  }

  /** A server of such lists, a device of `parts` MiB, and an image with other content. */
  async function serve(t: TestContext, parts: number, stream: FakeStream) {
    const { socketPath, seen } = await startMetadata(t, stream);
    const content = seededRandom('go client').bytes(parts * MIB);
    const [device, image] = [path('device'), path('image')];
    writeFileSync(device, content);
    writeFileSync(image, 'something else');
    const args = [socketPath, device, image, 'target'] as const;
    return { seen, content, args, offsets: () => seen.map((request) => Number(request['starting_offset'])), image };
  }

  test('the client in Go is as gofmt writes it, and go vet finds nothing in it', () => {
    assert.equal(execFileSync('gofmt', ['-d', SOURCE], { encoding: 'utf8' }), '');
    const [, GOPATH] = /GOPATH=(\S+)/.exec(building) ?? [];
    const vet = spawnSync('sh', ['-eu', '-c', `GO111MODULE=off GOPATH=${GOPATH} go vet main.go`], {
      cwd: directory,
      env,
      encoding: 'utf8',
    });
    assert.equal(vet.status, 0, vet.stderr);
  });

  test('the client in Go rebuilds a snapshot, and brings it to a later one by what changed, or by a full image', async () => {
    const image = path('snapshot.raw');
    const socket = running.workspace.path('plugin.sock');
    const made = (of: string, ...base: string[]) => run(socket, fileOf(of), image, of, ...base);
    assert.match(await made(ids.first), /^full \d+ \d+$/);
    assert.ok(readFileSync(image).equals(readFileSync(fileOf(ids.first))));
    assert.match(await made(ids.second, ids.first), /^delta [1-9]\d* \d+$/);
    assert.ok(readFileSync(image).equals(readFileSync(fileOf(ids.second))));
    writeFileSync(image, 'something else');
    assert.match(await made(ids.second, `${ids.first.slice(0, -4)}0000`), /^full/);
    assert.ok(readFileSync(image).equals(readFileSync(fileOf(ids.second))));
    await failure(socket, fileOf(ids.second), image, `${ids.second.slice(0, -4)}0000`, ids.first);
    assert.ok(
      readFileSync(image).equals(readFileSync(fileOf(ids.second))),
      'a target that does not exist leaves the image',
    );
  });

  test('the client in Go resumes a stream where it broke, also when the next one begins before that', async (t) => {
    const codes = ['UNAVAILABLE', 'ABORTED', 'DEADLINE_EXCEEDED', 'CANCELLED'] as const;
    const { args, offsets, image, content } = await serve(t, 4, async (request, _context, writer) => {
      const offset = Number(request['starting_offset']);
      const early = Math.min(offset, 4096);
      const rows: Row[] = offset === content.length ? [] : [[offset - early, MIB + early]];
      await writer.send(frame(content.length, rows));
      const code = codes[offset / MIB];
      if (code !== undefined) throw new CsiError(StatusCode[code], 'going away');
    });
    assert.equal(await run(...args), `full 4 ${4 * MIB + 3 * 4096}`);
    assert.deepEqual(offsets(), [0, MIB, 2 * MIB, 3 * MIB, 4 * MIB]);
    assert.ok(readFileSync(image).equals(content));
  });

  test('the client in Go gives up after five streams since the last message, with growing pauses', async (t) => {
    const times: number[] = [];
    const { args, offsets } = await serve(t, 1, async (request, _context, writer) => {
      const offset = Number(request['starting_offset']);
      if (times.push(performance.now()) <= 2) await writer.send(frame(MIB, [[offset, 4096]]));
      throw new CsiError(StatusCode.UNAVAILABLE, 'going away');
    });
    assert.match(await failure(...args), /Unavailable.*going away/);
    assert.deepEqual(offsets(), [0, 4096, 8192, 8192, 8192, 8192]);
    const pauses = times.slice(1).map((time, index) => time - (times[index] ?? 0));
    for (const [index, least] of [400, 400, 800, 1600, 3200].entries()) {
      assert.ok((pauses[index] ?? 0) > least - 10, `${pauses}`);
    }
  });

  test('the client in Go makes a full image where the driver refuses a delta, from the start', async (t) => {
    const { args, seen, image, content } = await serve(t, 2, async (request, _context, writer) => {
      const isDelta = 'base_snapshot_id' in request;
      await writer.send(frame(content.length, [[0, isDelta ? MIB : content.length]]));
      if (isDelta) throw new CsiError(StatusCode.FAILED_PRECONDITION, 'not comparable');
    });
    assert.equal(await run(...args, 'base'), `full 1 ${content.length}`);
    assert.equal(seen.length, 2);
    assert.ok(readFileSync(image).equals(content));
  });

  test('the client in Go does not take any other error for a reason to make a full image', async (t) => {
    const { args, seen, image } = await serve(t, 1, () => {
      throw new CsiError(StatusCode.INVALID_ARGUMENT, 'of another volume');
    });
    assert.match(await failure(...args, 'base'), /InvalidArgument.*of another volume/);
    assert.equal(seen.length, 1);
    assert.equal(readFileSync(image, 'utf8'), 'something else');
  });

  const wrong: Readonly<Record<string, Row[]>> = {
    'is not in order': [
      [8192, 4096],
      [0, 4096],
    ],
    'passes the capacity': [[MIB - 4096, 8192]],
    'passes the largest number': [[2n ** 63n - 4096n, 8192]],
  };
  for (const [how, rows] of Object.entries(wrong)) {
    test(`the client in Go does not use a list that ${how}`, async (t) => {
      const { args, seen } = await serve(t, 1, async (_request, _context, writer) => {
        await writer.send(frame(MIB, rows));
      });
      assert.equal(await failure(...args), `the list is wrong at ${rows.at(-1)?.[0]}`);
      assert.equal(seen.length, 1);
    });
  }

  test('the client in Go says where the device ends before the list does', async (t) => {
    const { args } = await serve(t, 1, async (_request, _context, writer) => {
      await writer.send(frame(2 * MIB, [[0, 2 * MIB]]));
    });
    assert.match(await failure(...args), new RegExp(`^the device cannot be read at ${MIB}: `));
  });
});
