/**
 * The source of a transfer: nbdkit serves ranges of a block device to whoever has the ticket, over TLS.
 *
 * The list says of each range whether it is to be copied or reads as zeros; all else is a hole, which the target leaves as it
 * is. nbdkit runs as a user of its own and can read the device, the list and the key, and nothing else
 * (base/process/sandbox.ts). Knows no snapshots.
 */
import { access, rm } from 'node:fs/promises';
import { CsiError } from '../../base/errors.js';
import { Program, type ProgramExit } from '../../base/process/program.js';
import { NOT_LISTENING_EXIT_CODE } from '../../base/process/sandbox.js';
import { formatHostPort } from '../../base/settings/tls.js';
import { type Ticket, writeKey, writeReadable } from './ticket.js';
import { processorSecondsFor } from './work.js';

export interface Serving {
  /** The block device, which this process may read. */
  readonly devicePath: string;
  /** A text file with a line "offset size" for each range to be copied, and "offset size zero" for each that reads as zeros. */
  readonly listPath: string;
  /** The size of the ranges to be copied. */
  readonly dataBytes: bigint;
  readonly ticket: Ticket;
  /** The address to listen on, such as 10.0.0.7, or :: for all. */
  readonly host: string;
  /** 0: the kernel chooses. */
  readonly port: number;
  /** Null: as fast as it goes. */
  readonly bytesPerSecond: bigint | null;
  /** A directory that only this user can enter, for the key. */
  readonly directory: string;
  /** Ends the server. */
  readonly signal: AbortSignal;
}

export interface TransferServer {
  readonly port: number;
  readonly hasEnded: boolean;
  /** Resolves when the server has ended, for whatever reason. */
  readonly exited: Promise<ProgramExit>;
  /** Ends the server and all connections to it. */
  close(): Promise<void>;
}

/** Resolves once connections wait for the server. UNAVAILABLE if the port is in use, or if nbdkit cannot serve the device. */
export async function serveTransfer(serving: Serving): Promise<TransferServer> {
  const { devicePath, listPath, host, port, directory, ticket, signal } = serving;
  const keyPath = await writeKey(directory, ticket);
  const removeFiles = async (): Promise<void> => {
    for (const path of [keyPath, ciphersPath(keyPath)]) await rm(path, { force: true });
  };
  try {
    const priorities = await writePriorities(keyPath);
    const program = await Program.start('nbdkit', argumentsOf(serving, keyPath), {
      rights: {
        device: devicePath,
        cpuSeconds: processorSecondsFor(serving.dataBytes),
        gives: [keyPath, listPath, ...priorities],
        network: { listen: formatHostPort({ host, port }) },
      },
      env: Object.fromEntries(priorities.map((path) => ['GNUTLS_SYSTEM_PRIORITY_FILE', path])),
      signal,
    });
    const exited = program.exited.then(async (exit) => {
      await removeFiles();
      return exit;
    });
    const bound = await Promise.race([portOf(program), exited]);
    signal.throwIfAborted();
    if (typeof bound !== 'number') {
      if (bound.exitCode === NOT_LISTENING_EXIT_CODE) throw notListening(serving, program.stderr);
      const failure = program.failure(`serve ${devicePath} at port ${port} of ${host}`, bound);
      throw CsiError.unavailable(failure.message, { cause: failure });
    }
    const close = async (): Promise<void> => {
      program.kill('SIGKILL');
      await exited;
    };
    return {
      port: bound,
      exited,
      close,
      get hasEnded() {
        return program.exit !== null;
      },
    };
  } catch (thrown) {
    await removeFiles();
    throw thrown;
  }
}

const notListening = ({ host, port }: Serving, found: string): CsiError =>
  CsiError.unavailable(
    `nobody can read a snapshot at port ${port} of ${host} (${found}): end the program that uses the port, or give other ports`,
  );

/** Where distributions say which ciphers their programs may use. */
const POLICIES = ['/etc/gnutls/config', '/etc/crypto-policies'];

const ciphersPath = (keyPath: string): string => `${keyPath}.ciphers`;

/**
 * Writes which cipher the server chooses, unless the host has a policy. With a pre-shared key GnuTLS 3.7 prefers ChaCha20 to
 * AES-128, which takes a seventh of the processor time wherever the processor has instructions for it.
 */
async function writePriorities(keyPath: string): Promise<string[]> {
  const found = await Promise.allSettled(POLICIES.map((path) => access(path)));
  if (found.some(({ status }) => status === 'fulfilled')) return [];
  return [await writeReadable(ciphersPath(keyPath), '[overrides]\ntls-disabled-cipher = CHACHA20-POLY1305\n')];
}

const BITS = 8n;
/** The rate of so many seconds may be sent at once, also at the start. The default of nbdkit is two: three times the rate in a second. */
const BURST_S = 0.1;

function argumentsOf(serving: Serving, keyPath: string): string[] {
  const { devicePath, listPath, ticket, bytesPerSecond } = serving;
  return [
    '--foreground',
    '--readonly',
    // Each has a buffer of a request's size; its own default is 16.
    '--threads=8',
    '--tls=require',
    `--tls-psk=${keyPath}`,
    '--filter=exportname',
    ...(bytesPerSecond === null ? [] : ['--filter=rate']),
    '--filter=extentlist',
    'file',
    `file=${devicePath}`,
    `extentlist=${listPath}`,
    `exportname=${ticket.exportName}`,
    'exportname-strict=true',
    ...(bytesPerSecond === null ? [] : [`rate=${bytesPerSecond * BITS}`, `burstiness=${BURST_S}`]),
  ];
}

/** The first line of its stdout. */
const portOf = (program: Program): Promise<number> =>
  new Promise((resolve) => {
    program.stdout.setEncoding('utf8').on('data', (text: string) => resolve(Number.parseInt(text, 10)));
  });
