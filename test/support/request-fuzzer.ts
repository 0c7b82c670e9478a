/**
 * Generates hostile requests: hostile values in well-formed messages, messages with corrupted bytes, and
 * bytes that are not a message. The same seed generates the same requests for the same known objects.
 *
 * Every absolute path lies below the workspace, so that a vulnerable plugin does no harm.
 */
import protobuf from 'protobufjs';
import { csiMessage } from '../../src/base/csi/proto.js';
import type { Message } from './csi-client.js';
import { type FuzzWorld, NAMES, plausibleRequest } from './fuzz-world.js';
import type { Random } from './random.js';
import { allRpcs, type RpcDescription } from './raw-call.js';

/** What a fuzzer knows of an interface: its RPCs and messages, and which requests may succeed. */
export interface FuzzedProto {
  readonly rpcs: readonly RpcDescription[];
  /** @param name relative to the package */
  typeOf(name: string): protobuf.Type;
  plausible(rpc: string, random: Random, world: FuzzWorld): Message;
  /** Fields without which nothing of a request is looked at. */
  always(rpc: string): Message;
  /** The id of the volume, or of the snapshot, that an answer says was made. */
  volumeId(answer: Message): string;
  snapshotId(answer: Message): string;
}

export const CSI_V1: FuzzedProto = {
  rpcs: allRpcs(),
  typeOf: csiMessage,
  plausible: plausibleRequest,
  always: () => ({}),
  volumeId: ({ volume }) => volume.volume_id,
  snapshotId: ({ snapshot }) => snapshot.snapshot_id,
};

const MIB = 1n << 20n;
const INT64_MAX = 2n ** 63n - 1n;
const NUMBERS = [0n, 1n, -1n, 4095n, 16n * MIB, 17n * MIB, 2n ** 53n + 1n, INT64_MAX, -(2n ** 63n)];
const INT32 = [0, 1, 2, -1, 2 ** 31 - 1, -(2 ** 31), 100_000];
const TEXTS = [
  '',
  '../../../../etc/passwd',
  '..',
  '/',
  'a/b',
  '__proto__',
  'constructor',
  "'; DROP TABLE volumes; --",
  '%s%n%x',
  '\u0000',
  '\u001b[2J',
  '\u202etxt',
  '\ud83d\ude00',
  'x'.repeat(128),
  'x'.repeat(129),
  '\u00e9'.repeat(64),
  'x'.repeat(70_000),
];
const KEYS = ['pool', 'mkfsOptions', 'mountOptions', 'readAheadKiB', 'ioScheduler', 'no such key'];
const VALUES = ['main', '', 'max', '0', '-1', '-O ^has_journal', 'exec,suid', 'none', 'x'.repeat(5000)];
/** Twice the limit of gRPC's receiver is never reached: what is over is cut to a little over. */
const HUGE_BYTES = (4 << 20) + 4096;

type Plain = Record<string, unknown>;

export class RequestFuzzer {
  constructor(
    private readonly random: Random,
    private readonly world: FuzzWorld,
    private readonly proto: FuzzedProto,
  ) {}

  /** The bytes of one request. */
  next(rpc: RpcDescription): Buffer {
    const chance = this.random.below(1000);
    if (chance < 4) return this.#huge(rpc);
    if (chance < 80) return this.random.bytes(this.random.below(200));
    if (chance < 100) return this.#nested();
    const message = chance < 600 ? this.#almostPlausible(rpc) : this.#wild(rpc);
    const bytes = this.#encode(rpc.requestType, message);
    return this.random.below(4) === 0 ? this.#tamper(bytes) : bytes;
  }

  /** As it should be, or with one field that is not. */
  #almostPlausible(rpc: RpcDescription): Plain {
    const message = this.proto.plausible(rpc.name, this.random, this.world);
    const { fieldsArray } = this.proto.typeOf(rpc.requestType);
    if (fieldsArray.length === 0 || this.random.below(2) === 0) return message;
    const found = this.random.pick(fieldsArray).resolve();
    return { ...message, [found.name]: this.#field(found, 0) };
  }

  /** Text or lists, up to and over the 4 MiB that gRPC takes. */
  #huge(rpc: RpcDescription): Buffer {
    const size = this.random.pick([1 << 20, (4 << 20) - 64, HUGE_BYTES]);
    const message = this.#encode(rpc.requestType, this.#wild(rpc));
    const number = 1 + this.random.below(8);
    if (this.random.below(2) === 0) {
      const filled = lengthDelimited((number << 3) | 2, Buffer.alloc(size, 'a'));
      return Buffer.concat([message, filled]);
    }
    // Empty elements of a list, or nothing, again and again.
    const element = Buffer.from([(number << 3) | 2, 0]);
    return Buffer.concat([message, Buffer.alloc(Math.min(size, 200_000), element)]);
  }

  /** Messages in messages, or groups in groups, deeper than any stack. */
  #nested(): Buffer {
    if (this.random.below(2) === 0) return Buffer.alloc(50_000, 0x0b + 8 * this.random.below(8));
    let bytes: Uint8Array = Buffer.alloc(0);
    const tag = (1 + this.random.below(8)) * 8 + 2;
    for (let depth = 0; depth < 200; depth += 1) bytes = lengthDelimited(tag, bytes);
    return Buffer.from(bytes);
  }

  /** A later byte wins over an earlier one, so that one message is turned into another. */
  #tamper(bytes: Buffer): Buffer {
    const at = this.random.below(bytes.length + 1);
    switch (this.random.below(7)) {
      case 0:
        return bytes.subarray(0, at);
      case 1: {
        const copy = Buffer.from(bytes);
        for (let flips = 0; flips < 3 && copy.length > 0; flips += 1) {
          const index = this.random.below(copy.length);
          copy[index] = (copy[index] ?? 0) ^ (1 << this.random.below(8));
        }
        return copy;
      }
      case 2:
        return Buffer.concat([bytes, bytes]);
      case 3:
        return Buffer.concat([bytes, Buffer.from([0x98, 0x06, 0x01])]);
      case 4: {
        const notText = Buffer.from([0x0a, 3, 0x61, 0xff, 0xc0]);
        return Buffer.concat([bytes, notText]);
      }
      case 5:
        return Buffer.concat([bytes.subarray(0, at), this.random.bytes(8), bytes.subarray(at)]);
      default: {
        // A number where text or a message belongs, or the other way round.
        const tag = ((1 + this.random.below(10)) << 3) | this.random.pick([0, 1, 2, 5]);
        return Buffer.concat([bytes, Buffer.from([tag, 1, 0x41, 0, 0, 0, 0, 0, 0])]);
      }
    }
  }

  #encode(typeName: string, message: Plain): Buffer {
    const type = this.proto.typeOf(typeName);
    return Buffer.from(type.encode(type.fromObject(message)).finish());
  }

  #wild(rpc: RpcDescription): Plain {
    const message = this.#message(this.proto.typeOf(rpc.requestType), 0);
    // Or hardly a request would get past the first check.
    return this.random.below(20) === 0 ? message : { ...message, ...this.proto.always(rpc.name) };
  }

  #message(type: protobuf.Type, depth: number): Plain {
    const message: Plain = {};
    for (const oneof of type.oneofsArray) {
      const member = this.random.pick(oneof.fieldsArray);
      if (this.random.below(10) > 0) message[member.name] = this.#value(member.resolve(), depth);
    }
    for (const found of type.fieldsArray.map((one) => one.resolve())) {
      if (found.partOf !== null || this.random.below(10) < 2) continue;
      message[found.name] = this.#field(found, depth);
    }
    return message;
  }

  #field(found: protobuf.Field, depth: number): unknown {
    if (found instanceof protobuf.MapField) return this.#map(found.name);
    if (!found.repeated) return this.#value(found, depth);
    const length = this.random.pick([0, 1, 1, 2, 9]);
    return Array.from({ length }, () => this.#value(found, depth));
  }

  #value(found: protobuf.Field, depth: number): unknown {
    if (found.resolvedType instanceof protobuf.Type) {
      return depth > 5 ? {} : this.#message(found.resolvedType, depth + 1);
    }
    if (found.resolvedType instanceof protobuf.Enum) {
      return this.random.pick([1, 1, 1, 2, 0, 6, 7, 77, -1]);
    }
    if (found.type === 'string') return this.#text(found.name);
    if (found.type === 'bool') return this.random.below(2) === 1;
    if (found.type === 'int64' || found.type === 'uint64') return String(this.random.pick(NUMBERS));
    return this.random.pick(INT32);
  }

  /** Plausible more often than not, so that requests get past the first check. */
  #text(name: string): string {
    const { random, world } = this;
    if (random.below(10) < 2) return random.pick(TEXTS);
    if (name === 'staging_target_path') return random.pick(world.paths);
    if (name.endsWith('_path')) return random.pick([...world.paths, ...world.otherPaths]);
    if (name === 'name') return random.pick(NAMES);
    if (name.includes('group_snapshot_id')) return random.pick([...world.groups.map(({ id }) => id), 'group-x']);
    if (name.includes('snapshot_id')) return random.pick([...world.snapshotIds, 'snap-x']);
    if (name.includes('volume_id')) return random.pick([...world.volumeIds, 'vol-x']);
    if (name === 'node_id') return random.pick(['test-node', 'other-node']);
    if (name === 'fs_type') return random.pick(['', 'ext4', 'ext4', 'xfs', 'btrfs', 'ntfs']);
    if (name === 'mount_flags') return random.pick(['ro', 'noatime', 'bind', 'exec,dev', 'x=/etc']);
    if (name === 'volume_mount_group') return '';
    return random.pick(TEXTS);
  }

  #map(name: string): Record<string, string> {
    const { random, world } = this;
    const map: Record<string, string> = {};
    if (random.below(10) < 7) return name === 'parameters' ? { pool: world.pool } : map;
    for (let entries = random.below(4); entries > 0; entries -= 1) {
      const key = random.below(3) === 0 ? random.pick(TEXTS) : random.pick(KEYS);
      Object.defineProperty(map, key, { value: random.pick(VALUES), enumerable: true, configurable: true });
    }
    return map;
  }
}

function lengthDelimited(tag: number, bytes: Uint8Array): Uint8Array {
  return protobuf.Writer.create().uint32(tag).bytes(bytes).finish();
}
