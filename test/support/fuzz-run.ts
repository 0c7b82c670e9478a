/** Sends the requests of a fuzzer over several connections at once, and judges the answers. */
import { readFileSync } from 'node:fs';
import type { ServiceError } from '@grpc/grpc-js';
import { StatusCode } from '../../src/errors.js';
import type { Random } from './random.js';
import { allRpcs, decodeMessage, RawConnection, type RpcDescription } from './raw-call.js';
import { type FuzzWorld, RequestFuzzer } from './request-fuzzer.js';

const CONNECTIONS = 4;
const IN_FLIGHT_EACH = 8;
/** Enough to see what is wrong; the run ends there. */
const MAX_FAULTS = 10;
/** Ids of one kind that requests are made about: the latest. */
const MAX_IDS = 30;

/** What a lawful request may be answered with, and so what any request may. */
const ALLOWED: ReadonlySet<number> = new Set([
  StatusCode.OK,
  StatusCode.INVALID_ARGUMENT,
  StatusCode.NOT_FOUND,
  StatusCode.ALREADY_EXISTS,
  StatusCode.RESOURCE_EXHAUSTED,
  StatusCode.FAILED_PRECONDITION,
  StatusCode.ABORTED,
  StatusCode.OUT_OF_RANGE,
  StatusCode.UNIMPLEMENTED,
]);

/** Resident memory of the plugin, MiB. */
export interface Memory {
  warm: number;
  end: number;
}

export class FuzzRun {
  /** How often each status was answered, by RPC and name. */
  readonly answers = new Map<string, number>();
  readonly faults: string[] = [];
  readonly #connections: readonly RawConnection[];
  readonly #fuzzer: RequestFuzzer;
  readonly #rpcs = allRpcs();
  #sent = 0;

  constructor(
    endpoint: string,
    private readonly pid: number,
    private readonly random: Random,
    private readonly world: FuzzWorld,
  ) {
    this.#fuzzer = new RequestFuzzer(random, world);
    this.#connections = Array.from({ length: CONNECTIONS }, () => new RawConnection(endpoint));
  }

  async run(requests: number, warmUp: number): Promise<Memory> {
    await this.#sendUntil(warmUp);
    const warm = rssMiB(this.pid);
    await this.#sendUntil(requests);
    return { warm, end: rssMiB(this.pid) };
  }

  unary(path: string, request: Buffer): Promise<Buffer> {
    return (this.#connections[0] as RawConnection).unary(path, request);
  }

  close(): void {
    for (const connection of this.#connections) connection.close();
  }

  async #sendUntil(total: number): Promise<void> {
    const worker = async (connection: RawConnection): Promise<void> => {
      while (this.#sent < total && this.faults.length < MAX_FAULTS) await this.#one(connection);
    };
    const workers = this.#connections.flatMap((connection) =>
      Array.from({ length: IN_FLIGHT_EACH }, () => worker(connection)),
    );
    await Promise.all(workers);
  }

  async #one(connection: RawConnection): Promise<void> {
    const number = this.#sent;
    this.#sent += 1;
    const rpc = this.random.pick(this.#rpcs);
    const bytes = this.#fuzzer.next(rpc);
    let code: number = StatusCode.OK;
    let told = '';
    try {
      learn(this.world, rpc, await connection.call(rpc, bytes));
    } catch (thrown) {
      const { code: found, details } = thrown as Partial<ServiceError>;
      code = found ?? -1;
      told = found === undefined ? String(thrown) : (details ?? '');
    }
    const name = Object.entries(StatusCode).find(([, value]) => value === code)?.[0] ?? `${code}`;
    this.answers.set(name, (this.answers.get(name) ?? 0) + 1);
    if (ALLOWED.has(code) && (code === StatusCode.OK || told !== '')) return;
    const shown = bytes.subarray(0, 120).toString('base64');
    this.faults.push(`request ${number}, ${rpc.name}: ${name} '${told}'\n  ${shown}`);
  }
}

/** Ids of what was made, so that later requests are about it. */
function learn(world: FuzzWorld, rpc: RpcDescription, answer: Buffer): void {
  const add = (ids: string[], id: unknown): void => {
    if (typeof id === 'string' && !ids.includes(id)) ids.push(id);
    if (ids.length > MAX_IDS) ids.shift();
  };
  const message = decodeMessage(rpc.responseType, answer);
  if (rpc.name === 'CreateVolume') add(world.volumeIds, message['volume'].volume_id);
  if (rpc.name === 'CreateSnapshot') add(world.snapshotIds, message['snapshot'].snapshot_id);
  if (rpc.name === 'CreateVolumeGroupSnapshot') {
    add(world.groupIds, message['group_snapshot'].group_snapshot_id);
  }
}

function rssMiB(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Math.round(Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024);
}
