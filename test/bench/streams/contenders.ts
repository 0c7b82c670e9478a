/** The servers of the suite stream, each with its client: ours, and the peers that are installed. */

import { run } from '../../../src/tools/bench/run.js';
import type { Settings } from '../../../src/tools/bench/suite.js';
import type { Workspace } from '../../../src/tools/bench/workspace.js';
import { compilePeer } from '../peers.js';
import { isMissing } from '../programs.js';
import { ENTRIES_PER_MESSAGE, forkPatternServer } from './pattern.js';
import { PLAIN_STREAMS } from './scan-server.js';
import { ServerProcess } from './server-process.js';
import { StreamReader, type StreamReading, type StreamRequest } from './stream-reader.js';

export interface Contender {
  label: string;
  server: ServerProcess;
  reader: Pick<StreamReader, 'client' | 'read'>;
}

/** A server, or why there is none and what to install. */
export type MaybeContender = Contender | { missing: string };

export function isServed(contender: MaybeContender): contender is Contender {
  return 'server' in contender;
}

/** The plugin's way from the scan to the socket. */
export async function ourServer(settings: Settings, workspace: Workspace, name = 'ours'): Promise<Contender> {
  const server = await forkPatternServer(settings, workspace.path(`${name}.sock`));
  return { label: 'blockdelta', server, reader: await StreamReader.open(settings, server) };
}

/** The same, with every message through grpc-js in place of frames that are written to the HTTP/2 stream. */
export async function plainServer(settings: Settings, workspace: Workspace): Promise<Contender> {
  const socket = workspace.path('plain.sock');
  const server = await forkPatternServer(settings, socket, { env: { [PLAIN_STREAMS]: '1' } });
  return { label: 'through grpc-js', server, reader: await StreamReader.open(settings, server) };
}

/** The C++ gRPC server with generated messages, or why it is not there. */
export async function cppServer(settings: Settings, workspace: Workspace, name = 'cpp'): Promise<MaybeContender> {
  const compiled = await compilePeer('grpc_stream_server');
  if (isMissing(compiled)) return compiled;
  const socket = workspace.path(`${name}.sock`);
  const server = await ServerProcess.spawn(settings, compiled.program, [socket], socket);
  return { label: 'C++ gRPC', server, reader: await StreamReader.open(settings, server) };
}

/** The list as JavaScript objects through proto-loader. */
export async function objectServer(settings: Settings, workspace: Workspace): Promise<Contender> {
  const server = await ServerProcess.fork(settings, 'object-server', workspace.path('objects.sock'));
  return { label: 'grpc-js objects', server, reader: await StreamReader.open(settings, server) };
}

/** The same bytes over a plain socket, to a client that only reads. It makes messages of the size asked for. */
export async function rawServer(settings: Settings, workspace: Workspace): Promise<MaybeContender> {
  const compiled = await compilePeer('raw_stream');
  if (isMissing(compiled)) return compiled;
  const { program } = compiled;
  const socket = workspace.path('raw.sock');
  const server = await ServerProcess.spawn(settings, program, ['serve', socket], socket);
  const read = async ({ entries, perMessage }: StreamRequest): Promise<StreamReading> => {
    const each = perMessage || ENTRIES_PER_MESSAGE;
    const before = await server.meter.cpuMs();
    const args = ['read', socket, String(entries), String(each)];
    const { stdout } = await run(program, args, { check: true });
    const { bytes, totalUs } = JSON.parse(stdout) as { bytes: number; totalUs: number };
    const cpuMs = (await server.meter.cpuMs()) - before;
    const messages = Math.ceil(entries / each);
    return { messages, bytes, totalMs: totalUs / 1e3, cpuMs, firstMs: 0, entries: 0, checksum: '' };
  };
  return { label: 'raw socket', server, reader: { client: 'raw socket', read } };
}

/** All decode to the same list; throws otherwise. Warms them up as well. */
export async function assertSameList(
  contenders: readonly Contender[],
  entries: number,
  perMessage: number,
): Promise<void> {
  const found: string[] = [];
  for (const { reader } of contenders) {
    const { checksum, entries: count } = await reader.read({ entries, perMessage, decode: true });
    found.push(`${count} entries, checksum ${checksum}`);
  }
  const different = found.findIndex((each) => each !== found[0]);
  if (different < 0 && found[0]?.startsWith(`${entries} `)) return;
  const wrong = contenders[Math.max(0, different)]?.label;
  throw new Error(`${wrong} does not send the generated list: ${found.join('; ')}`);
}
