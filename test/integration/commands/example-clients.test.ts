/**
 * The small clients of docs/examples: each rebuilds an image from lists of the real plugin, falls back to a full
 * one, and resumes a stream that a driver breaks.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { CsiError, StatusCode } from '../../../src/base/errors.js';
import { packagePath } from '../../../src/base/package-root.js';
import { exampleSnapshots } from '../../support/example-snapshots.js';
import { seededRandom } from '../../support/random.js';
import { frame, startMetadata } from '../../support/server-fixture.js';
import { skipUnlessRoot } from '../../support/workspace.js';

const PROTO = packagePath('proto/csi.proto');
const EXAMPLES = packagePath('docs/examples/backup-client');
// Inside the package, so that Node.js finds its modules.
const BUILD = packagePath(`.test-build/example-clients-${process.pid}`);

interface Client {
  /** Why it cannot run here; null if it can. */
  missing: string | null;
  build(): string[];
}

const has = (program: string, ...args: string[]): boolean => spawnSync(program, args, { stdio: 'ignore' }).status === 0;

const CLIENTS: Readonly<Record<string, Client>> = {
  typescript: {
    missing: null,
    build: () => {
      const source = join(EXAMPLES, 'typescript', 'client.ts');
      const tsc = packagePath('node_modules/.bin/tsc');
      const options = ['--module', 'nodenext', '--target', 'es2022', '--types', 'node', '--strict'];
      execFileSync(tsc, ['--ignoreConfig', ...options, '--outDir', join(BUILD, 'ts'), source], {
        cwd: packagePath('.'),
      });
      return [process.execPath, join(BUILD, 'ts', 'client.js'), PROTO];
    },
  },
  python: {
    missing: has('/usr/bin/python3', '-c', 'import grpc, google.protobuf')
      ? null
      : 'needs python3-grpcio and python3-protobuf',
    build: () => {
      mkdirSync(join(BUILD, 'python'), { recursive: true });
      protoc(`--python_out=${join(BUILD, 'python')}`);
      const path = `PYTHONPATH=${join(BUILD, 'python')}`;
      return ['env', path, '/usr/bin/python3', join(EXAMPLES, 'python', 'client.py')];
    },
  },
  cpp: {
    missing: has('g++', '--version') && has('pkg-config', 'grpc++') ? null : 'needs g++ and libgrpc++-dev',
    build: () => {
      const source = join(EXAMPLES, 'cpp', 'client.cc');
      const inputs = [PROTO, source, process.arch];
      // Compiling takes half a minute of processor: what was made of the same sources is kept.
      const hash = createHash('sha256');
      for (const input of inputs) hash.update(existsSync(input) ? readFileSync(input) : input);
      const out = packagePath(`.native-build/example-client-${hash.digest('hex').slice(0, 16)}`);
      const program = join(out, 'client');
      const runs = `[ -x '${program}' ] && ldd '${program}' && ! ldd '${program}' | grep 'not found'`;
      if (has('sh', '-c', runs)) return [program];
      mkdirSync(out, { recursive: true });
      const plugin = execFileSync('which', ['grpc_cpp_plugin'], { encoding: 'utf8' }).trim();
      protoc(`--cpp_out=${out}`, `--grpc_out=${out}`, `--plugin=protoc-gen-grpc=${plugin}`);
      const asked = ['--cflags', '--libs', 'grpc++', 'protobuf'];
      const libraries = execFileSync('pkg-config', asked, { encoding: 'utf8' }).trim().split(/\s+/);
      const generated = ['csi.pb.cc', 'csi.grpc.pb.cc'].map((name) => join(out, name));
      const made = `${program}.${process.pid}`;
      const options = ['-std=c++17', '-Wall', `-I${out}`, '-o', made];
      execFileSync('g++', [...options, source, ...generated, ...libraries]);
      renameSync(made, program);
      return [program];
    },
  },
};

function protoc(...outputs: string[]): void {
  const parent = packagePath('proto');
  execFileSync('protoc', [`-I${parent}`, '-I/usr/include', ...outputs, PROTO]);
}

const { running, ids, fileOf } = exampleSnapshots('example-clients');
after(() => rmSync(BUILD, { recursive: true, force: true }));

const bytesOf = (id: string): Buffer => readFileSync(fileOf(id));

for (const [name, client] of Object.entries(CLIENTS)) {
  describe(`the example in ${name}`, {
    skip: skipUnlessRoot === false ? (client.missing ?? false) : skipUnlessRoot,
  }, () => {
    let command: string[];
    before(() => {
      command = client.build();
    });

    /** What the client prints, without its line end. */
    async function run(...args: string[]): Promise<string> {
      const [program = '', ...before] = command;
      const { stdout } = await promisify(execFile)(program, [...before, ...args]);
      return stdout.trim();
    }

    test(`the example in ${name} rebuilds a snapshot, and brings it to a later one by what changed, or by a full image`, async () => {
      const image = running.workspace.path(`${name}.raw`);
      const socket = running.workspace.path('plugin.sock');
      const made = (of: string, ...base: string[]) => run(socket, fileOf(of), image, of, ...base);
      assert.match(await made(ids.first), /^full \d+ \d+$/);
      assert.ok(readFileSync(image).equals(bytesOf(ids.first)));
      assert.match(await made(ids.second, ids.first), /^delta [1-9]\d* \d+$/);
      assert.ok(readFileSync(image).equals(bytesOf(ids.second)));
      writeFileSync(image, 'something else');
      assert.match(await made(ids.second, `${ids.first.slice(0, -4)}0000`), /^full/);
      assert.ok(readFileSync(image).equals(bytesOf(ids.second)));
      await assert.rejects(run(socket, fileOf(ids.second), image, `${ids.second.slice(0, -4)}0000`, ids.first));
      assert.ok(
        readFileSync(image).equals(bytesOf(ids.second)),
        'a target that does not exist leaves the image as it is',
      );
    });

    test(`the example in ${name} resumes a stream where it broke`, async (t) => {
      const content = seededRandom('broken stream').bytes(1 << 20);
      const source = running.workspace.path(`${name}.source`);
      writeFileSync(source, content);
      const part = content.length / 4;
      const { socketPath, seen } = await startMetadata(t, async (request, _context, writer) => {
        const offset = Number(request['starting_offset']);
        const isAtEnd = offset === content.length;
        await writer.send(frame(content.length, isAtEnd ? [] : [[offset, part]]));
        if (!isAtEnd) throw new CsiError(StatusCode.UNAVAILABLE, 'going away');
      });
      const image = running.workspace.path(`${name}-resumed.raw`);
      assert.match(await run(socketPath, source, image, 'snapshot'), /^full 4 /);
      const offsets = seen.map((request) => Number(request['starting_offset']));
      assert.deepEqual(offsets, [0, part, 2 * part, 3 * part, 4 * part]);
      assert.ok(readFileSync(image).equals(content));
    });
  });
}
