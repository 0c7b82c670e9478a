/** What this node can do for copies of snapshots of a volume: serve them to another node if it is its own, or hold them. */
import type { BackendRegistry } from '../backends/registry.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { TransferSettings } from '../config/transfers.js';
import type { Pulls } from './pulls.js';

export interface Room {
  /** It is the node of the volume, and other nodes can read its snapshots. */
  readonly serves: boolean;
  /** The pool that the parameters of its volume name; '': the default. */
  readonly pool: string;
  /** The pool that was asked about can hold replicas. */
  readonly holds: boolean;
  readonly roomBytes: bigint;
  /** Of the newest complete replica of the volume; 0 if there is none. */
  readonly newestSequence: bigint;
}

export interface RoomDependencies {
  catalogue: Pick<AsyncCatalogue, 'volumeById' | 'replicasOf'>;
  registry: BackendRegistry;
  pulls: Pick<Pulls, 'room'>;
  settings: Pick<TransferSettings, 'ports'>;
}

export async function findRoom(deps: RoomDependencies, volumeId: string, pool: string): Promise<Room> {
  const { catalogue, registry, settings, pulls } = deps;
  const volume = await catalogue.volumeById(volumeId);
  const canRead = volume !== null && registry.owning(volume.pool).snapshots.open !== undefined;
  const own = { serves: canRead && settings.ports.length > 0, pool: volume?.parameters['pool'] ?? '' };
  const backend = registry.hasPool(pool) ? registry.select(pool) : null;
  if (backend?.replicas === undefined) return { ...own, holds: false, roomBytes: 0n, newestSequence: 0n };
  const newest = (await catalogue.replicasOf(volumeId)).find(({ nextOffset }) => nextOffset === null);
  return { ...own, holds: true, roomBytes: await pulls.room(backend), newestSequence: newest?.sequence ?? 0n };
}
