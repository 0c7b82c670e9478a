/**
 * Changes of a pool that a kill at any point neither loses nor repeats: one at a time, each under a
 * transaction id of its own.
 *
 * The kernel commits each message by itself and knows numbers only. So the ledger first says what is
 * about to happen and which transaction id the pool will have then, the messages follow, then the
 * pool's id is raised, then the ledger takes it over. Whatever was left half way is settled before
 * the next change, by the id that the pool has:
 *
 *   the old one   devices that were to be made are deleted; a deletion is carried out
 *   the new one   it has happened
 *   another       the metadata is not the one that the ledger belongs to: nothing is done
 */
import { CsiError, errorCode } from '../../../base/errors.js';
import type { SerialQueue } from '../../../base/serial-queue.js';
import type { DeviceRecord, NewDevice, OpenTransaction } from '../ledger/ledger.js';
import type { AsyncLedger } from '../ledger/ledger-client.js';
import type { MetadataReader } from '../metadata/metadata-reader.js';
import { assertWritable } from './pool-health.js';
import type { ThinPool } from './thin-pool.js';

export interface TransactionDependencies {
  ledger: AsyncLedger;
  pool: ThinPool;
  queue: SerialQueue;
  look: MetadataReader;
}

/** In a row, before a change gives up. */
const STRANGERS_PASSED = 1000;

export class PoolTransactions {
  constructor(private readonly deps: TransactionDependencies) {}

  /**
   * Makes devices. `act` sends the messages for them, in the order asked for; when it fails, what it
   * made is deleted again. ALREADY_EXISTS if an object has a device.
   */
  create<T>(
    devices: readonly NewDevice[],
    act: (made: readonly DeviceRecord[]) => Promise<T>,
  ): Promise<T> {
    return this.deps.queue.run(async () => {
      await this.#prepare();
      const { ledger } = this.deps;
      await this.#passStrangers(devices.length);
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

  /** FAILED_PRECONDITION if somebody has the device active; it stays then. */
  delete(objectId: string): Promise<void> {
    return this.deps.queue.run(async () => {
      await this.#prepare();
      await this.deps.ledger.begin([], [objectId]);
      await this.#settle();
    });
  }

  /** Settles what was left half way, if the pool can be changed. Object ids of what was undone. */
  settle(): Promise<string[]> {
    return this.deps.queue.run(() => this.#settle());
  }

  /** What is thrown for it. What cannot be settled now is settled before the next change. */
  async #afterFailure(thrown: unknown): Promise<unknown> {
    const { ledger, pool } = this.deps;
    const code = errorCode(thrown);
    if (code === 'EEXIST') {
      // One that came just now has an id that was given: nothing of ours was made then.
      await ledger.undo().catch(() => undefined);
      return CsiError.aborted(
        `another tool has made a device in pool '${pool.pool}' under the id that was to be given next; ` +
          'nothing was made: try again',
        { cause: thrown },
      );
    }
    const failure = await this.#settle().catch((unsettled: unknown) => unsettled);
    // The kernel says no more of a transaction id that somebody else has raised.
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
      await this.#carryOut(transaction);
      return [];
    }
    await this.#takeBack(transaction);
    return transaction.creates.map(({ objectId }) => objectId);
  }

  async #carryOut(transaction: OpenTransaction): Promise<void> {
    const { ledger } = this.deps;
    for (const device of transaction.deletes) {
      try {
        await this.#delete(device);
      } catch (thrown) {
        if (errorCode(thrown) !== 'EBUSY') throw thrown;
        await ledger.undo();
        throw CsiError.failedPrecondition(
          `${device.kind} ${device.objectId} is in use: thin device ${device.deviceId} of pool ` +
            `'${this.deps.pool.pool}' is active under a name that is not the plugin's; remove that device`,
          { cause: thrown },
        );
      }
    }
    await this.#raise(transaction);
    await ledger.apply();
  }

  /**
   * Another tool's device with an id that is given next would look like a half-made one of ours, when the
   * change is taken back: by its transaction id it may be as young.
   */
  async #passStrangers(count: number): Promise<void> {
    const { ledger, look, pool } = this.deps;
    for (let tries = 0; tries < STRANGERS_PASSED; tries += 1) {
      const taken = await look.unconfirmedDevicesInQueue(await ledger.upcomingIds(count));
      const [last] = [...taken.keys()].slice(-1);
      if (last === undefined) return;
      await ledger.skipDeviceIds(last);
    }
    throw CsiError.resourceExhausted(
      `pool '${pool.pool}' holds too many devices that are not the plugin's: delete some, they are the ` +
        'unknown ones in the log of a start',
    );
  }

  /** Only what was made since: a device that has one of the ids and is older is somebody else's. */
  async #takeBack({ opens, creates }: OpenTransaction): Promise<void> {
    const found = await this.deps.look.devicesInQueue(creates.map(({ deviceId }) => deviceId));
    for (const device of creates) {
      if (found.get(device.deviceId)?.transactionId === opens - 1n) await this.#delete(device);
    }
    await this.deps.ledger.undo();
  }

  async #delete({ deviceId }: DeviceRecord): Promise<void> {
    try {
      await this.deps.pool.tell([`delete ${deviceId}`]);
    } catch (thrown) {
      if (errorCode(thrown) !== 'ENODATA') throw thrown;
    }
  }

  async #raise({ opens }: OpenTransaction): Promise<void> {
    await this.deps.pool.tell([`set_transaction_id ${opens - 1n} ${opens}`]);
  }
}

function ofObject(devices: readonly DeviceRecord[], objectId: string): DeviceRecord {
  const found = devices.find((device) => device.objectId === objectId);
  if (found === undefined) throw new Error(`the transaction has no device for ${objectId}`);
  return found;
}

/** The metadata is older or newer than the ledger, or another pool's. */
export function unknownTransaction(pool: string, found: bigint, expected: bigint): CsiError {
  return CsiError.failedPrecondition(
    `pool '${pool}' has the transaction id ${found} and its ledger expects ${expected}: its metadata was ` +
      'restored, or changed by another tool, or the ledger pool.sqlite is not the one that belongs to ' +
      'it. Bring the two of one moment together; docs/backends.md says how',
  );
}
