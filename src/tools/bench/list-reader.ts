/** Reads a list to its end as bytes, and times its messages. Decodes nothing. */
import { type CsiConnection, isServiceError, type MetadataRpc } from '../client/connection.js';

export interface ReadOptions {
  /** Called with the bytes of each message, which are valid only during the call. */
  onMessage?: (message: Buffer) => void;
  /** The pause after each message, which makes the reader slow. */
  pauseMs?: number;
}

export interface Reading {
  messages: number;
  bytes: number;
  /** From the call to the first and to the last message. */
  firstMs: number;
  totalMs: number;
}

/** Rejects with the details of the stream's status if the status is not OK. */
export async function readList(
  connection: CsiConnection,
  rpc: MetadataRpc,
  request: object,
  options: ReadOptions = {},
): Promise<Reading> {
  const started = performance.now();
  const call = connection.bytes(rpc, request);
  const reading: Reading = { messages: 0, bytes: 0, firstMs: 0, totalMs: 0 };
  return new Promise((resolve, reject) => {
    call.on('data', (message: Buffer) => {
      reading.totalMs = performance.now() - started;
      if (reading.messages === 0) reading.firstMs = reading.totalMs;
      reading.messages += 1;
      reading.bytes += message.length;
      options.onMessage?.(message);
      if (options.pauseMs === undefined) return;
      call.pause();
      setTimeout(() => call.resume(), options.pauseMs);
    });
    call.once('error', (error) => reject(isServiceError(error) ? new Error(`${rpc}: ${error.details}`) : error));
    call.once('end', () => resolve(reading));
  });
}

export const readDelta = (
  connection: CsiConnection,
  base: string,
  target: string,
  options: ReadOptions = {},
): Promise<Reading> =>
  readList(connection, 'GetMetadataDelta', { base_snapshot_id: base, target_snapshot_id: target }, options);

export const readAllocated = (
  connection: CsiConnection,
  snapshot: string,
  options: ReadOptions = {},
): Promise<Reading> => readList(connection, 'GetMetadataAllocated', { snapshot_id: snapshot }, options);
