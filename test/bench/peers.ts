/** The programs that suites compare with, compiled from test/bench/native. What is missing is said with what to install. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { packagePath } from '../../src/base/package-root.js';
import { run } from '../../src/tools/bench/run.js';
import { findProgram, isMissing, type Peer } from './programs.js';

interface Source {
  /** In test/bench/native. */
  file: string;
  headers: readonly string[];
  /** Needs C++ generated from the proto, and gRPC: 'messages', gRPC alone: 'channel', or nothing. */
  grpc?: 'messages' | 'channel';
}

const SOURCES = {
  bare_delta: { file: 'bare_delta.cc', headers: [] },
  bare_compare: { file: 'bare_compare.cc', headers: [] },
  process_clock: { file: 'process_clock.cc', headers: [] },
  raw_stream: { file: 'raw_stream.cc', headers: ['synthetic_list.h'] },
  grpc_stream_client: { file: 'grpc_stream_client.cc', headers: [], grpc: 'channel' },
  grpc_stream_server: {
    file: 'grpc_stream_server.cc',
    headers: ['synthetic_list.h'],
    grpc: 'messages',
  },
} as const satisfies Readonly<Record<string, Source>>;

export type CompiledPeer = keyof typeof SOURCES;

const FLAGS = ['-std=c++17', '-O2'];
const COMPILED = new Map<CompiledPeer, Promise<Peer>>();

/**
 * Compiles a peer, once for the same sources and compiler: the programs stay in ~/.cache/blockdelta-bench (or below
 * XDG_CACHE_HOME). The first time takes a few seconds, with generated messages half a minute.
 */
export function compilePeer(name: CompiledPeer): Promise<Peer> {
  let compiled = COMPILED.get(name);
  if (compiled === undefined) {
    compiled = compile(name);
    COMPILED.set(name, compiled);
  }
  return compiled;
}

async function compile(name: CompiledPeer): Promise<Peer> {
  const source: Source = SOURCES[name];
  const tools = source.grpc === undefined ? ['g++'] : ['g++', 'pkg-config'];
  if (source.grpc === 'messages') tools.push('protoc', 'grpc_cpp_plugin');
  for (const tool of tools) {
    const found = findProgram(tool);
    if (isMissing(found)) return found;
  }
  const libraries = await librariesOf(source);
  if (libraries === null) {
    return {
      missing: 'the C++ library of gRPC is not installed: install the package libgrpc++-dev',
    };
  }
  const directory = await cacheDirectory(source);
  const program = join(directory, name);
  if (existsSync(program)) return { program };
  const partial = `${program}.${process.pid}`;
  const generated = source.grpc === 'messages' ? await generateMessages(directory) : [];
  const file = packagePath(`test/bench/native/${source.file}`);
  const options = [...FLAGS, `-I${directory}`, `-I${packagePath('test/bench/native')}`];
  const built = await run('g++', [...options, file, ...generated, '-o', partial, ...libraries]);
  if (built.code !== 0) {
    const [first = ''] = built.stderr.split('\n').filter((line) => line.includes('error'));
    return { missing: `g++ could not compile ${file}: ${first.trim()}` };
  }
  renameSync(partial, program);
  return { program };
}

/** Null: pkg-config does not know them. */
async function librariesOf({ grpc }: Source): Promise<string[] | null> {
  if (grpc === undefined) return [];
  const packages = grpc === 'messages' ? ['grpc++', 'protobuf'] : ['grpc++'];
  const answer = await run('pkg-config', ['--cflags', '--libs', ...packages]);
  return answer.code === 0 ? answer.stdout.trim().split(/\s+/) : null;
}

async function generateMessages(directory: string): Promise<string[]> {
  const plugin = findProgram('grpc_cpp_plugin');
  if (isMissing(plugin)) throw new Error(plugin.missing);
  const proto = packagePath('proto');
  await run(
    'protoc',
    [
      `-I${proto}`,
      `--cpp_out=${directory}`,
      `--grpc_out=${directory}`,
      `--plugin=protoc-gen-grpc=${plugin.program}`,
      join(proto, 'csi.proto'),
    ],
    { check: true },
  );
  return ['csi.pb.cc', 'csi.grpc.pb.cc'].map((file) => join(directory, file));
}

/** Named after everything that a program is made from. */
async function cacheDirectory(source: Source): Promise<string> {
  const hash = createHash('sha256');
  hash.update((await run('g++', ['--version'])).stdout);
  hash.update(FLAGS.join(' '));
  for (const file of [source.file, ...source.headers]) {
    hash.update(readFileSync(packagePath(`test/bench/native/${file}`)));
  }
  if (source.grpc === 'messages') hash.update(readFileSync(packagePath('proto/csi.proto')));
  const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache');
  const directory = join(cache, 'blockdelta-bench', hash.digest('hex').slice(0, 16));
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  return directory;
}
