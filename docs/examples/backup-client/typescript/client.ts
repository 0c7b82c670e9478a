// Brings a raw image of a volume up to date from changed-block lists of any CSI driver.
//
//   node client.js PROTO SOCKET DEVICE IMAGE TARGET [BASE]
//
// PROTO is csi.proto, SOCKET the driver's unix socket, DEVICE a block device (or file) with the content of the snapshot
// TARGET, and IMAGE a raw file that holds the snapshot BASE. Without BASE, or if the driver gives no delta from it, the
// image is made anew from the allocated ranges.
import { open, rename } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type ClientReadableStream,
  credentials,
  loadPackageDefinition,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import { load } from '@grpc/proto-loader';

interface Message {
  volume_capacity_bytes: string;
  block_metadata: { byte_offset: string; size_bytes: string }[];
}

const ATTEMPTS = 5;
const CHUNK_BYTES = 1 << 20;
/** No sound delta can be had: the base is gone, or the driver cannot compare the two. Anything else is an error. */
const NO_DELTA: readonly number[] = [status.NOT_FOUND, status.FAILED_PRECONDITION];
/** The stream broke, and the next one may not. */
const INTERRUPTED: readonly number[] = [status.UNAVAILABLE, status.ABORTED, status.DEADLINE_EXCEEDED, status.CANCELLED];

const [proto = '', socket = '', device = '', image = '', target = '', base = ''] = process.argv.slice(2);
const definition = await load(proto, { keepCase: true, longs: String, defaults: true });
// biome-ignore lint/suspicious/noExplicitAny: the proto is loaded at run time
const { SnapshotMetadata } = (loadPackageDefinition(definition) as any).csi.v1;

/** The messages of one stream. Throws the status with which it ends, unless that is OK. */
async function* stream(rpc: string, request: object): AsyncGenerator<Message> {
  const client = new SnapshotMetadata(`unix://${socket}`, credentials.createInsecure(), {
    'grpc.default_authority': 'localhost',
    'grpc.max_receive_message_length': -1,
    'grpc.use_local_subchannel_pool': 1,
  });
  try {
    const call: ClientReadableStream<Message> = client[rpc](request);
    for await (const message of call) yield message as Message;
  } finally {
    client.close();
  }
}

/** Applies a list to the image; resumes broken streams where they broke. */
async function apply(path: string, rpc: string, ids: object): Promise<{ ranges: number; bytes: bigint }> {
  const from = await open(device, 'r');
  const to = await open(path, 'r+');
  const done = { ranges: 0, bytes: 0n };
  let position = 0n;
  let failures = 0;
  try {
    for (;;) {
      try {
        const request = { ...ids, starting_offset: `${position}`, max_results: 0 };
        for await (const message of stream(rpc, request)) {
          const capacity = BigInt(message.volume_capacity_bytes);
          await to.truncate(Number(capacity));
          for (const { byte_offset, size_bytes } of message.block_metadata) {
            // The first range of a resumed stream may begin before the offset that was asked for.
            const offset = BigInt(byte_offset);
            const end = offset + BigInt(size_bytes);
            if (end > capacity || end <= position) throw new Error(`the list is wrong at ${offset}`);
            await copy(from, to, offset > position ? offset : position, end);
            done.ranges += 1;
            done.bytes += end - offset;
            position = end;
          }
          failures = 0;
        }
        await to.sync();
        return done;
      } catch (thrown) {
        failures += 1;
        const isInterrupted = INTERRUPTED.includes((thrown as ServiceError).code);
        if (!isInterrupted || failures === ATTEMPTS) throw thrown;
        await delay(200 * 2 ** failures);
      }
    }
  } finally {
    await from.close();
    await to.close();
  }
}

type File = Awaited<ReturnType<typeof open>>;

async function copy(from: File, to: File, start: bigint, end: bigint): Promise<void> {
  const buffer = Buffer.alloc(CHUNK_BYTES);
  for (let at = Number(start); at < Number(end); ) {
    const length = Math.min(CHUNK_BYTES, Number(end) - at);
    const { bytesRead } = await from.read(buffer, 0, length, at);
    if (bytesRead === 0) throw new Error(`${device} ends at ${at}, before the range does`);
    await to.write(buffer, 0, bytesRead, at);
    at += bytesRead;
  }
}

/**
 * The old image stays until the new one is complete: the target may not exist either. The new one reads as zeros where no range is
 * written.
 */
async function full(): Promise<{ ranges: number; bytes: bigint }> {
  const file = await open(`${image}.new`, 'w');
  await file.close();
  const made = await apply(`${image}.new`, 'GetMetadataAllocated', { snapshot_id: target });
  await rename(`${image}.new`, image);
  return made;
}

let method = 'delta';
let done: { ranges: number; bytes: bigint };
try {
  if (base === '') throw Object.assign(new Error('no base'), { code: status.NOT_FOUND });
  const ids = { base_snapshot_id: base, target_snapshot_id: target };
  done = await apply(image, 'GetMetadataDelta', ids);
} catch (thrown) {
  if (!NO_DELTA.includes((thrown as ServiceError).code)) throw thrown;
  method = 'full';
  done = await full();
}
process.stdout.write(`${method} ${done.ranges} ${done.bytes}\n`);
