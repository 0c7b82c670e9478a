/**
 * Two pools of this process and what the plugin runs to pull a snapshot of one into the other. Plays the router itself, so that a
 * pull is nothing but a pull. Counts the bytes on the loopback interface: nothing else may use it meanwhile.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { newSnapshotId, newVolumeId } from '../../../src/base/csi/handles.js';
import { ReflinkBackend } from '../../../src/driver/backends/reflink/reflink-backend.js';
import { BackendRegistry } from '../../../src/driver/backends/registry.js';
import { openCatalogue } from '../../../src/driver/catalogue/catalogue-client.js';
import type { DescribedSnapshot, SnapshotRecord } from '../../../src/driver/catalogue/records.js';
import { NativePool } from '../../../src/driver/native/pool.js';
import { ScanThreads } from '../../../src/driver/native/scan-threads.js';
import { OpenTransfers } from '../../../src/driver/replicas/open-transfers.js';
import { Pulls } from '../../../src/driver/replicas/pulls.js';
import { ReplicaKeeper } from '../../../src/driver/replicas/replica-keeper.js';
import { OperationLocks } from '../../../src/driver/volumes/operation-locks.js';
import { makePool } from '../../../src/tools/bench/pool.js';
import { run } from '../../../src/tools/bench/run.js';
import type { Settings } from '../../../src/tools/bench/suite.js';
import { Workspace } from '../../../src/tools/bench/workspace.js';
import { issueCertificates } from '../certificates.js';
import { watchPrograms } from './program-memory.js';

export const MIB = 2 ** 20;
export const CHANGED_SHARE = 0.01;
const KEY = '0'.repeat(12);
const PORT = 10_909;
const CHECK = { check: true };

export interface TwoPools {
  transfers: OpenTransfers;
  pulls: Pulls;
  keeper: ReplicaKeeper;
  source: ReflinkBackend;
  target: ReflinkBackend;
  certificate: string;
  key: string;
  /** The directory of the workspace, which the programs of this run name. */
  directory: string;
  /** Makes a volume of that size, and returns what writes to it and takes a snapshot. */
  volume(bytes: number): Promise<(write: Write) => Promise<DescribedSnapshot>>;
}

/** Writes to a volume's device. */
type Write = (file: number) => Promise<void>;

const signal = new AbortController().signal;
const quiet = { info: () => undefined, warn: () => undefined };

export async function makePools(settings: Settings): Promise<TwoPools> {
  const workspace = Workspace.make(settings, 'transfer');
  const native = new NativePool(2);
  const [source, target] = [await backendIn(workspace, native, 'from'), await backendIn(workspace, native, 'to')];
  const catalogue = await openCatalogue(workspace.path('catalogue.sqlite'));
  await catalogue.registerPool('bench', '1'.repeat(32));
  const directory = workspace.path('transfers');
  mkdirSync(directory, { mode: 0o700 });
  const taken = new Map<string, SnapshotRecord>();
  const rows = { snapshotById: async (id: string) => taken.get(id) ?? null, retainedBaseById: async () => null };
  const locks = new OperationLocks();
  const transfers = new OpenTransfers({
    catalogue: rows,
    locks: new OperationLocks(),
    scanThreads: new ScanThreads(native, 1),
    backendOf: () => source,
    settings: { ports: [0], host: '127.0.0.1', bytesPerSecond: null },
    directory,
    logger: quiet,
  });
  const deps = { catalogue, registry: new BackendRegistry([target]), locks, logger: quiet };
  const pulls = new Pulls({ ...deps, directory });
  const keeper = new ReplicaKeeper({ ...deps, pulls, transfers, lacksRows: () => false });
  settings.cleanup.defer(async () => {
    await transfers.stop();
    await pulls.stop();
    await catalogue.close();
    await source.stop();
    await target.stop();
    await native.close();
  });
  const volume = async (bytes: number) => {
    const volumeId = newVolumeId(KEY);
    const sizeBytes = BigInt(bytes);
    await source.volumes.create(volumeId, sizeBytes);
    return async (write: Write): Promise<DescribedSnapshot> => {
      const { devicePath } = await source.attachments.attach(volumeId, { readOnly: false });
      const file = openSync(devicePath, 'r+');
      await write(file);
      fsyncSync(file);
      closeSync(file);
      await source.attachments.detach(volumeId);
      const snapshotId = newSnapshotId(KEY);
      await source.snapshots.create([{ volumeId, snapshotId }]);
      const own = { snapshotId, volumeId, sizeBytes, sequence: BigInt(taken.size + 1), creationTimeNs: 1n };
      const row = { name: snapshotId, groupSnapshotId: null, pool: 'bench', state: 'ready' as const, parameters: {} };
      taken.set(snapshotId, { ...own, ...row, pristine: false, awaitsCopy: false });
      const facts = { pristine: false, fileSystem: null, capabilities: [] };
      return { ...own, ...facts, catalogueUuid: 'c', poolUuid: 'd' };
    };
  };
  const issued = await issueCertificates(workspace.directory, { peer: 'DNS:localhost' });
  return {
    transfers,
    pulls,
    keeper,
    source,
    target,
    certificate: issued.peer['BLOCKDELTA_TLS_CERTIFICATE'] ?? '',
    key: issued.peer['BLOCKDELTA_TLS_KEY'] ?? '',
    directory: workspace.directory,
    volume,
  };
}

async function backendIn(workspace: Workspace, native: NativePool, name: string): Promise<ReflinkBackend> {
  const directory = await makePool(workspace, 'xfs', name);
  const policy = { owner: '0'.repeat(32), overcommitPercent: 100n, reservePercent: 0n };
  const backend = new ReflinkBackend(native, {
    pool: 'bench',
    directory,
    embeddedPoolBytes: null,
    changeLists: true,
    ...policy,
  });
  await backend.start();
  return backend;
}

/** Random, so that nothing may be left out. */
export async function fill(file: number, bytes: number): Promise<void> {
  for (let at = 0; at < bytes; at += MIB) {
    writeSync(file, randomBytes(MIB), 0, MIB, at);
    // Signals are heard in between.
    if (at % (64 * MIB) === 0) await setImmediate();
  }
}

/** Overwrites a hundredth of the data in pieces at random places. */
export async function change({ random }: Settings, file: number, bytes: number, size: number): Promise<void> {
  const pieces = bytes / size;
  for (let count = Math.floor(pieces * CHANGED_SHARE); count > 0; count -= 1) {
    writeSync(file, randomBytes(size), 0, size, random.below(pieces) * size);
  }
}

/** A pull that is measured again and again: one figure for each time. */
export class MeasuredPull {
  readonly seconds: number[] = [];
  readonly sentBytes: number[] = [];
  readonly programMiB: number[] = [];
  /** Of the list of what differs from the base. */
  changedBytes = 0;

  constructor(
    private readonly pools: TwoPools,
    private readonly wanted: DescribedSnapshot,
    private readonly base: DescribedSnapshot | null,
  ) {}

  /** The base is there, and nothing newer of the volume. What is pulled stays. Resolves to the seconds. */
  async measure(): Promise<number> {
    const { pools, wanted, base } = this;
    await run('sync', [], CHECK);
    const memory = watchPrograms(pools.directory);
    const sent = loopbackBytes();
    const started = performance.now();
    this.changedBytes = Number(await bring(pools, wanted));
    const seconds = (performance.now() - started) / 1000;
    this.seconds.push(seconds);
    this.sentBytes.push(loopbackBytes() - sent);
    this.programMiB.push(await memory.stop());
    if ((await pools.pulls.state(wanted.snapshotId))?.baseId !== (base?.snapshotId ?? null)) {
      throw new Error('another base');
    }
    return seconds;
  }

  async remove(): Promise<void> {
    await this.pools.keeper.remove(this.wanted.snapshotId);
  }
}

/** As a router has it done. Resolves to the bytes of the list. */
async function bring({ transfers, pulls }: TwoPools, wanted: DescribedSnapshot): Promise<bigint> {
  const { snapshotId } = wanted;
  const reader = 'bench';
  const transfer = await transfers.open({ snapshotId, reader, bases: await pulls.bases(wanted), offset: 0n }, signal);
  const { piece, ...served } = transfer;
  const order = {
    snapshot: wanted,
    pool: '',
    cloneName: null,
    isAsked: true,
    piece: { host: '127.0.0.1', ...served, ...piece },
  };
  const { status, failure } = await pulls.pull(order, 3_600_000, signal);
  await transfers.close({ snapshotId, reader });
  if (status !== 'complete') throw new Error(failure ?? status);
  return piece.dataBytes;
}

/** The first bytes of the snapshot, from one device to another, by programs that everybody has. */
export async function socatSeconds(
  { source, target, certificate, key }: TwoPools,
  { snapshotId }: DescribedSnapshot,
  dataBytes: number,
): Promise<number> {
  const from = await source.snapshots.open?.(snapshotId);
  const replicaId = newSnapshotId(KEY);
  await target.replicas.begin(replicaId, BigInt(dataBytes), null);
  const to = await target.replicas.open(replicaId);
  await run('sync', [], CHECK);
  const listen = `OPENSSL-LISTEN:${PORT},reuseaddr,cert=${certificate},key=${key},verify=0,openssl-min-proto-version=TLS1.3`;
  const connect = `OPENSSL:127.0.0.1:${PORT},verify=0,retry=100,interval=0.01`;
  const receive = `socat -u -b 1048576 '${listen}' - | dd of=${to.path} bs=1M iflag=fullblock conv=fsync,nocreat status=none`;
  const send = `dd if=${from?.path} bs=1M count=${dataBytes / MIB} status=none | socat -u -b 1048576 - '${connect}'`;
  const started = performance.now();
  await Promise.all([run('sh', ['-c', receive], CHECK), run('sh', ['-c', send], CHECK)]);
  const seconds = (performance.now() - started) / 1000;
  await from?.close();
  await to.close();
  await target.replicas.delete(replicaId);
  return seconds;
}

const loopbackBytes = (): number => Number(readFileSync('/sys/class/net/lo/statistics/tx_bytes', 'utf8'));
