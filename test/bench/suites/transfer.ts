/**
 * Suite transfer: pulls of a snapshot from one pool to another over the loopback interface, by what the plugin runs for it,
 * beside dd and socat with TLS 1.3. Counts the bytes on the loopback interface: nothing else may use it meanwhile.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
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
import { makePool, requireRoot } from '../../../src/tools/bench/pool.js';
import type { Row } from '../../../src/tools/bench/row.js';
import { run } from '../../../src/tools/bench/run.js';
import { type Settings, type Suite, shuffledRounds } from '../../../src/tools/bench/suite.js';
import { Workspace } from '../../../src/tools/bench/workspace.js';
import { issueCertificates } from '../certificates.js';
import { findProgram, isMissing } from '../programs.js';
import { targetOf } from '../targets.js';

const KIB = 2 ** 10;
const MIB = 2 ** 20;
const SIZES = { full: 4096 * MIB, tiny: 64 * MIB } as const;
const CHANGED_SHARE = 0.01;
const KEY = '0'.repeat(12);
const PORT = 10_909;
const SLACK_S = 0.3;
const CHECK = { check: true };

export const suite: Suite = {
  name: 'transfer',
  describes: 'pulls of snapshots between two pools over TLS, beside dd through socat (root, nbdkit, libnbd-bin, socat)',

  async run(settings: Settings): Promise<Row[]> {
    requireRoot();
    for (const program of ['nbdkit', 'nbdcopy', 'socat']) {
      const found = findProgram(program);
      if (isMissing(found)) throw new Error(found.missing);
    }
    const place = await makePlace(settings);
    const { bytes, dataBytes } = place;
    const first = await place.snapshot((file) => fill(file, dataBytes));
    const large = await place.snapshot((file) => change(settings, file, dataBytes, 64 * KIB));
    const small = await place.snapshot((file) => change(settings, file, dataBytes, 4 * KIB));
    const whole = pullOf(place, first, null);
    const peer = { label: 'dd, socat', measure: () => socatSeconds(place, first) };
    const contenders = { whole, peer, large: pullOf(place, large, first), small: pullOf(place, small, large) };
    settings.say(`pulls of ${dataBytes / MIB} MiB in a volume of ${bytes / MIB} MiB, ${settings.rounds} rounds`);
    const found = await shuffledRounds(settings, Object.values(contenders), ({ measure }) => measure());
    const seconds = (name: keyof typeof contenders): number[] => found.get(contenders[name]) ?? [];
    const rates = (name: keyof typeof contenders): number[] => seconds(name).map((each) => dataBytes / MIB / each);
    const facts = { 'MiB of the volume': bytes / MIB, 'MiB of data': dataBytes / MIB };
    const memory = whole.programMiB;
    return [
      {
        name: 'transfer-whole',
        measures: 'a whole pull, until it is durable, beside dd through socat with TLS 1.3 and dd with fsync',
        ours: { label: 'pull', unit: 'MiB/s', rounds: rates('whole') },
        peer: { label: peer.label, unit: 'MiB/s', rounds: rates('peer') },
        better: 'higher',
        facts,
      },
      ...(['large', 'small'] as const).flatMap((name) => {
        const suffix = name === 'large' ? '' : '-blocks';
        const pieces = `1 % changed in pieces of ${name === 'large' ? 64 : 4} KiB`;
        const changedBytes = contenders[name].changedBytes();
        const bare = seconds(name).map(
          (each, round) => Math.max(0, each - SLACK_S) / (seconds('whole')[round] ?? Number.NaN),
        );
        const sent = contenders[name].sentBytes;
        return [
          {
            name: `transfer-delta${suffix}`,
            measures: `a pull after ${pieces}, beside the whole one`,
            ours: { label: 'pull of the delta', unit: 's', rounds: seconds(name) },
            peer: { label: 'whole pull', unit: 's', rounds: seconds('whole') },
            target: targetOf(`transfer-delta${suffix}`, bare),
            facts: { ...facts, 'changed share': CHANGED_SHARE },
          },
          {
            name: `transfer-delta${suffix}-bytes`,
            measures: `bytes on the wire of a pull after ${pieces}, beside the changed bytes`,
            ours: { label: 'bytes on the wire', unit: 'MiB', rounds: sent.map((each) => each / MIB) },
            peer: { label: 'changed', unit: 'MiB', rounds: sent.map(() => changedBytes / MIB) },
            facts,
          },
        ];
      }),
      {
        name: 'transfer-memory',
        measures: 'memory of nbdkit and nbdcopy together during a whole pull, the most of each',
        ours: { label: 'both', unit: 'MiB', rounds: memory },
        peer: { label: 'no peer', unit: 'MiB', rounds: [] },
        target: targetOf('transfer-memory', memory),
        facts,
      },
    ];
  },
};

interface Place {
  bytes: number;
  dataBytes: number;
  transfers: OpenTransfers;
  pulls: Pulls;
  keeper: ReplicaKeeper;
  source: ReflinkBackend;
  target: ReflinkBackend;
  certificate: string;
  key: string;
  /** The directory of the workspace, which the programs of this run name. */
  directory: string;
  snapshot(write: (file: number) => void): Promise<DescribedSnapshot>;
}

const signal = new AbortController().signal;
const quiet = { info: () => undefined, warn: () => undefined };

async function makePlace(settings: Settings): Promise<Place> {
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
  const bytes = SIZES[settings.size];
  const volumeId = newVolumeId(KEY);
  await source.volumes.create(volumeId, BigInt(bytes));
  const snapshot = async (write: (file: number) => void): Promise<DescribedSnapshot> => {
    const { devicePath } = await source.attachments.attach(volumeId, { readOnly: false });
    const file = openSync(devicePath, 'r+');
    write(file);
    fsyncSync(file);
    closeSync(file);
    await source.attachments.detach(volumeId);
    const snapshotId = newSnapshotId(KEY);
    await source.snapshots.create([{ volumeId, snapshotId }]);
    const own = {
      snapshotId,
      volumeId,
      sizeBytes: BigInt(bytes),
      sequence: BigInt(taken.size + 1),
      creationTimeNs: 1n,
    };
    const row = { name: snapshotId, groupSnapshotId: null, pool: 'bench', state: 'ready' as const, parameters: {} };
    taken.set(snapshotId, { ...own, ...row, pristine: false });
    const facts = { pristine: false, fileSystem: null, capabilities: [] };
    return { ...own, ...facts, catalogueUuid: 'c', poolUuid: 'd' };
  };
  const issued = await issueCertificates(workspace.directory, { peer: 'DNS:localhost' });
  return {
    bytes,
    dataBytes: bytes / 2,
    transfers,
    pulls,
    keeper,
    source,
    target,
    certificate: issued.peer['BLOCKDELTA_TLS_CERTIFICATE'] ?? '',
    key: issued.peer['BLOCKDELTA_TLS_KEY'] ?? '',
    directory: workspace.directory,
    snapshot,
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
function fill(file: number, bytes: number): void {
  for (let at = 0; at < bytes; at += MIB) writeSync(file, randomBytes(MIB), 0, MIB, at);
}

/** Overwrites a hundredth of the data in pieces at random places. */
function change({ random }: Settings, file: number, bytes: number, size: number): void {
  const pieces = bytes / size;
  for (let count = Math.floor(pieces * CHANGED_SHARE); count > 0; count -= 1) {
    writeSync(file, randomBytes(size), 0, size, random.below(pieces) * size);
  }
}

interface Pull {
  label: string;
  /** One figure a round, as the seconds that `measure` returns. */
  sentBytes: number[];
  programMiB: number[];
  changedBytes(): number;
  measure(): Promise<number>;
}

/** What it needs is there before the clock starts, and what it makes is gone after. */
function pullOf(place: Place, wanted: DescribedSnapshot, base: DescribedSnapshot | null): Pull {
  const { pulls, keeper } = place;
  let changedBytes = 0n;
  const sentBytes: number[] = [];
  const programMiB: number[] = [];
  return {
    label: base === null ? 'whole' : 'delta',
    sentBytes,
    programMiB,
    changedBytes: () => Number(changedBytes),
    async measure() {
      if (base !== null) await bring(place, base);
      await run('sync', [], CHECK);
      const memory = watchPrograms(place.directory);
      const sent = loopbackBytes();
      const started = performance.now();
      changedBytes = await bring(place, wanted);
      const seconds = (performance.now() - started) / 1000;
      sentBytes.push(loopbackBytes() - sent);
      programMiB.push(await memory.stop());
      if ((await pulls.state(wanted.snapshotId))?.baseId !== (base?.snapshotId ?? null))
        throw new Error('another base');
      for (const each of [wanted, ...(base === null ? [] : [base])]) await keeper.remove(each.snapshotId);
      return seconds;
    },
  };
}

/** As a router has it done. Resolves to the bytes of the list. */
async function bring({ transfers, pulls }: Place, wanted: DescribedSnapshot): Promise<bigint> {
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

/** The bytes of the data from one device to another. */
async function socatSeconds({ source, target, certificate, key, dataBytes }: Place, { snapshotId }: DescribedSnapshot) {
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

/** The sum of the most that nbdkit and nbdcopy have used at once, each, MiB. */
function watchPrograms(directory: string): { stop(): Promise<number> } {
  const most = new Map<string, number>();
  let isOver = false;
  const watching = (async () => {
    while (!isOver) {
      for (const pid of readdirSync('/proc')) look(pid, directory, most);
      await delay(50);
    }
  })();
  return {
    async stop() {
      isOver = true;
      await watching;
      return [...most.values()].reduce((sum, each) => sum + each, 0);
    },
  };
}

function look(pid: string, directory: string, most: Map<string, number>): void {
  try {
    const name = readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
    if (name !== 'nbdkit' && name !== 'nbdcopy') return;
    if (!readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(directory.split('/').at(-1) ?? directory)) return;
    const [, kib] = /^VmHWM:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    most.set(name, Math.max(most.get(name) ?? 0, Number(kib ?? 0) / KIB));
  } catch {
    // It has ended, or the entry is no process.
  }
}
