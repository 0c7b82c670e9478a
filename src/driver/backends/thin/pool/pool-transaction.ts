/**
 * Changes of a pool that survive a kill at any point: one at a time, each with its own transaction id.
 *
 * The kernel commits every message separately and knows device numbers only. So the ledger first records the change and the
 * transaction id that the pool will have afterwards; then the messages are sent, the pool's transaction id is raised, and the
 * ledger applies the change. Before the next change, an interrupted change is completed or undone, as the transaction id of
 * the pool says:
 *
 *   the old one   created devices are deleted; deletions are carried out
 *   the new one   the change is complete; the ledger applies it
 *   any other     the metadata does not belong to this ledger; nothing is done
 */
import { CsiError, errorCode, insteadOf } from '../../../../base/errors.js';
import type { SerialQueue } from '../../../serial-queue.js';
import type { DeviceRecord, NewDevice, OpenTransaction } from '../ledger/ledger.js';
import type { AsyncLedger } from '../ledger/ledger-client.js';
import type { MetadataReader } from '../metadata/metadata-reader.js';
import { assertWritable } from './pool-health.js';
import type { ThinPool } from './thin-pool.js';

export interface TransactionDependencies {
  ledger: AsyncLedger;
  pool: ThinPool;
  queue: SerialQueue;
  metadata: MetadataReader;
}

/** Consecutive device ids that foreign devices may occupy before a change fails. */
const MAX_FOREIGN_IDS = 1000;

export class PoolTransactions {
  constructor(private readonly deps: TransactionDependencies) {}

  /**
   * Creates devices. `act` sends the messages for the devices, in the given order; if it fails, the devices that it created
   * are deleted again. ALREADY_EXISTS if an object has a device.
   */
  create<T>(devices: readonly NewDevice[], act: (made: readonly DeviceRecord[]) => Promise<T>): Promise<T> {
    return this.deps.queue.run(async () => {
      await this.#prepare();
      const { ledger } = this.deps;
      await this.#skipForeignIds(devices.length);
      const transaction = await ledger.begin(devices, []);
      try {
        const made = devices.map(({ objectId }) => ofObject(transaction.creates, objectId));
        const result = await act(made);
        await this.#raise(transaction);
        await ledger.apply();
        return result;
      } catch (thrown) {
        throw await this.#afterFailure(thrown);
      }
    });
  }

  /** FAILED_PRECONDITION if a device is active; it is then kept, with those behind it. */
  delete(...objectIds: string[]): Promise<void> {
    return this.deps.queue.run(async () => {
      await this.#prepare();
      await this.deps.ledger.begin([], objectIds);
      await this.#settle();
    });
  }

  /**
   * Completes or undoes an interrupted change. FAILED_PRECONDITION if the pool is read-only. Returns the ids of undone
   * objects.
   */
  settle(): Promise<string[]> {
    return this.deps.queue.run(() => this.#settle());
  }

  /** Undoes or completes the change, now or else before the next change, and returns the error to throw. */
  async #afterFailure(thrown: unknown): Promise<unknown> {
    const { ledger, pool } = this.deps;
    const code = errorCode(thrown);
    if (code === 'EEXIST') {
      // A foreign device took an assigned id just now, so the kernel has created no device of this change.
      await ledger.undo().catch(() => undefined);
      return CsiError.aborted(
        `another tool has created a device in pool '${pool.pool}' with the id that was assigned to this one; ` +
          'nothing was created, try again',
        { cause: thrown },
      );
    }
    const failure = await this.#settle().catch((unsettled: unknown) => unsettled);
    // EINVAL is all that the kernel says about a transaction id that somebody else has raised.
    return code === 'EINVAL' && failure instanceof CsiError ? failure : thrown;
  }

  async #prepare(): Promise<void> {
    const { pool } = this.deps;
    assertWritable(pool.pool, await pool.status());
    await this.#settle();
  }

  async #settle(): Promise<string[]> {
    const { ledger, pool } = this.deps;
    const transaction = await ledger.openTransaction();
    if (transaction === null) return [];
    const status = await pool.status({ commit: true });
    assertWritable(pool.pool, status);
    if (status.transactionId === transaction.opens) {
      await ledger.apply();
      return [];
    }
    if (status.transactionId !== transaction.opens - 1n) {
      throw unknownTransaction(pool.pool, status.transactionId, transaction.opens - 1n);
    }
    if (transaction.deletes.length > 0) {
      await this.#deleteAll(transaction);
      return [];
    }
    await this.#undoCreation(transaction);
    return transaction.creates.map(({ objectId }) => objectId);
  }

  async #deleteAll(transaction: OpenTransaction): Promise<void> {
    const { ledger } = this.deps;
    for (const device of transaction.deletes) {
      try {
        await this.#delete(device);
      } catch (thrown) {
        if (errorCode(thrown) !== 'EBUSY') throw thrown;
        await ledger.undo();
        throw CsiError.failedPrecondition(
          `${device.kind} ${device.objectId} is in use: thin device ${device.deviceId} of pool ` +
            `'${this.deps.pool.pool}' is active under a foreign name; remove that device`,
          { cause: thrown },
        );
      }
    }
    await this.#raise(transaction);
    await ledger.apply();
  }

  /**
   * Skips ids that foreign devices occupy. Undoing the creation could not tell such a device from one of
   * the plugin, because both may have the same transaction id.
   */
  async #skipForeignIds(count: number): Promise<void> {
    const { ledger, metadata, pool } = this.deps;
    for (let tries = 0; tries < MAX_FOREIGN_IDS; tries += 1) {
      const taken = await metadata.unconfirmedDevicesInQueue(await ledger.upcomingIds(count));
      const [last] = [...taken.keys()].slice(-1);
      if (last === undefined) return;
      await ledger.skipDeviceIds(last);
    }
    throw CsiError.resourceExhausted(
      `pool '${pool.pool}' has too many foreign thin devices: no free id found in ${MAX_FOREIGN_IDS} attempts; ` +
        'delete some of them, the log of a start lists them as unknown',
    );
  }

  /** Deletes only devices of this transaction: an older device with one of the ids is foreign. */
  async #undoCreation({ opens, creates }: OpenTransaction): Promise<void> {
    const found = await this.deps.metadata.devicesInQueue(creates.map(({ deviceId }) => deviceId));
    for (const device of creates) {
      if (found.get(device.deviceId)?.transactionId === opens - 1n) await this.#delete(device);
    }
    await this.deps.ledger.undo();
  }

  async #delete({ deviceId }: DeviceRecord): Promise<void> {
    await this.deps.pool.send([`delete ${deviceId}`]).catch(insteadOf(['ENODATA'], undefined));
  }

  async #raise({ opens }: OpenTransaction): Promise<void> {
    await this.deps.pool.send([`set_transaction_id ${opens - 1n} ${opens}`]);
  }
}

function ofObject(devices: readonly DeviceRecord[], objectId: string): DeviceRecord {
  const found = devices.find((device) => device.objectId === objectId);
  if (found === undefined) throw new Error(`the transaction has no device for ${objectId}`);
  return found;
}

/** The error if the metadata is older or newer than the ledger, or belongs to another pool. */
export function unknownTransaction(pool: string, found: bigint, expected: bigint): CsiError {
  return CsiError.failedPrecondition(
    `pool '${pool}' has the transaction id ${found} and its ledger expects ${expected}: its metadata was ` +
      'restored, or changed by another tool, or the ledger pool.sqlite does not belong to it. Restore ' +
      'both from the same point in time, as docs/backends.md describes',
  );
}
